"""Images at other places on the host: weighted sums of the four pixels beside each one of the result."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gpunn.ops.compiled import Shared, real_loops
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.compiled.sharing import A_MICROSECOND, Ends, divided
from gpunn.ops.memory import empty, scratch
from gpunn.ops.vision.image import picked
from gpunn.types import Array, Shape

AT_ONCE = 1 << 16  # numbers of a result that are computed at a time
LEAST_CHANNELS = 3  # from which on a loop takes less time than numpy
A_ROW = 0.008  # microseconds that a loop needs to begin a row
ALIKE = 1 << 12  # numbers in rows of the result with the same neighbours, from which on these are not copied

Ratio = tuple[int, int, int]  # (a, b, c): output row i lies at (a i + b) / c of the input's rows
Weigh = Callable[[Array, int], Array]  # the weights of rows that contribute n of c parts


def _positions(size: int, out: int, ratio: Ratio) -> tuple[Array, Array, Array]:
    """Return for each output row its two neighbouring input rows, and its distance from the first times c."""
    a, b, c = ratio
    position = np.maximum(a * np.arange(out, dtype=np.int64) + b, 0)
    lower = np.minimum(position // c, size - 1)
    return lower, np.minimum(lower + 1, size - 1), position - lower * c


class _Part(NamedTuple):
    """Rows of the result that lie between the same two rows of x, and how much each of these counts."""

    rows: slice
    top: int
    bottom: int
    near: Array
    far: Array


class Blending:
    """Resamples images [N, H, W, C] of a known shape, with weights of their dtype.

    size: height and width of the results. ratios: of rows and of columns.
    """

    def __init__(self, shape: Shape, size: Sequence[int], ratios: Sequence[Ratio], weigh: Weigh) -> None:
        (top, bottom, down), (left, right, across) = (
            _positions(n, out, ratio) for n, out, ratio in zip(shape[1:3], size, ratios, strict=True)
        )
        rows, columns = ratios[0][2], ratios[1][2]
        # As many weights as numbers: numpy takes rows of a few channels slowly.
        self._across = tuple(
            np.repeat(weigh(part, columns)[:, None], shape[3], axis=1) for part in (columns - across, across)
        )
        self._down = tuple(weigh(part, rows)[:, None, None] for part in (rows - down, down))
        self._rows, self._columns = (top, bottom), (left, right)
        self._once = shape[1] <= len(top)  # each row of x is resampled once, however often it is taken
        line = math.prod(self._across[0].shape)
        self._parts = self._alike(line) if self._once else []
        self._step = max(1, AT_ONCE // max(1, line))
        self._shape = shape

    @cached_property
    def _places(self) -> tuple[Array, Array, Array, Array]:
        """Return where each row of x that counts begins, its columns, each image of such rows, its rows.

        They count numbers. Columns and rows are pairs, for each one of the result.
        """
        batch, height, width, channels = self._shape
        used, rows = np.unique(np.stack(self._rows, axis=1), return_inverse=True)
        columns = np.stack(self._columns, axis=1) * channels
        starts = (np.arange(batch)[:, None] * height + used) * (width * channels)
        line = len(columns) * channels
        images = np.arange(batch) * (len(used) * line)
        return starts.reshape(-1), columns, images, rows.reshape(-1, 2) * line

    @cached_property
    def _weights(self) -> tuple[Array, Array]:
        """Return the weights of the rows in _places, and of the columns."""
        rows, columns = (
            np.stack([part[:, 0] for part in parts], axis=1) for parts in (self._down, self._across)
        )
        return np.ascontiguousarray(rows[..., 0]), columns

    def _alike(self, line: int) -> list[_Part]:
        """Return the rows of the result, of so many numbers each, by the rows of x beside them.

        None where too few rows have the same ones.
        """
        (top, bottom), (near, far) = self._rows, self._down
        ends = [0, *(np.flatnonzero(np.diff(top) | np.diff(bottom)) + 1).tolist(), len(top)]
        if len(top) * line < ALIKE * (len(ends) - 1):
            return []
        step = max(1, AT_ONCE // line)
        rows = [
            slice(first, min(first + step, last))
            for start, last in itertools.pairwise(ends)
            for first in range(start, last, step)
        ]
        return [_Part(r, int(top[r.start]), int(bottom[r.start]), near[r], far[r]) for r in rows]

    def __call__(self, x: Array) -> Array:
        """Return the images at the new size."""
        loops = real_loops() if x.dtype == np.float32 and x.shape[3] >= LEAST_CHANNELS else None
        if loops is not None:
            return self._looped(loops.blended, x)
        if self._once:
            return self._blended_rows(self._blended_columns(x))
        above, below = (
            _added(*(picked(x, which, columns) for columns in self._columns), *self._across)
            for which in self._rows
        )
        return _added(above, below, *self._down)

    def _looped(self, loop: Shared, x: Array) -> Array:
        """Return the images as a loop computes them, with the same bits."""
        (batch, _, _, channels), (starts, columns, images, rows) = x.shape, self._places
        size, line = len(rows), len(columns) * channels
        across = scratch("columns", (len(starts) * len(columns), channels), x.dtype)
        loop(_ends(*across.shape), x.reshape(-1), starts, columns, self._weights[1], across)
        result = empty((batch, size, len(columns), channels), x.dtype)
        lines = result.reshape(batch * size, line)
        loop(_ends(*lines.shape), across.reshape(-1), images, rows, self._weights[0], lines)
        return of_loops(result)

    def _blended_columns(self, x: Array) -> Array:
        """Return sums of two columns for each column of the result, some rows at a time."""
        lines, line = x.reshape(-1, *x.shape[2:]), self._across[0].shape
        result = scratch("columns", (len(lines), *line), x.dtype)
        for first in range(0, len(lines), self._step):
            part = slice(first, first + self._step)
            left = result[part]
            right = scratch("right", left.shape, x.dtype)
            for found, columns in zip((left, right), self._columns, strict=True):
                # None is beyond; "raise" would write a copy first.
                lines[part].take(columns, axis=1, out=found, mode="clip")
            _added(left, right, *self._across)
        return result.reshape(*x.shape[:2], *line)

    def _blended_rows(self, x: Array) -> Array:
        """Return sums of two rows of x [N, H, W, C] for each row of the result, some rows at a time.

        What is computed at a time stays in the CPU's cache.
        """
        count, line = len(self._rows[0]), x.shape[2:]
        result = empty((len(x), count, *line), x.dtype)
        images = zip(x, result, strict=True)
        for (image, found), (rows, top, bottom, near, far) in itertools.product(images, self._parts):
            above = np.multiply(image[top], near, out=found[rows])
            above += np.multiply(image[bottom], far, out=scratch("rows", above.shape, x.dtype))
        if self._parts:
            return result
        for image, first in itertools.product(range(len(x)), range(0, count, self._step)):
            part = slice(first, first + self._step)
            above = result[image, part]
            below = scratch("rows", above.shape, x.dtype)
            for found, rows in zip((above, below), self._rows, strict=True):
                x[image].take(rows[part], axis=0, out=found, mode="clip")
            _added(above, below, *(weights[part] for weights in self._down))
        return result


def _ends(rows: int, length: int) -> Ends:
    """Divide rows that a loop blends among the threads in use."""
    return divided(rows, rows * (length / A_MICROSECOND + A_ROW))


def _added(a: Array, b: Array, near: Array, far: Array) -> Array:
    """Return a * near + b * far, in the memory of a."""
    a *= near
    b *= far
    a += b
    return a
