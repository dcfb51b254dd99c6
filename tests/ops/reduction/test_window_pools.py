"""Maxima of windows along any axes, which max pools compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpunn.passes import optimise
from tests.ops.harness import check, model_of, random
from tests.ops.reduction.test_window import joined

# Shape, size, strides, padding and how many pools there are.
POOLED: list[tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[tuple[int, int]], int]] = [
    ((9,), (4,), (2,), ((1, 3),), 1),
    ((2, 6, 7, 5, 3), (1, 2, 3, 3, 1), (1, 2, 1, 2, 1), ((0, 0), (1, 0), (1, 1), (0, 2), (0, 0)), 2),
    ((2, 3, 6, 7, 5), (1, 1, 1, 3, 2), (1, 1, 1, 2, 1), ((0, 0), (0, 0), (0, 0), (1, 1), (0, 1)), 1),
    ((2, 3, 8), (1, 1, 3), (1, 1, 2), ((0, 0), (0, 0), (1, 1)), 1),
    ((4, 5, 6), (2, 1, 3), (1, 1, 1), ((0, 0),) * 3, 1),
    ((4, 5, 6), (2, 2, 2), (1, 9, 1), ((0, 0), (0, 0), (1, 1)), 2),
]


@pytest.mark.parametrize(("shape", "size", "strides", "paddings", "count"), POOLED)
def test_maxima_of_windows_are_pools(
    shape: Sequence[int],
    size: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[tuple[int, int]],
    count: int,
    backend: str,
) -> None:
    x = random(1, *shape, low=-2, high=2)
    ways = {"strides": strides, "paddings": paddings}
    attrs = {"function": "max", "size": size, **ways}
    found = [o.op for o in optimise(model_of("reduce_window", [x], attrs)).operations]
    assert [op for op in found if op not in ("reshape", "transpose")] == ["max_pool2d"] * count
    (y,) = check("reduce_window", [x], attrs, backend=backend)
    np.testing.assert_array_equal(y, joined(x, "max", None, size, ways))


@pytest.mark.parametrize("paddings", [((0, 0), (40, 40)), ((0, 0), (3, 0)), ((-1, 0), (1, 0))])
def test_paddings_that_pools_do_not_take(paddings: Sequence[tuple[int, int]], backend: str) -> None:
    """They are as wide as the window, far wider than the tensor, or cut off what there is."""
    size = (2, 70) if paddings[1][0] > 3 else (2, 3)
    x = random(1, 400, 2, low=-2, high=2)
    (y,) = check(
        "reduce_window", [x], {"function": "max", "size": size, "paddings": paddings}, backend=backend
    )
    np.testing.assert_array_equal(y, joined(x, "max", None, size, {"paddings": paddings}))
