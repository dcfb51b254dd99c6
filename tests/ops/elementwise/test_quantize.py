"""quantize and dequantize: to stored integers, from them, and from one quantisation to another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops.elementwise.quantize import quantize, thresholds
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.types import DType, Quantization, TensorType, float32
from tests.ops.integer_checks import check_integer, litert_integer
from tests.ops.quantized import DTYPES, Draw, both, every, every_width, near, quantized, reals, seeds, stored


@seeds
@every_width
def test_quantize(seed: int, dtype: DType, backend: str) -> None:
    draw = Draw(seed, dtype)
    y = draw.type(1, low=1e-6 if seed % 2 else 0.005, high=1e4 if seed % 2 else 0.2)
    assert y.quantization is not None
    scale, zero = y.quantization.scale[0], y.quantization.zero_point[0]
    edges = thresholds(dtype, scale, zero)[1:]
    below = np.nextafter(edges, np.float32(-np.inf))
    between = draw.rng.uniform(-300 * scale, 300 * scale, 1001).astype(np.float32)
    x = np.concatenate([edges, below, between, np.float32([np.inf, -np.inf, np.nan, -0.0, 1e-30])])
    attrs = {"dtype": dtype.value, "scale": scale, "zero_point": zero}
    (got,) = check_integer("quantize", [x], [float32(x.size)], attrs, backend=backend)
    steps = edges.size
    assert np.array_equal(got[:steps], every(y)[1:])
    assert np.array_equal(got[steps : 2 * steps], every(y)[:-1])
    assert got[-5:-1].tolist() == [LIMITS[dtype][1], LIMITS[dtype][0], zero, zero]
    near(got[2 * steps : -5], between.astype(np.float64), y, 0.5 + 1e-4)
    (expected,) = litert_integer("QUANTIZE", [x[:-5]], [float32(x.size - 5)], [y.with_shape((x.size - 5,))])
    np.testing.assert_array_equal(got[:-5], expected)
    within = np.append(edges, below[1:])  # nothing is clamped
    for part, like in ((within, np.append(got[:steps], got[steps + 1 : 2 * steps])), (x[:-5], expected)):
        (found,) = check_integer("quantize", [part], [float32(part.size)], attrs, backend=backend)
        np.testing.assert_array_equal(found, like)


@seeds
@every_width
@pytest.mark.parametrize("source", DTYPES, ids=lambda d: d.value)
def test_requantize(source: DType, dtype: DType, seed: int, backend: str) -> None:
    x = Draw(seed, source).type(256)
    y = Draw(seed + 100, dtype).type(256)
    assert x.quantization is not None and y.quantization is not None
    if seed == 0:
        y = quantized(dtype, (256,), x.quantization.scale[0], LIMITS[dtype][0] + 128)
    assert y.quantization is not None
    attrs = {
        "dtype": dtype.value,
        "scale": y.quantization.scale[0],
        "zero_point": y.quantization.zero_point[0],
    }
    values = every(x)
    (got,) = check_integer("quantize", [values], [x], attrs, backend=backend)
    near(got, reals(values, x), y, 1.01)
    (expected,) = litert_integer("QUANTIZE", [values], [x], [y], version=2, reference=False)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16], ids=lambda d: d.value)
@pytest.mark.parametrize("zero", [0, 1, -1, 2**31 - 1])
@pytest.mark.parametrize("scale", [2.0**-24, 0.5, 1.0, 3.0, 2.0**20])
def test_large_int32_numbers_wrap_around_as_in_litert(
    scale: float, zero: int, dtype: DType, backend: str
) -> None:
    numbers = (-(2**31), -(2**30), -(2**20), -5, 0, 5, 77, 2**20, 2**29, 2**30, 2**31 - 1)
    values = np.array(numbers, np.int32)
    x, y = quantized(DType.INT32, values.shape, scale, zero), quantized(dtype, values.shape, 1.0, 3)
    attrs = {"dtype": dtype.value, "scale": 1.0, "zero_point": 3}
    (got,) = check_integer("quantize", [values], [x], attrs, backend=backend)
    for reference in (False, True):
        (expected,) = litert_integer("QUANTIZE", [values], [x], [y], version=2, reference=reference)
        np.testing.assert_array_equal(got, expected)


@both
@pytest.mark.parametrize("source", DTYPES, ids=lambda d: d.value)
@pytest.mark.parametrize("count", [7, 16, 29, 1023])
def test_requantize_sends_halves_where_litert_does(
    count: int, source: DType, dtype: DType, backend: str
) -> None:
    x = quantized(source, (count,), 0.25, LIMITS[source][0] + 200)
    y = quantized(dtype, (count,), 2.0, LIMITS[dtype][0] + 100)
    attrs = {"dtype": dtype.value, "scale": 2.0, "zero_point": LIMITS[dtype][0] + 100}
    values = stored(count, x)
    (got,) = check_integer("quantize", [values], [x], attrs, backend=backend)
    (expected,) = litert_integer("QUANTIZE", [values], [x], [y], version=2, reference=False)
    np.testing.assert_array_equal(got, expected)
    (away,) = litert_integer("QUANTIZE", [values], [x], [y], version=2)
    whole = count - count % 16
    assert np.array_equal(got[whole:], away[whole:])
    assert (got[:whole] != away[:whole]).any() == (whole > 0)


def test_many_reals_are_rounded_like_few() -> None:
    rng = np.random.default_rng(3)
    few = np.append(rng.uniform(-9, 9, 98), (np.nan, np.inf)).astype(np.float32).reshape(10, 10)
    attrs = {"dtype": "int8", "scale": 0.05, "zero_point": 3}
    (expected,) = check_integer("quantize", [few], [float32(10, 10)], attrs, backend="cpu")
    for rows in (6554, 6555):  # 65,540 reals are more than one block
        many = np.resize(few, (rows, 10))
        for given in (many, many.T):
            found = quantize.reference(given, **attrs)
            like = np.resize(expected, (rows, 10))
            np.testing.assert_array_equal(found, like if given is many else like.T)


@every_width
def test_scales_that_float32_cannot_halve(dtype: DType) -> None:
    least = 2.0**-149
    counts = np.arange(-2000, 2001)
    attrs = {"dtype": dtype.value, "scale": 5 * least, "zero_point": 2}
    x = (counts * least).astype(np.float32)
    (found,) = check_integer("quantize", [x], [float32(x.size)], attrs, backend="cpu")
    assert np.array_equal(found, np.clip(np.rint(counts / 5) + 2, *LIMITS[dtype]))


@seeds
@every_width
def test_dequantize(seed: int, dtype: DType, backend: str) -> None:
    x = Draw(seed, dtype).type(77)
    values = stored(seed, x)
    (got,) = check_integer("dequantize", [values], [x], backend=backend)
    assert got.dtype == np.float32
    (expected,) = litert_integer("DEQUANTIZE", [values], [x], [float32(77)], version=2)
    np.testing.assert_array_equal(got, expected)


@every_width
def test_dequantize_one_number(dtype: DType, backend: str) -> None:
    (got,) = check_integer(
        "dequantize", [np.array(7, dtype.numpy)], [quantized(dtype, (), 0.5, 1)], backend=backend
    )
    assert got == 3


def test_dequantize_along_an_axis_and_of_16_bits(backend: str) -> None:
    x = TensorType(DType.INT8, (2, 3), Quantization((0.5, 2.0), (0, 1), 0))
    values = np.full((2, 3), 4, np.int8)
    (got,) = check_integer("dequantize", [values], [x], backend=backend)
    assert got.tolist() == [[2, 2, 2], [6, 6, 6]]
    short = quantized(DType.INT16, (3,), 0.5, -2)
    (got,) = check_integer("dequantize", [np.array([-2, 0, 300], np.int16)], [short], backend=backend)
    assert got.tolist() == [0, 1, 151]


@every_width
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5,), 0), ((3, 7), 0), ((3, 7), 1), ((2, 3, 5, 6), 3), ((4, 3, 1, 9), 1), ((3, 0), 0)],
)
def test_dequantize_along_any_axis(shape: tuple[int, ...], axis: int, dtype: DType, backend: str) -> None:
    rng = np.random.default_rng(axis)
    scales = rng.uniform(1e-3, 1, shape[axis]).astype(np.float32)
    low, high = LIMITS[dtype]
    zeros = rng.integers(low, high + 1, shape[axis])
    values = rng.integers(low, high + 1, shape).astype(dtype.numpy)
    x = TensorType(dtype, shape, Quantization(tuple(map(float, scales)), tuple(map(int, zeros)), axis))
    (got,) = check_integer("dequantize", [values], [x], backend=backend)
    rows = np.moveaxis(values.astype(np.float64), axis, -1)
    expected = ((rows - zeros) * scales.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(got, np.moveaxis(expected, -1, axis))


@pytest.mark.parametrize("scale", [0.1, 1e-39], ids=["no float32 number", "subnormal"])
def test_scales_that_float32_does_not_hold_are_multiplied_on_the_host(scale: float, backend: str) -> None:
    x = TensorType(DType.INT8, (2, 3), Quantization((0.5, scale), (0, 0), 0))
    check_integer("dequantize", [np.full((2, 3), 4, np.int8)], [x], backend=backend, host="no normal float32")


def test_a_scale_of_0_makes_zeros(backend: str) -> None:
    """A filter of dead channels has it."""
    x = TensorType(DType.INT8, (2, 3), Quantization((0.0,), (0,)))
    (got,) = check_integer("dequantize", [np.full((2, 3), 4, np.int8)], [x], backend=backend)
    assert not got.any()


def test_dequantize_widens_float16() -> None:
    model = Model()
    half = np.array([1.5, -2.0], np.float16)
    (y,) = model.add("dequantize", [model.constant("half", half)])
    assert y.type == float32(2)
    (got,) = model.operations[0].evaluate([half])
    assert got.dtype == np.float32
    assert got.tolist() == [1.5, -2.0]


@pytest.mark.parametrize(
    ("op", "type", "attrs", "message"),
    [
        ("dequantize", float32(3), {}, "must be quantised or float16, got float32"),
        (
            "dequantize",
            TensorType(DType.INT64, (3,), Quantization((1.0,), (0,))),
            {},
            "must be quantised or float16, got int64",
        ),
        *(
            ("dequantize", TensorType(DType.INT8, (2,), Quantization(scale, zero)), {}, message)
            for scale, zero, message in (
                ((math.nan,), (0,), "scales must be 0 or positive in float32, .* nan"),
                ((-1.0,), (0,), "scales must be 0 or positive in float32, .* -1.0"),
                ((1.0,), (128,), "zero points in -128 ... 127, got scale 1.0 and zero point 128"),
                ((1.0, math.inf), (0,), "scales must be 0 or positive in float32, .* inf"),
                ((1.0, -0.5), (0,), "scales must be 0 or positive in float32, .* -0.5"),
                ((1.0, 1.0), (0, -129), "zero points in -128 ... 127"),
            )
        ),
        (
            "quantize",
            TensorType(DType.INT32, (3,)),
            {"dtype": "int8", "scale": 1},
            "must be float32 or quantised",
        ),
        ("quantize", float32(3), {"dtype": "int64", "scale": 1}, "dtype must be one of uint8, int8, int16"),
        ("quantize", float32(3), {"dtype": "int8", "scale": 0}, "scale must be positive in float32"),
        ("quantize", float32(3), {"dtype": "int8", "scale": 1, "zero_point": 128}, "zero_point in -128"),
    ],
)
def test_errors(op: str, type: TensorType, attrs: dict[str, Any], message: str) -> None:
    model = Model()
    with pytest.raises(ModelError, match=message):
        model.add(op, [model.input("x", type)], attrs)
