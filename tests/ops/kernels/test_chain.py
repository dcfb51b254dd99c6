"""Sums that a device's loops do not take at once: several dispatches give the bits of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.kernel import Unsupported, nested
from gpunn.ops.kernels.chain import Box, boxes
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.harness import EPS, as_software, check, limit_device, model_of, random
from tests.ops.integer_checks import check_integer
from tests.ops.quantized import quantized, stored


@pytest.mark.parametrize("size", [(7,), (5, 4), (3, 4, 6), (1, 1, 9)])
@pytest.mark.parametrize("most", [9, 13, 29, 1000])
def test_boxes_have_every_term_once_in_order(size: tuple[int, ...], most: int) -> None:
    found = boxes(size, most)
    assert all(box.iterations == nested(*map(len, box.ranges)).iterations <= most for box in found)
    terms = [
        place for box in found for place in np.ndindex(*map(len, box.ranges)) for place in [at(box, place)]
    ]
    assert terms == [*np.ndindex(*size)]
    assert len(found) == 1 or most < nested(*size).iterations


def at(box: Box, place: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(r[k] for r, k in zip(box.ranges, place, strict=True))


def test_a_term_that_takes_too_long() -> None:
    with pytest.raises(Unsupported, match="9 loop iterations for a single term"):
        boxes((2, 2, 2), 7)


SAME = {"stride": (1, 1), "padding": "same"}
# Op, shapes of its operands, attributes, positions of constants, iterations that the device allows.
REALS: list[tuple[str, Sequence[tuple[int, ...]], Mapping[str, Any], Sequence[int], int]] = [
    ("conv2d", [(2, 5, 6, 6), (3, 3, 2, 6), (3,)], {**SAME, "activation": "relu"}, (), 50),
    ("conv2d", [(1, 5, 6, 6), (4, 3, 2, 3), (4,)], {"stride": (2, 1), "dilation": (1, 2)}, (1, 2), 17),
    ("conv2d", [(1, 4, 4, 21), (3, 3, 2, 21)], SAME, (1,), 12),
    ("depthwise_conv2d", [(2, 7, 9, 8), (1, 5, 4, 8), (8,)], {**SAME, "activation": "relu6"}, (1, 2), 15),
    ("depthwise_conv2d", [(1, 7, 9, 3), (1, 2, 4, 6), (6,)], {"stride": (2, 3)}, (), 10),
    ("batch_matmul", [(2, 5, 33), (2, 33, 7)], {}, (), 12),
    ("batch_matmul", [(3, 33, 5), (8, 33)], {"adj_a": True, "adj_b": True}, (), 12),
    (
        "transpose_conv2d",
        [(2, 3, 4, 11), (5, 3, 2, 11), (5,)],
        {"size": (7, 8), "stride": (2, 2)},
        (1, 2),
        60,
    ),
    ("transpose_conv2d", [(1, 3, 3, 6), (4, 5, 7, 6)], {"size": (13, 11), "stride": (4, 2)}, (1,), 16),
    ("conv3d", [(1, 4, 5, 6, 7), (2, 3, 2, 7, 5), (5,)], {"padding": "same"}, (), 25),
    ("conv3d", [(2, 4, 3, 3, 8), (2, 2, 2, 4, 8)], {"groups": 2, "activation": "tanh"}, (1,), 25),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "constants", "most"), REALS, ids=[case[0] for case in REALS]
)
def test_sums_of_reals(
    op: str,
    shapes: Sequence[tuple[int, ...]],
    attrs: Mapping[str, Any],
    constants: Sequence[int],
    most: int,
    gpu: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = [random(k, *shape) for k, shape in enumerate(shapes)]
    tolerance = 16 * inputs[1].size ** 2 * EPS
    (whole,) = check(op, inputs, attrs, backend=gpu, constants=constants, atol=tolerance)
    as_software(monkeypatch, max_loop_iterations=most)  # the loops of a workgroup's tiles are shorter
    with model_of(op, inputs, attrs, constants).compile(gpu) as compiled:
        assert len(compiled.plan_rows()) > 1
    (parts,) = check(op, inputs, attrs, backend=gpu, constants=constants, atol=tolerance)
    np.testing.assert_allclose(parts, whole, atol=tolerance)
    halves = [x.astype(np.float16) for x in inputs]
    check(op, halves, attrs, backend=gpu, constants=constants, atol=tolerance, rtol=2**-11)


# The same of quantised tensors: op, shapes, attributes, constants, iterations.
INTEGERS: list[tuple[str, Sequence[tuple[int, ...]], Mapping[str, Any], Sequence[int], int]] = [
    ("conv2d", [(2, 5, 6, 6), (3, 3, 2, 6), (3,)], SAME, (), 30),
    ("conv2d", [(1, 5, 6, 9), (3, 3, 2, 3)], {"stride": (2, 1)}, (1,), 17),
    ("depthwise_conv2d", [(1, 7, 9, 4), (1, 5, 4, 4), (4,)], SAME, (1, 2), 15),
    ("depthwise_conv2d", [(1, 7, 9, 3), (1, 2, 4, 3)], {"stride": (2, 3)}, (), 13),
    ("fully_connected", [(3, 41), (5, 41), (5,)], {}, (), 20),
    ("batch_matmul", [(2, 5, 33), (2, 33, 7)], {}, (), 12),
    ("transpose_conv2d", [(2, 3, 4, 11), (5, 3, 2, 11)], {"size": (7, 8), "stride": (2, 2)}, (1,), 60),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "constants", "most"), INTEGERS, ids=[case[0] for case in INTEGERS]
)
def test_sums_of_integers(
    op: str,
    shapes: Sequence[tuple[int, ...]],
    attrs: Mapping[str, Any],
    constants: Sequence[int],
    most: int,
    dtype: DType,
    gpu: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit_device(monkeypatch, max_loop_iterations=most)
    types = [
        quantized(dtype, shapes[0], 0.1, 3),
        quantized(dtype, shapes[1], 0.2, 0 if dtype is DType.INT8 else 7),
    ]
    values: list[Array] = [stored(1, types[0]), stored(2, types[1])]
    if len(shapes) > 2:
        types.append(
            TensorType(
                DType.INT32, shapes[2], Quantization((float(np.float32(0.1) * np.float32(0.2)),), (0,))
            )
        )
        values.append(np.random.default_rng(3).integers(-9000, 9000, shapes[2], dtype=np.int32))
    check_integer(op, values, types, attrs, Quantization((9.0,), (4,)), constants, backend=gpu)


Case = tuple[str, Sequence[tuple[int, ...]], Mapping[str, Any], Sequence[int], int]
# Sums of 64 bits: the same.
WIDE: list[Case] = [
    ("conv2d", [(2, 5, 6, 6), (3, 3, 2, 6), (3,)], SAME, (2,), 30),
    ("conv2d", [(1, 5, 6, 9), (3, 3, 3, 3)], {"stride": (2, 1)}, (1,), 11),
    ("depthwise_conv2d", [(1, 7, 9, 4), (1, 5, 4, 4), (4,)], SAME, (1, 2), 13),
    ("fully_connected", [(3, 41), (5, 41), (5,)], {}, (2,), 20),
    ("batch_matmul", [(2, 5, 33), (2, 33, 8)], {}, (), 12),
    ("transpose_conv2d", [(2, 3, 4, 3), (4, 3, 5, 3)], {"size": (7, 11), "stride": (2, 2)}, (1,), 17),
]


@pytest.mark.parametrize("case", WIDE, ids=[case[0] for case in WIDE])
def test_sums_of_64_bits(case: Case, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op, shapes, attrs, constants, most = case
    limit_device(monkeypatch, max_loop_iterations=most)
    x, w = quantized(DType.INT16, shapes[0], 0.1), quantized(DType.INT8, shapes[1], 0.2)
    types, values = [x, w], [stored(1, x), stored(2, w)]
    if len(shapes) > 2:
        types.append(TensorType(DType.INT64, shapes[2]))
        values.append(np.random.default_rng(3).integers(-(10**10), 10**10, shapes[2]))
    y = Quantization((1e4 if len(shapes) > 2 else 60.0,), (0,))
    (found,) = check_integer(op, values, types, attrs, y, constants, backend=gpu)
    assert len(np.unique(found)) > 3


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
def test_sums_that_lavapipe_does_not_take_at_once(dtype: DType, gpu: str) -> None:
    """70,000 products of 16 bits leave 32 bits even in halves, and 64,000 loop iterations."""
    x, w = quantized(DType.INT16, (2, 70_000), 0.1), quantized(dtype, (3, 70_000), 0.2)
    extreme = np.full(x.shape, -(2**15), np.int16), np.full(w.shape, np.iinfo(dtype.numpy).min, dtype.numpy)
    for values in ((stored(1, x), stored(2, w)), extreme):
        products = values[0].astype(np.int64) @ values[1].astype(np.int64).T
        scale = float(np.float32(0.02 * np.abs(products).max() / 30_000))
        y = Quantization((scale,), (0,))
        (found,) = check_integer("fully_connected", values, [x, w], {}, y, (1,), backend=gpu)
        assert (np.abs(found - products * (0.02 / scale)) < 2).all()


def test_windows_that_lavapipe_does_not_take_at_once(gpu: str) -> None:
    """Each pixel of the result gets one of the 75,000 pixels of the filter, or the sum of two of them."""
    filter = random(1, 1, 150, 500, 1)
    x = np.ones((1, 2, 1, 1), np.float32)
    (y,) = check("transpose_conv2d", [x, filter], {"size": (151, 500)}, backend=gpu, constants=(1,))
    expected = np.zeros((151, 500), np.float32)
    expected[:150] += filter[0, :, :, 0]
    expected[1:] += filter[0, :, :, 0]
    np.testing.assert_allclose(y[0, :, :, 0], expected, rtol=2 * EPS)


def test_products_of_plain_integers(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_device(monkeypatch, max_loop_iterations=12)
    a, b = (
        np.random.default_rng(k).integers(-128, 128, shape).astype(np.int8)
        for k, shape in enumerate([(3, 50), (50, 6)])
    )
    (found,) = check("batch_matmul", [a, b], {}, backend=gpu)
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32))
