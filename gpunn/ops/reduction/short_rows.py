"""Extremes of many short rows on the host, and where they are.

numpy begins anew in each row. Turned, rows lie side by side, and vector instructions fold many of them at a
time. All this is exact in any dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpunn.types import Array

LONGEST = 32  # elements of a row that is folded in less time with others
FEWEST = 1 << 6  # rows of which the extremes are found in less time together
FEWEST_PLACES = 1 << 11  # rows of which the places of the extremes are
AT_ONCE = 1 << 12  # rows that are turned at a time


def _many(x: Array, fewest: int) -> bool:
    """Tell whether the last axis of x has short rows, and there are at least so many."""
    return x.ndim > 1 and 0 < x.shape[-1] <= LONGEST and math.prod(x.shape[:-1]) >= fewest


def _turned(x: Array, result: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Give some rows of x at a time, the same turned, and the room for their results."""
    rows, found = x.reshape(-1, x.shape[-1]), result.reshape(-1)
    for first in range(0, len(rows), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        yield rows[part], np.asarray(rows[part].T, order="C"), found[part]


def extremes(fold: np.ufunc, x: Array) -> Array | None:
    """Return the maximum or minimum along the last axis, as `fold` says; None if numpy is as quick."""
    if not _many(x, FEWEST):
        return None
    result: Array = np.empty(x.shape[:-1], x.dtype)
    for _, turned, found in _turned(x, result):
        fold.reduce(turned, axis=0, out=found)
    return result


def places(fold: np.ufunc, x: Array) -> Array | None:
    """Return the index of the first maximum or minimum along the last axis; None if numpy is as quick.

    The first element that equals the extreme has the greatest weight. A row with NaN has no such element.
    """
    if not _many(x, FEWEST_PLACES):
        return None
    length, result = x.shape[-1], np.empty(x.shape[:-1], np.int32)
    weights = np.arange(length, 0, -1, dtype=np.uint8)[:, None]
    search: Any = np.argmax if fold is np.maximum else np.argmin
    for rows, turned, found in _turned(x, result):
        equal = np.equal(turned, fold.reduce(turned, axis=0)).view(np.uint8)
        equal *= weights
        first = np.maximum.reduce(equal, axis=0)
        np.subtract(length, first, out=found)
        if not first.all():
            found[...] = search(rows, axis=1)
    return result
