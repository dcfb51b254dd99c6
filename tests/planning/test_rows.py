"""Rows of walks, and rows within rows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gpunn.ops.kernels.strides import dense, rows_along, rows_walked
from gpunn.rows import Rows
from gpunn.types import Shape


@pytest.mark.parametrize(
    ("sizes", "walk", "start", "rows"),
    [
        ((2, 3), (8, 1), 2, Rows(3, 8, 2)),
        ((2, 3, 4), (24, 8, 1), 4, Rows(4, 8, 4)),
        ((3, 4), (4, 1), 8, Rows(12, 12, 8)),
        ((5,), (2,), 1, Rows(1, 2, 1)),
        ((1, 1), (8, 1), 3, Rows(1, 1, 3)),
        ((), (), 0, Rows(1, 1, 0)),
        ((2, 3, 4), (32, 8, 1), 0, None),
        ((2, 3), (8, 2), 0, None),
        ((4,), (-1,), 3, None),
        ((4, 2), (0, 1), 0, None),
        ((0, 2), (2, 1), 0, None),
    ],
)
def test_rows_of_walks(sizes: Shape, walk: Shape, start: int, rows: Rows | None) -> None:
    assert rows_walked(sizes, walk, start) == rows


def elements(rows: Rows, count: int) -> list[int]:
    """The places of the first `count` elements of rows."""
    return [rows.first + k // rows.length * rows.pitch + k % rows.length for k in range(count)]


def test_pieces_of_pieces_are_where_each_element_is() -> None:
    """All slices of one axis, in all slices of one axis, of a small tensor."""
    shape, found = (2, 3, 4), 0
    for first_axis, axis in itertools.product(range(3), repeat=2):
        for start, end in itertools.combinations(range(shape[first_axis] + 1), 2):
            inner = (*shape[:first_axis], end - start, *shape[first_axis + 1 :])
            outer = rows_walked(inner, dense(shape), start * dense(shape)[first_axis])
            assert outer is not None
            places, size = elements(outer, math.prod(inner)), math.prod(inner)
            assert places == np.arange(24).reshape(shape)[index(first_axis, start, end)].ravel().tolist()
            for begin, stop in itertools.combinations(range(inner[axis] + 1), 2):
                piece = (*inner[:axis], stop - begin, *inner[axis + 1 :])
                rows = rows_walked(piece, dense(inner), begin * dense(inner)[axis])
                assert rows is not None
                together, count = rows.within(outer, size), math.prod(piece)
                if together is not None:
                    found += 1
                    assert elements(together, count) == [places[k] for k in elements(rows, count)]
    assert found > 200


def index(axis: int, start: int, end: int) -> tuple[slice, ...]:
    return (slice(None),) * axis + (slice(start, end),)


def test_all_of_an_axis_is_one_row() -> None:
    """Rows as long as their distance count as one, also within rows of another length."""
    assert rows_along((4, 3), 1, 0, 3) == Rows(12, 12, 0)
    assert rows_along((4, 3), 1, 1, 2) == Rows(2, 3, 1)
    assert rows_along((4, 3), 1, 0, 0) is None
    assert Rows(12, 12, 0).within(Rows(6, 11, 5), 12) == Rows(6, 11, 5)
