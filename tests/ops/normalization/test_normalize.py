"""Normalisations: L2, local response, and rows of stored values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops.fixed_point.affine import LIMITS, dequantize
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.harness import ATOL, EPS, check, check_litert, model_of, random
from tests.ops.integer_checks import check_integer, integer_model, litert_integer
from tests.ops.nnapi_cases import check_cases
from tests.ops.quantized import quantized, stored

EIGHT_BITS = [DType.UINT8, DType.INT8]
ROWS = (
    ((3,), 0),
    ((2, 3, 4, 7), 1),
    ((3, 64), 1),
    ((70, 12), 0),
    ((5, 1001), 1),
    ((6, 4095), -1),
    ((0, 4), 1),
)
RESULTS = {"log_softmax": (1 / 16, 255), "l2_normalization": (1 / 128, 128)}


def result_of(op: str, dtype: DType) -> Quantization:
    """Return the quantisation in which the integer arithmetic of an op gives its result."""
    scale, above = RESULTS[op]
    return Quantization((scale,), (LIMITS[dtype][0] + above,))


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@pytest.mark.parametrize("op", RESULTS)
def test_rows_of_stored_values(op: str, dtype: DType, backend: str) -> None:
    """Within a step of the real number; logarithms within 1/2, because 31 steps of 2^k count as -16."""
    y, off = result_of(op, dtype), {"log_softmax": 8.6, "l2_normalization": 1.0}[op]
    for seed, (shape, axis) in enumerate(ROWS):
        type = quantized(dtype, shape, (0.002, 0.05, 1 / 16, 0.2)[seed % 4], LIMITS[dtype][0] + 30 * seed)
        x = stored(seed, type)
        (found,) = check_integer(op, [x], [type], {"axis": axis}, y, backend=backend)
        operation = integer_model(op, [x], [type], {"axis": axis}, y).operations[0]
        real = operation.definition.reference(dequantize(x, type).astype(np.float64), axis=axis)
        exact = np.clip(real / y.scale[0] + y.zero_point[0], *LIMITS[dtype])
        assert np.abs(found - exact).max(initial=0) < off


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("op", RESULTS)
def test_rows_have_the_bits_of_litert(op: str, reference: bool, dtype: DType) -> None:
    """LiteRT's default log_softmax computes in float32, so that few results differ."""
    for seed, depth in enumerate((1, 2, 3, 7, 50, 900, 4095)):
        type = quantized(
            dtype, (4, 2, 3, depth), (0.002, 0.05, 0.07, 0.2)[seed % 4], LIMITS[dtype][0] + 40 * seed
        )
        y, x = TensorType(dtype, type.shape, result_of(op, dtype)), stored(seed, type)
        (theirs,) = litert_integer(op.upper(), [x], [type], [y], version=2, reference=reference)
        ours = integer_model(op, [x], [type], {}, y.quantization).operations[0].evaluate([x])[0]
        if op == "log_softmax" and not reference:
            assert (ours != theirs).mean() < 1e-3
        else:
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_rows_of_extremes(dtype: DType, backend: str) -> None:
    """Rows of equal values and of zeros, the longest sums of squares, one element far above the others."""
    low, high = LIMITS[dtype]
    for zero in (low, high, low + 1, low + 128):
        type = quantized(dtype, (6, 33025), 0.2, zero)
        x = np.full(type.shape, zero, dtype.numpy)
        x[1], x[2], x[3, 0], x[4, ::2], x[5] = low, high, high, low, zero + (1 if zero < high else -1)
        (y,) = check_integer(
            "l2_normalization", [x], [type], {}, result_of("l2_normalization", dtype), backend=backend
        )
        assert (y[0] == low + 128).all()
        short, y = x[:, :300], result_of("log_softmax", dtype)
        (y,) = check_integer("log_softmax", [short], [type.with_shape(short.shape)], {}, y, backend=backend)
        assert (y[:3] == round(-np.log(300) * 16) + high).all()
        assert y[3].tolist() == ([high] + [low] * 299 if zero != high else [y[0, 0]] * 300)


def test_rows_without_integer_arithmetic(backend: str) -> None:
    type, other = quantized(DType.INT8, (2, 9), 0.1, 3), Quantization((0.5,), (3,))
    for op, host in (("log_softmax", "steps from -16 to 0"), ("l2_normalization", "steps of 1/128")):
        check_integer(op, [stored(0, type)], [type], {}, other, backend=backend, host=host)


AXES = (
    ((3,), 0),
    ((1, 2, 3, 4), -1),
    ((2, 3, 4, 7), 3),
    ((2, 3, 4, 7), 1),
    ((2, 3, 5, 8), 2),
    ((3, 64), 1),
    ((3, 65), -1),
    ((5, 1001), 1),
    ((70, 12), 0),
    ((130, 1), 1),
    ((0, 4), 1),
    ((4, 0), 1),
    ((2, 2, 2, 2, 3), -3),
)


@pytest.mark.parametrize(("shape", "axis"), AXES)
def test_l2_shapes_and_axes(shape: tuple[int, ...], axis: int, backend: str) -> None:
    (y,) = check("l2_normalization", [random(0, *shape)], {"axis": axis}, backend=backend)
    np.testing.assert_allclose(np.square(y).sum(axis), 1.0 if y.size else 0.0, rtol=1e-5)


@pytest.mark.parametrize("length", [9, 300])
def test_l2_of_any_magnitude(length: int, backend: str) -> None:
    x = random(1, 7, length, low=1, high=4)
    x *= np.array([[1e-37], [1e-30], [1e-19], [1e-5], [1e18], [1e30], [8e37]], np.float32)
    (y,) = check("l2_normalization", [x], backend=backend)
    np.testing.assert_allclose(np.square(y).sum(1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("length", [9, 300])
def test_l2_of_zeros_nan_and_infinities(length: int, backend: str) -> None:
    x = random(2, 5, length)
    x[0], x[1, 5], x[2, 2], x[3, ::2] = 0, np.nan, np.inf, -np.inf
    (y,) = check("l2_normalization", [x], backend=backend)
    assert not y[0].any()
    assert np.isnan(y[1:4]).all()
    assert np.isfinite(y[4]).all()


@pytest.mark.parametrize("length", [1, 3, 128, 6000])
@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e-10, 1.0, 1e12, 1e16, 3e38])
@pytest.mark.parametrize("axis", [1, 0])
def test_l2_of_many_rows(axis: int, length: int, size: float) -> None:
    """Blocks of rows, or columns, that are divided by their largest number first, or not."""
    x = random(0, 300, length, low=-1, high=1) * np.float32(size)
    check("l2_normalization", [np.moveaxis(x, 1, axis)], {"axis": axis}, backend="cpu")
    for row, value in ((0, 0.0), (100, np.nan), (200, np.inf), (299, 1.0)):
        x[row] = value
        check("l2_normalization", [np.moveaxis(x, 1, axis)], {"axis": axis}, backend="cpu")


def test_l2_by_hand(backend: str) -> None:
    (y,) = check("l2_normalization", [np.array([[3, -4], [0, 0.5]], np.float32)], backend=backend)
    np.testing.assert_allclose(y, [[0.6, -0.8], [0, 1]], rtol=1e-6)


def run_local_response(x: Array, backend: str, **attrs: Any) -> Array:
    """Check within the stated accuracy: the base is rounded n + 2 times, then follow log2 and exp2."""
    axis, radius = attrs.get("axis", -1), attrs["radius"]
    base = x.astype(np.float64) ** 2
    length = x.shape[axis]
    total = np.stack(
        [
            np.take(base, range(max(d - radius, 0), min(d + radius + 1, length)), axis).sum(axis)
            for d in range(length)
        ],
        axis,
    )
    base = np.abs(attrs["bias"] + attrs["alpha"] * total)
    with np.errstate(divide="ignore"):
        steps = 3 + attrs["beta"] * (min(2 * radius + 1, length) + 2 + 5 * np.abs(np.log2(base)))
    size = np.abs(x) * base ** -attrs["beta"]
    op = "local_response_normalization"
    (y,) = check(op, [x], attrs, backend=backend, atol=ATOL + steps * EPS * size)
    return y


NUMBERS = {"bias": 1.0, "alpha": 1e-2, "beta": 0.75}


@pytest.mark.parametrize(("shape", "axis"), [case for case in AXES if 0 not in case[0]])
def test_local_response_shapes_and_axes(shape: tuple[int, ...], axis: int, backend: str) -> None:
    for radius in (0, 1, 2, 20):
        run_local_response(random(3, *shape), backend, radius=radius, axis=axis, **NUMBERS)


@pytest.mark.parametrize("shape", [(4,), (3, 12), (2, 3, 96)], ids=str)
def test_local_response_along_fours(shape: tuple[int, ...], backend: str) -> None:
    for radius in (0, 1, 2, 5, 200):
        run_local_response(random(3, *shape), backend, radius=radius, **NUMBERS)
    x = random(3, *shape)
    x[..., 1], x[..., -1] = np.inf, np.nan
    attrs = {"radius": 1, **NUMBERS}
    check("local_response_normalization", [x], attrs, backend=backend, rtol=1e-5)  # as of single numbers


def test_local_response_of_no_elements(backend: str) -> None:
    for shape in ((0, 4), (4, 0)):
        check("local_response_normalization", [random(0, *shape)], {"radius": 1, **NUMBERS}, backend=backend)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.5])
@pytest.mark.parametrize(("bias", "alpha"), [(1.0, 1.0), (10.0, 0.25), (0.5, 3.0), (2.0, 0.0), (0.0, 1.0)])
def test_local_response_numbers(bias: float, alpha: float, beta: float, backend: str) -> None:
    run_local_response(random(4, 2, 12), backend, radius=2, bias=bias, alpha=alpha, beta=beta)
    x = random(4, 2, 3, 2, 9)
    y = run_local_response(x, backend, radius=2, bias=bias, alpha=alpha, beta=beta)
    if beta == 0:
        np.testing.assert_array_equal(y, x)


def test_local_response_to_the_power_of_0_is_x(backend: str) -> None:
    x = random(4, 2, 3)
    attrs = {"radius": 0, "bias": 0.0, "alpha": 0.0, "beta": 0.0}
    (y,) = check("local_response_normalization", [x], attrs, backend=backend)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("beta", [1.0, 2.0, 0.75])
def test_local_response_of_a_negative_base(beta: float, backend: str) -> None:
    """As in numpy, a whole exponent decides on the sign, and any other exponent gives NaN."""
    numbers = {"bias": -300.0, "alpha": 1.0, "beta": beta}
    y = run_local_response(random(5, 2, 8), backend, radius=1, **numbers)
    assert np.isnan(y).all() == (beta == 0.75)


def test_half_precision_is_summed_in_single(backend: str) -> None:
    """300^2 overflows float16, and a float16 sum of 4096 squares stops growing."""
    x = np.full((1, 4096), 300, np.float16)
    for op, attrs, expected in (
        ("l2_normalization", {}, 1 / 64),
        ("local_response_normalization", {"radius": 0, "bias": 1.0, "alpha": 1.0, "beta": 0.5}, 1.0),
    ):
        with model_of(op, [x], attrs).compile(backend) as compiled:
            y = np.asarray(compiled(x))
        assert y.dtype == np.float16
        np.testing.assert_allclose(y.astype(float), expected, rtol=1e-3)


def test_local_response_by_hand(backend: str) -> None:
    x = np.array([[1, 2, 3]], np.float32)
    y = run_local_response(x, backend, radius=1, bias=2.0, alpha=1.0, beta=1.0)
    np.testing.assert_allclose(y, [[1 / 7, 2 / 16, 3 / 15]], rtol=1e-6)


def test_l2_and_local_response_agree_with_litert() -> None:
    for seed, shape in enumerate(((1, 1, 1, 6), (2, 3, 4, 5))):
        x = random(seed, *shape)
        check_litert("l2_normalization", [x], {}, "L2_NORMALIZATION")
        for bias in (1.5, 0.0):
            attrs = {"radius": 2, "bias": bias, "alpha": 0.5, "beta": 0.5}
            check_litert("local_response_normalization", [x], attrs, "LOCAL_RESPONSE_NORMALIZATION", attrs)


def test_conformance(backend: str) -> None:
    def local(x: Array, radius: Array, bias: Array, alpha: Array, beta: Array) -> Any:
        return [x], {
            "radius": int(radius),
            "bias": float(bias),
            "alpha": float(alpha),
            "beta": float(beta),
        }

    check_cases("L2_NORMALIZATION", "l2_normalization", lambda x: ([x], {}), backend)
    check_cases("LOCAL_RESPONSE_NORMALIZATION", "local_response_normalization", local, backend)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"bias": float("nan")}, "bias, alpha and beta must be finite"),
        ({"radius": -1}, "radius must be >= 0 and fit 32 bits, got -1"),
        ({"radius": 1.5}, "radius must be an integer, got 1.5"),
        ({"beta": float("inf")}, "bias, alpha and beta must be finite"),
        ({"alpha": "x"}, "alpha must be a number, got 'x'"),
        ({"axis": 2}, "axis 2 is out of range for rank 2"),
    ],
)
def test_local_response_errors(attrs: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=f"local_response_normalization: {message}"):
        model_of("local_response_normalization", [random(0, 2, 3)], {"radius": 1, **NUMBERS, **attrs})


def test_l2_errors() -> None:
    with pytest.raises(ModelError, match="l2_normalization: axis -3 is out of range for rank 2"):
        model_of("l2_normalization", [random(0, 2, 3)], {"axis": -3})
    with pytest.raises(ModelError, match="l2_normalization: input 0 must be float32 or float16, got int32"):
        model_of("l2_normalization", [np.zeros(3, np.int32)], {})
