"""Index arithmetic: merged dimensions and steps of four visit the same elements in the same order."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpunn.kernel import Unsupported
from gpunn.ops.kernels.strides import (
    aligned,
    broadcast_strides,
    by_fours,
    dense,
    merge,
    space_constants,
    space_params,
    splat,
    walked_as,
)
from gpunn.types import Shape

shapes = st.lists(st.sampled_from([1, 2, 3, 4, 8]), max_size=5).map(tuple)


def visited(sizes: Shape, strides: Shape) -> list[int]:
    """Return offsets in the order in which a kernel visits them."""
    points = itertools.product(*map(range, sizes))
    return [sum(a * b for a, b in zip(point, strides, strict=True)) for point in points]


@given(shapes, st.randoms())
def test_merging_keeps_the_order(shape: Shape, generator: random.Random) -> None:
    order = list(range(len(shape)))
    generator.shuffle(order)
    sizes, x = tuple(shape[d] for d in order), tuple(dense(shape)[d] for d in order)
    y = dense(sizes)
    merged = merge(sizes, x, y)
    assert [visited(merged[0], s) for s in merged[1:]] == [visited(sizes, x), visited(sizes, y)]
    assert 1 not in merged[0]


@given(shapes)
def test_steps_of_four_visit_the_same_elements(shape: Shape) -> None:
    sizes, x = merge(shape, dense(shape))
    if aligned(sizes, x):
        quarter, fours = by_fours(sizes, x)
        assert [4 * n + k for n in visited(quarter, fours) for k in range(4)] == visited(sizes, x)


def test_merge() -> None:
    assert merge((2, 3, 4), (12, 4, 1)) == ((24,), (1,))
    assert merge((2, 3, 4), (12, 4, 1), (4, 0, 1)) == ((2, 3, 4), (12, 4, 1), (4, 0, 1))
    assert merge((2, 1, 4), (4, 99, 1)) == ((8,), (1,))
    assert merge((1, 1), (7, 7)) == ((), ())
    assert merge((2, 3), (-3, -1)) == ((6,), (-1,))


@given(shapes, shapes, st.randoms())
def test_another_shape_is_walked_so_wherever_numpy_finds_a_view(
    shape: Shape, other: Shape, generator: random.Random
) -> None:
    order = list(range(len(shape)))
    generator.shuffle(order)
    whole = (*other, np.prod(shape, dtype=int) // max(1, np.prod(other, dtype=int)))
    x = np.zeros(shape, np.int8).transpose(order)
    if np.prod(whole, dtype=int) == x.size:
        found = walked_as(whole, *merge(x.shape, x.strides))
        assert (found is not None) == np.shares_memory(x.reshape(whole), x)
        if found is not None:
            assert visited(whole, found) == visited(x.shape, x.strides)


def test_broadcast_strides() -> None:
    assert broadcast_strides((3, 1, 5), (2, 3, 4, 5)) == (0, 5, 0, 1)
    assert broadcast_strides((), (2, 3)) == (0, 0)


def test_alignment() -> None:
    assert aligned((3, 8), (8, 1), (0, 1), (1, 0))
    assert not aligned((3, 6), (6, 1))
    assert not aligned((3, 8), (9, 1))
    assert not aligned((3, 8), (16, 2))
    assert not aligned(())
    assert by_fours((3, 8), (8, 1), (1, 0)) == ((3, 2), (2, 1), (1, 0))
    assert splat((1, 0)) and not splat(())


def test_parameters() -> None:
    sizes, strides = (2, 3, 4, 5, 6), (360, 120, 30, 6, 1)
    params = space_params(sizes, {"x": strides})
    assert params == {
        "inner": 360,
        "size": (3, 4, 5, 6),
        "size_hi": (1, 1, 1, 2),
        "x_stride": (120, 30, 6, 1),
        "x_stride_hi": (0, 0, 0, 360),
    }
    assert space_constants(sizes) == {"RANK": 5}
    assert space_constants(()) == {"RANK": 1}
    with pytest.raises(Unsupported, match="9 dimensions that cannot be merged"):
        space_params((2,) * 9, {})
