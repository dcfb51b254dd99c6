"""Products of int16 with int8 and int16: sums of 64 bits, or of 32 under a bias of 32, on every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.ops.contraction.conv import conv2d
from gpunn.ops.fixed_point.affine import dequantize
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.integer_checks import check_integer
from tests.ops.quantized import quantized, stored

I16, I8, I32, I64 = DType.INT16, DType.INT8, DType.INT32, DType.INT64
WINDOWS: list[dict[str, Any]] = [
    {"padding": "same", "stride": (2, 1)},
    {"padding": "valid", "stride": (1, 2), "dilation": (2, 1), "activation": "relu"},
]
# Op, shapes of input and filter, the axis of its output channels, attributes.
CASES: list[tuple[str, tuple[int, ...], tuple[int, ...], int, dict[str, Any]]] = [
    *(("conv2d", (2, 6, 7, c), (n, 3, 2, c), 0, a) for c, n in ((5, 7), (8, 4)) for a in WINDOWS),
    ("conv2d", (1, 5, 5, 6), (4, 2, 2, 3), 0, {"padding": "same"}),
    ("conv2d", (1, 5, 5, 8), (16, 2, 2, 4), 0, {"padding": "same"}),
    ("conv2d", (0, 5, 5, 4), (4, 2, 2, 4), 0, {"padding": "same"}),
    *(
        ("depthwise_conv2d", (2, 6, 7, c), (1, 3, 2, n), 3, a)
        for c, n in ((5, 5), (8, 8), (3, 6))
        for a in WINDOWS
    ),
    *(
        (
            "transpose_conv2d",
            (1, 3, 4, 5),
            (n, 3, 3, 5),
            0,
            {"size": (6, 8), "stride": (2, 2), "padding": "same"},
        )
        for n in (4, 7)
    ),
    ("fully_connected", (3, 210), (9, 210), 0, {}),
    ("fully_connected", (3, 12), (8, 12), 0, {"activation": "relu6"}),
    ("fully_connected", (1, 210), (9, 210), 0, {}),
    ("fully_connected", (1, 3000), (4, 3000), 0, {}),
]


def channels(type: TensorType, axis: int) -> TensorType:
    """Return the filter with a scale for each output channel."""
    count = type.shape[axis]
    scales = tuple(float(np.float32(s)) for s in np.linspace(0.01, 0.02, count))
    return TensorType(type.dtype, type.shape, Quantization(scales, (0,) * count, axis))


@pytest.mark.sample(2)
@pytest.mark.parametrize("bias", [None, I32, I64], ids=str)
@pytest.mark.parametrize(("op", "shape", "filter", "axis", "attrs"), CASES, ids=str)
def test_products(
    op: str,
    shape: tuple[int, ...],
    filter: tuple[int, ...],
    axis: int,
    attrs: dict[str, Any],
    bias: DType | None,
    backend: str,
) -> None:
    """With a constant filter and, but for the transposed convolution, with one that is computed."""
    x, w = quantized(I16, shape, 1 / 4000), channels(quantized(I8, filter, 1.0), axis)
    terms = int(np.prod(filter)) / filter[axis]
    y = Quantization((float(np.float32(np.sqrt(terms) / 2000)),), (0,))
    types: list[TensorType | None] = [x, w]
    values: list[Array | None] = [stored(0, x), stored(1, w)]
    if bias is not None:
        types.append(TensorType(bias, (filter[axis],)))
        values.append(np.random.default_rng(2).integers(-(10**6), 10**6, filter[axis]).astype(bias.numpy))
    (found,) = check_integer(op, values, types, attrs, y, (1, 2), backend=backend)
    assert not found.size or len(np.unique(found)) > 3
    if op != "transpose_conv2d":
        (same,) = check_integer(op, values, types, attrs, y, (2,), backend=backend)
        np.testing.assert_array_equal(found, same)


@pytest.mark.parametrize("bias", [None, I64], ids=str)
@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 3, 4), (3, 210, 9), (2, 12, 8), (1, 3000, 5)])
def test_weights_of_16_bits(rows: int, depth: int, columns: int, bias: DType | None, backend: str) -> None:
    """Beside the reference, the exact number: the factor, of 15 bits, is off by up to 2^-15."""
    x, w = quantized(I16, (rows, depth), 1 / 4000), channels(quantized(I16, (columns, depth), 1.0), 0)
    y = Quantization((float(np.float32(np.sqrt(depth) / 10)),), (0,))
    types: list[TensorType | None] = [x, w]
    values: list[Array | None] = [stored(0, x), stored(1, w)]
    exact = dequantize(stored(0, x), x).astype(float) @ dequantize(stored(1, w), w).astype(float).T
    if bias is not None:
        types.append(TensorType(bias, (columns,)))
        values.append(np.random.default_rng(2).integers(-(10**9), 10**9, columns))
        assert w.quantization is not None
        exact = exact + values[2] * np.asarray(w.quantization.scale) / 4000
    steps = np.clip(exact / y.scale[0], -(2**15), 2**15 - 1)
    for constants in ((1, 2), (2,)):
        (found,) = check_integer("fully_connected", values, types, {}, y, constants, backend=backend)
        assert (np.abs(found - steps) <= 0.51 + 2**-15 * np.abs(steps) + 2**-18 * depth).all()


@pytest.mark.parametrize("zero", [-(2**15), -3, 1000])
@pytest.mark.parametrize("pinned", [-(2**15), 2**15 - 1, None], ids=str)
def test_zero_points(zero: int, pinned: int | None, backend: str) -> None:
    """Of x, also as what lies beside the image, and of a filter with one scale."""
    x, w = quantized(I16, (1, 4, 5, 6), 1 / 4000, zero), quantized(I8, (9, 3, 3, 6), 0.01, -7)
    values: list[Array | None] = [
        stored(0, x) if pinned is None else np.full(x.shape, pinned, np.int16),
        stored(1, w),
    ]
    y = Quantization((1 / 500,), (11,))
    for constants in ((1,), ()):
        (found,) = check_integer("conv2d", values, [x, w], {"padding": "same"}, y, constants, backend=backend)
    exact = conv2d.reference(
        *(dequantize(v, t).astype(float) for v, t in zip(values, (x, w), strict=True)), padding="same"
    )
    # The factor, of 15 bits, is off by up to 2^-15.
    steps = np.clip(exact * 500 + 11, -(2**15), 2**15 - 1)
    assert (np.abs(found - steps) <= 0.51 + 2**-15 * np.abs(steps - 11)).all()


@pytest.mark.parametrize("value", [-(2**15), 2**15 - 1])
@pytest.mark.parametrize(("op", "filter"), [("fully_connected", (4, 60000)), ("conv2d", (4, 10, 10, 50))])
def test_sums_beyond_32_bits(op: str, filter: tuple[int, ...], value: int, backend: str) -> None:
    """Of products of -2^15 or 2^15 - 1 with -128, in large steps and in steps of one."""
    x, w = quantized(I16, (2, *filter[1:]), 1.0), quantized(I8, filter, 1.0)
    terms = int(np.prod(filter[1:]))
    values: list[Array | None] = [np.full(t.shape, v, t.dtype.numpy) for t, v in ((x, value), (w, -128))]
    for scale in (2.0**24, 1.0):
        y = Quantization((scale,), (0,))
        (found,) = check_integer(op, values, [x, w], {}, y, (1,), backend=backend)
        exact = np.clip(np.floor(-128 * value * terms / scale + 0.5), -(2**15), 2**15 - 1)
        assert (found == exact).all()


def test_zero_points_and_lengths_that_parts_do_not_hold(backend: str) -> None:
    """The largest products of a symmetric int16 are 2^30, else 2^32; a dispatch adds up 65,533 of 2^30."""
    for zero, depth, host in (
        (0, 64000, ""),
        (0, 65535, ""),
        (0, 130000, ""),
        (-(2**15), 3, "parts of 3 products"),
    ):
        types = [quantized(I16, (1, 2, depth), 1.0, zero), quantized(I16, (1, depth, 1), 1.0, zero)]
        values = [np.full(t.shape, 2**15 - 1, np.int16) for t in types]
        y = Quantization((2.0**32,), (0,))
        (found,) = check_integer("batch_matmul", values, types, {}, y, backend=backend, host=host)
        total = depth * (2**15 - 1 - zero) ** 2
        assert found.tolist() == [[[round(total / 2**32)]] * 2]


# Op, the filter's shape for channels of 9, attributes, and how many channels round halves upwards.
HALVES: list[tuple[str, tuple[int, ...], dict[str, Any], int]] = [
    ("conv2d", (9, 1, 1, 9), {}, 9),
    ("conv2d", (9, 1, 1, 3), {}, 0),
    ("depthwise_conv2d", (1, 1, 1, 9), {}, 0),
    ("transpose_conv2d", (9, 1, 1, 9), {"size": (3, 2)}, 8),
    ("fully_connected", (9, 9), {"keep_dims": True}, 9),
    ("fully_connected", (9, 9), {"keep_dims": True, "halves_away": True}, 0),
]


@pytest.mark.parametrize(("op", "shape", "attrs", "upwards"), HALVES, ids=[f"{c[0]}-{c[3]}" for c in HALVES])
def test_halves_under_a_bias_of_32_bits(
    op: str, shape: tuple[int, ...], attrs: dict[str, Any], upwards: int, backend: str
) -> None:
    """The sum is the bias: in steps of 1/4 an odd number of halves."""
    x, w = quantized(I16, (1, 3, 2, 9), 0.25), quantized(I8, shape, 1.0)
    values: list[Array | None] = [np.zeros(t.shape, t.dtype.numpy) for t in (x, w)]
    for bias in (-5, -1, 1, 7):
        values[2:] = [np.full(9, 2 * bias, np.int32)]
        y, types = Quantization((1.0,), (0,)), [x, w, TensorType(I32, (9,))]
        (found,) = check_integer(op, values, types, attrs, y, (1, 2), backend=backend)
        up, away = (bias + 1) // 2, (abs(bias) + 1) // 2 * np.sign(bias)
        assert (found[..., :upwards] == up).all()
        assert (found[..., upwards:] == away).all()
