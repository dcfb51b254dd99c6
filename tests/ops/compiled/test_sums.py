"""The loops of means: of 8 bits with the results of numpy, and of channels of float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gpunn import Model
from gpunn.ops import compiled
from gpunn.types import Array, DType, float32
from tests.ops.compiled.plain import INTEGERS
from tests.ops.harness import random
from tests.ops.quantized import quantized, stored

CASES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 12, 20, 5), (1, 2)),
    ((1, 7, 30, 40), (2,)),
    ((3, 9, 8, 10), (0, 1, 2)),
    ((2, 4, 3, 700), (1, 2)),
    ((4, 600), (1,)),
]
APART = ((8, 9, 30, 2), (0, 2))
OF_CHANNELS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 12, 20, 5), (1, 2)),
    ((1, 7, 7, 70), (1, 2)),
    ((3, 9, 8, 10), (0, 1)),
    ((1, 1, 3, 200), (2,)),
]


def reduced(
    op: str,
    x: Array,
    dtype: DType,
    axes: tuple[int, ...],
    loops: compiled.Loops | None,
    scale: float = 0.02,
) -> Array:
    """Compute a reduction of stored integers as in many runs."""
    model = Model("sums")
    type = quantized(dtype, x.shape, scale, 3 if dtype is DType.INT8 else 131)
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


@pytest.mark.parametrize("shape, axes", [*CASES, APART], ids=str)
def test_axes_that_lie_apart_are_left_to_numpy(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    asked: list[Array] = []

    def counted(ends: Array, x: Array, *operands: Any) -> None:
        asked.append(x)
        INTEGERS.stored_means(ends, x, *operands)

    own = compiled.Loops(None, INTEGERS._replace(stored_means=counted))
    reduced("mean", stored(1, quantized(DType.INT8, shape, 0.02)), DType.INT8, axes, own)
    assert bool(asked) == ((shape, axes) != APART)


@pytest.mark.parametrize("scale", [1e-4, 0.02, 0.5, 900.0, 1e30])
@pytest.mark.parametrize("op", ["mean", "reduce_sum"])
def test_results_of_all_scales_are_those_of_numpy(op: str, scale: float, found: compiled.Loops) -> None:
    type = quantized(DType.INT8, (400, 3, 2), scale, 100)
    x = stored(3, type)
    got = reduced(op, x, DType.INT8, (1,), found, scale)
    np.testing.assert_array_equal(got, reduced(op, x, DType.INT8, (1,), None, scale))


@pytest.mark.parametrize("shape, axes", OF_CHANNELS, ids=str)
def test_means_of_channels_have_an_error_of_a_rounding_for_four_terms(
    shape: tuple[int, ...], axes: tuple[int, ...], found: compiled.Loops
) -> None:
    x, model = random(0, *shape), Model("mean")
    model.output(*model.add("mean", [model.input("x", float32(*shape))], {"axes": axes}))
    compute = model.operations[0].direct()
    assert compute is not None
    got, exact = compute(x), x.astype(np.float64).mean(axes)
    count = math.prod(shape[axis] for axis in axes)
    sizes = np.abs(x.astype(np.float64)).mean(axes)
    assert np.abs(got - exact).max() <= ((count / 4 + 6) * 2.0**-24 * sizes).max()
