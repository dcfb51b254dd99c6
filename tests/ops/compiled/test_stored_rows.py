"""Loops over rows of stored integers have the results of numpy: softmax, and pairs with a number of a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpunn import Model
from gpunn.graph.operation import Operation
from gpunn.ops import compiled
from gpunn.ops.fixed_point.pair_tables import A_CALL
from gpunn.types import Array, DType, Quantization
from tests.ops.quantized import quantized, stored

BYTES = [DType.INT8, DType.UINT8]
# Of both operands; rows of the first, of the second, and a single number
PAIRS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 30, 70), (2, 30, 1)),
    ((30, 1), (2, 30, 65)),
    ((1, 9, 8, 130), ()),
    ((1, 1, 1), (3, 5, 7)),
    ((3, 5, 64), (3, 1, 1)),
]
APART: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((3, 5, 7), (1, 5, 1)), ((3, 1, 7), (1, 5, 7))]


def softmax(shape: Sequence[int], dtype: DType, scale: float, **attrs: Any) -> Operation:
    """Return softmax of stored integers."""
    model, to = Model("softmax"), Quantization((1 / 256,), (-128 if dtype is DType.INT8 else 0,))
    x = model.input("x", quantized(dtype, shape, scale))
    model.output(*model.add("softmax", [x], attrs, quantization=[to]))
    return model.operations[0]


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("scale", [0.004, 0.1, 1.0, 40.0])
@pytest.mark.parametrize("shape", [(1,), (1, 10), (3, 21), (2, 4, 300), (1, 4095)])
def test_softmax(shape: tuple[int, ...], scale: float, dtype: DType, found: compiled.Loops) -> None:
    operation = softmax(shape, dtype, scale, beta=0.7)
    low, high = (-128, 127) if dtype is DType.INT8 else (0, 255)
    samples = [stored(3, operation.inputs[0].type), *(np.full(shape, v, dtype.numpy) for v in (low, high))]
    samples[0].reshape(-1)[0] = high
    compute = operation.direct()
    assert compute is not None
    for x in samples:
        got = compute(x)
        with compiled.in_use(None):
            np.testing.assert_array_equal(got, compute(x))


@pytest.mark.parametrize("dtype", BYTES)
def test_softmax_along_another_axis_is_left_to_numpy(dtype: DType, found: compiled.Loops) -> None:
    operation = softmax((3, 5, 4), dtype, 0.1, axis=1)
    x, compute = stored(3, operation.inputs[0].type), operation.direct()
    assert compute is not None
    turned = softmax((3, 4, 5), dtype, 0.1).direct()
    assert turned is not None
    np.testing.assert_array_equal(compute(x), turned(np.ascontiguousarray(x.swapaxes(1, 2))).swapaxes(1, 2))


def pairs(op: str, shapes: Sequence[Sequence[int]], dtype: DType) -> tuple[Operation, list[Array]]:
    """Return an operation on two tensors of stored integers, and values for it."""
    model = Model("pairs")
    types = [quantized(dtype, shape, scale, 7) for shape, scale in zip(shapes, (0.02, 0.05), strict=True)]
    inputs = [model.input(name, type) for name, type in zip("ab", types, strict=True)]
    model.output(*model.add(op, inputs, quantization=[Quantization((0.04,), (5,))]))
    return model.operations[0], [np.asarray(stored(k, type)) for k, type in enumerate(types)]


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("op", ["sub", "squared_difference", "mul"])
@pytest.mark.parametrize("shapes", [*PAIRS, *APART], ids=str)
def test_pairs_with_numbers_of_rows(
    shapes: tuple[tuple[int, ...], ...], op: str, dtype: DType, found: compiled.Loops
) -> None:
    operation, values = pairs(op, shapes, dtype)
    compute = operation.direct()
    assert compute is not None
    expected = compute(*values)  # the first run has no table yet
    for _ in range(2**16 // A_CALL + 1):
        got = compute(*values)
        np.testing.assert_array_equal(got, expected)
