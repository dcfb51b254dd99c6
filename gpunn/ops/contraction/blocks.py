"""Sums of products with a filter on the host, for some pixels of the result at a time.

What a block reads, sums up and stores stays in the CPU's cache, so that a bias, an activation or the
conversion to stored integers does not fetch the sums from memory again. Stored integers become numbers, and
get their padding, block by block as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.compiled.sharing import threads
from gpunn.ops.kernels.window import Window
from gpunn.ops.memory import empty, scratch
from gpunn.types import Array, Shape

BLOCK = 1 << 18  # numbers that a block reads or sums up; each block costs some microseconds, whatever it has
KEPT_BYTES = 1 << 17  # of a padded image whose memory an operation keeps, so that it writes the padding once
SMALL_PRODUCT = 10**6  # multiplications; OpenBLAS computes up to so many without packing, in less time
FEWEST_OF_PART = 16  # rows of such a part of a product
FEWEST_OF_TWO = 8  # the same where there are two parts
LEAST_ROWS = 256  # of a product of matrices: with fewer, BLAS packs the filter too often

STORED_BLOCK = 1 << 15  # numbers of a stored matrix that are read at a time
LEAST_STORED = 1 << 14  # numbers of a matrix that is worth it
HIGHEST_BIT = np.uint8(1 << 7)

Multiply = Callable[[Array, Array, Array], None]  # a matrix [K, O] and rows [P, K], into [P, O]
Room = Callable[[int, int], Array]  # memory [pixels, C] for the sums from one pixel to another
AtOnce = Callable[[Array, Array], None]  # writes all sums of x to [pixels, C]
Block = tuple[int, int, Array]  # the pixels that it begins with and ends before, and their sums [pixels, C]


def pixels_at_once(cost: int) -> int:
    """Return how many pixels a block has, of each of which so many numbers are kept."""
    return max(LEAST_ROWS, BLOCK // max(1, cost))


class Sums(Protocol):
    """The sums of products of one filter, of the dtype of the filter, or the stored results if `finished`."""

    @property
    def finished(self) -> bool:
        """Tell whether the sums have become stored results."""

    @property
    def of_loops(self) -> bool:
        """Tell whether shared loops alone write them."""

    def __call__(self, x: Array, room: Room) -> Iterator[Block]:
        """Write the sums of x where `room` says, and yield each block when it is there."""

    def at_once(self, pixels: int) -> AtOnce | None:
        """Return what writes the sums of so many pixels at once, in less time; None for several blocks."""


Place = Callable[[Array], None]  # writes sums into images [N, OH, OW, C]


class Binding(Protocol):
    """The sums over the windows of an image."""

    def __call__(self, padded: Array, window: Window, /) -> Place:
        """Return what writes the sums of an image whose numbers may change, but not its memory."""


class Results(NamedTuple):
    """Stored results of sums: floors of (sum + shift) * factor + summand between bounds, less an offset.

    stored: the dtype of the elements that are summed up. line: factors and summands [2, O]. shift: whole
    numbers [O], None for 0 everywhere.
    """

    stored: np.dtype[Any]
    line: Array
    bounds: tuple[int, int]
    offset: int
    shift: Array | None

    @property
    def ends(self) -> tuple[Any, Any]:
        """Return the bounds in the dtype of the line, as compiled loops take them."""
        low, high = self.bounds
        return self.line.dtype.type(low), self.line.dtype.type(high)


class Terms(NamedTuple):
    """The way from elements to terms of sums: what is subtracted, and what padding holds (`around`).

    exact: all sums of integers are, in any order. most: the largest size of a term; 0 if it is not known.
    turned: elements are int8, and become uint8, 128 more. results: what makes stored results of the sums of a
    constant filter, where elements and results have 8 bits; sums may do it at once, and are `finished` then.
    raw: terms are float32 of elements of 8 bits as they are stored.
    """

    dtype: np.dtype[Any]
    subtracted: int = 0
    around: int = 0
    exact: bool = False
    most: int = 0
    turned: bool = False
    results: Results | None = None
    raw: bool = False

    @property
    def multiply(self) -> Multiply:
        """Return what writes products of a matrix [K, O] and terms [P, K]."""
        return exact_product if self.exact else product

    def write(self, stored: Array, out: Array) -> None:
        """Write the terms of some elements."""
        if self.turned:
            np.bitwise_xor(stored.view(np.uint8), HIGHEST_BIT, out=out)
        elif self.subtracted:
            np.subtract(stored, self.dtype.type(self.subtracted), out=out, dtype=self.dtype)
        else:
            out[...] = stored


def product(matrix: Array, rows: Array, out: Array) -> None:
    """Write a product [P, K] x [K, O]."""
    np.matmul(rows, matrix, out=out)


def early_product(depth: int) -> Callable[..., Array]:
    """Return the call of numpy's that begins soonest of those that multiply [P, depth] x [depth, O].

    That is dot, but not for a depth of 1: it takes a matrix of one element for a factor, and skips what a
    factor of 0 multiplies, even if that is infinite or NaN.
    """
    return np.matmul if depth == 1 else np.ndarray.dot


def exact_product(matrix: Array, rows: Array, out: Array) -> None:
    """Write a product [P, K] x [K, O] where the order of summation counts for nothing.

    Parts that OpenBLAS computes without packing take up to a third less time.
    """
    parts = _parts(len(rows), matrix.size)
    if parts == 1:
        np.matmul(rows, matrix, out=out)
        return
    if len(rows) % parts == 0:
        np.matmul(in_parts(rows, parts), matrix, out=in_parts(out, parts))
        return
    step = ceil_div(len(rows), parts)  # about as many in each part
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        np.matmul(rows[part], matrix, out=out[part])


def equal_parts(rows: int, weights: int) -> int:
    """Return in how many equal parts numpy multiplies rows with a matrix in the least time, in one call."""
    parts = _parts(rows, weights)
    return 1 if rows % parts else parts


def in_parts(rows: Array, parts: int) -> Array:
    """Return rows [..., P, C] as equal parts [..., parts, P / parts, C]."""
    return rows.reshape(*rows.shape[:-2], parts, rows.shape[-2] // parts, rows.shape[-1])


@lru_cache(1 << 12)
def _parts(rows: int, weights: int) -> int:
    """Return in how many parts, if possible equal ones, products with a matrix take the least time."""
    most = SMALL_PRODUCT // max(1, weights)
    if rows <= most or (most < FEWEST_OF_PART and not in_halves(rows, weights)):
        return 1
    least = ceil_div(rows, most)
    even = (k for k in range(least, 2 * least + 1) if rows % k == 0 and rows // k >= FEWEST_OF_TWO)
    return next(even, least)


def in_halves(rows: int, weights: int) -> bool:
    """Tell whether both halves of a product of rows with a matrix take less time than all of it."""
    half = ceil_div(rows, 2)
    return rows * weights > SMALL_PRODUCT >= half * weights and half >= FEWEST_OF_TWO


def summed(sums: Sums, x: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Return all sums of x as an array of a shape."""
    result = empty(shape, dtype)
    rows = result.reshape(math.prod(shape[:-1]), shape[-1])
    for _ in sums(x, lambda first, last: rows[first:last]):
        pass
    return result


class Stored:
    """A matrix [K, O] of integers in few bytes, some columns after the other.

    Of a product with few rows most time goes into reading the matrix, which rarely is in the CPU's cache.
    """

    def __init__(self, matrix: Array, terms: Terms) -> None:
        depth, channels = matrix.shape
        step = ceil_div(channels, ceil_div(channels * depth, STORED_BLOCK))  # about as many in each part
        dtype = np.int8 if np.abs(matrix).max() < 128 else np.int16
        self._terms = terms
        self._parts = [
            (slice(first, first + step), np.ascontiguousarray(matrix[:, first : first + step], dtype))
            for first in range(0, channels, step)
        ]

    def multiply(self, rows: Array, out: Array) -> None:
        """Write the products with rows."""
        for columns, stored in self._parts:
            part = scratch("filter", stored.shape, self._terms.dtype)
            part[...] = stored
            exact_product(part, rows, out[:, columns])


class PointSums:
    """Products of rows of C numbers, the last axis of any x, with a filter for O channels.

    shape: C and O. multiply: writes the products of rows of x, or stored results by shared loops if
    `finished`.
    """

    def __init__(
        self, shape: tuple[int, int], multiply: Callable[[Array, Array], None], finished: bool = False
    ) -> None:
        self.finished = self.of_loops = finished
        self._depth = shape[0]
        self._most = pixels_at_once(max(shape)) * (threads() if finished else 1)
        self._multiply = multiply

    @classmethod
    def of(cls, matrix: Array, terms: Terms, few: bool = False) -> PointSums:
        """Return the products with a matrix [C, O].

        few: the rows are so few that exact products read a Stored matrix.
        """
        stored = terms.exact and few and matrix.size >= LEAST_STORED
        multiply = Stored(matrix, terms).multiply if stored else partial(terms.multiply, matrix)
        depth, channels = matrix.shape

        def multiply_terms(rows: Array, out: Array) -> None:
            if rows.dtype != terms.dtype:
                stored, rows = rows, scratch("terms", rows.shape, terms.dtype)
                terms.write(stored, rows)
            multiply(rows, out)

        return cls((depth, channels), multiply_terms)

    def __call__(self, x: Array, room: Room) -> Iterator[Block]:
        """Write the sums of x where `room` says."""
        depth = self._depth
        rows = x.reshape(math.prod(x.shape) // depth if depth else math.prod(x.shape[:-1]), depth)
        step = ceil_div(len(rows), ceil_div(len(rows), self._most) or 1)  # about as many in each block
        for first in range(0, len(rows), step or 1):
            part = rows[first : first + step]
            last = first + len(part)
            found = room(first, last)
            self._multiply(part, found)
            yield first, last, found

    def at_once(self, pixels: int) -> AtOnce | None:
        """Return what writes the sums of so many pixels, if they are one block."""
        shape = pixels, self._depth
        return None if not 0 < pixels <= self._most else lambda x, out: self._multiply(x.reshape(shape), out)


class StridedSums:
    """The sums of every so many rows and columns of images [N, H, W, C], by those of pixels."""

    def __init__(self, sums: PointSums, stride: tuple[int, int]) -> None:
        self._sums, self.finished, self.of_loops = sums, sums.finished, False
        self._seen = slice(None), slice(None, None, stride[0]), slice(None, None, stride[1])

    def __call__(self, x: Array, room: Room) -> Iterator[Block]:
        """Write the sums of x where `room` says."""
        return self._sums(np.ascontiguousarray(x[self._seen]), room)

    def at_once(self, pixels: int) -> AtOnce | None:
        """Return what writes the sums of so many pixels, if they are one block."""
        write = self._sums.at_once(pixels)
        return write and (lambda x, out: write(x[self._seen], out))


class RowBlock(NamedTuple):
    """Some rows of the result, of one image or of several.

    images, known: what it sees of x. inside: where that lies among the rows that it sees, the padding
    included; `memory` are images and rows of these. shape: [images, rows, columns] of its pixels, from
    `first` to `last`.
    """

    images: slice
    known: slice
    inside: tuple[int, int]
    memory: tuple[int, int]
    window: Window
    shape: Shape
    first: int
    last: int


def row_blocks(window: Window, shape: Shape, pixels: int) -> Iterator[RowBlock]:
    """Divide the result of images [N, H, W, C] into blocks of about so many pixels."""
    (batch, extent), (height, width) = shape[:2], window.out
    if min(batch, height, width) < 1:
        return
    rows = min(height, ceil_div(pixels, width))
    rows = ceil_div(height, ceil_div(height, rows))  # about as many in each block
    together = 1 if rows < height else max(1, pixels // (height * width))
    for image in range(0, batch, together):
        for row in range(0, height, rows):
            images, count = min(together, batch - image), min(rows, height - row)
            begin = row * window.stride[0] - window.before[0]
            reach = (count - 1) * window.stride[0] + (window.size[0] - 1) * window.dilation[0] + 1
            known = slice(min(max(0, begin), extent), min(max(0, begin + reach), extent))
            above = min(max(0, -begin), reach)
            first = (image * height + row) * width
            yield RowBlock(
                slice(image, image + images),
                known,
                (above, above + known.stop - known.start),
                (images, reach),
                replace(window, before=(0, 0), after=(0, 0), out=(count, width)),
                (images, count, width),
                first,
                first + images * count * width,
            )
