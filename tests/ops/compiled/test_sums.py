"""The loop of sums of 8 bits has the results of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn import Model
from gpunn.ops import compiled
from gpunn.types import Array, DType
from tests.ops.compiled.plain import INTEGERS
from tests.ops.quantized import quantized, stored

CASES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 12, 20, 5), (1, 2)),
    ((1, 7, 30, 40), (2,)),
    ((3, 9, 8, 10), (0, 1, 2)),
    ((2, 4, 3, 700), (1, 2)),
    ((4, 600), (1,)),
]
APART: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((8, 9, 30, 2), (0, 2)),
    ((1, 7, 7, 8), (1, 2)),  # few
]


def reduced(op: str, x: Array, dtype: DType, axes: tuple[int, ...], loops: compiled.Loops | None) -> Array:
    """Compute a reduction of stored integers as in many runs."""
    model = Model("sums")
    type = quantized(dtype, x.shape, 0.02, 3 if dtype is DType.INT8 else 131)
    attrs: dict[str, Any] = {"axes": axes, "keep_dims": True}
    to = [quantized(dtype, (), 0.03, 5).quantization]
    model.output(*model.add(op, [model.input("x", type)], attrs, quantization=to))
    compute = model.operations[0].direct()
    assert compute is not None
    with compiled.in_use(loops):
        return np.asarray(compute(x))


@pytest.mark.parametrize("op", ["mean", "reduce_sum"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("shape, axes", CASES, ids=str)
def test_sums(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: DType, op: str, found: compiled.Loops
) -> None:
    x = stored(1, quantized(dtype, shape, 0.02))
    for values in (x, np.full(shape, -128 if dtype is DType.INT8 else 255, dtype.numpy)):
        got = reduced(op, values, dtype, axes, found)
        np.testing.assert_array_equal(got, reduced(op, values, dtype, axes, None))


@pytest.mark.parametrize("shape, axes", [*CASES, *APART], ids=str)
def test_axes_that_lie_apart_and_few_numbers_are_left_to_numpy(
    shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    asked: list[Array] = []

    def counted(x: Array, total: Array) -> None:
        asked.append(x)
        INTEGERS.sums(x, total)

    own = compiled.Loops(None, INTEGERS._replace(sums=counted))
    reduced("mean", stored(1, quantized(DType.INT8, shape, 0.02)), DType.INT8, axes, own)
    assert bool(asked) == ((shape, axes) in CASES)
