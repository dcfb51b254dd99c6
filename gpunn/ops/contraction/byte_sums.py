"""Sums of products of 8-bit integers on the host by compiled loops, which read bytes where they lie.

The bytes of x are those that are stored, of int8 128 more; what that adds is a part of the number that the
sums of each channel begin with. The loops make stored results of sums at once. Weights of dot_products()
are int8. Where uint8 has a zero point such that they are not, all have a number in addition, which is
multiplied with the sum of a pixel's bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.compiled import IntegerLoops, OfBytes, Shared, integer_loops
from gpunn.ops.compiled.channel_products import PIXELS
from gpunn.ops.compiled.row_copies import TOGETHER
from gpunn.ops.compiled.sharing import OF_COPIES, Ends, divided, rows_divided, threads
from gpunn.ops.compiled.tiles import VECTORS, in_lanes, packed
from gpunn.ops.compiled.vectors import BYTES
from gpunn.ops.contraction.blocks import (
    HIGHEST_BIT,
    Place,
    PointSums,
    Results,
    Terms,
    pixels_at_once,
    row_blocks,
)
from gpunn.ops.contraction.pieces import Margin, Piece, looped_pieces
from gpunn.ops.contraction.tile_places import seen_by, tile_shares, whole_tiles
from gpunn.ops.kernels.window import Window
from gpunn.ops.memory import aligned, scratch
from gpunn.types import Array, Shape

# Products that loops compute in one microsecond, or more: for a sum of a tile, and for a lane of channels
A_SUM, A_LANE = 1e3, 1.2e3
LOW, HIGH = -128, 127  # of int8
MOST = 2**31  # that sums must stay below
_BYTE = np.dtype(np.uint8)


class ByteFilter(NamedTuple):
    """A filter that is ready for a loop, which gets `operands`.

    terms: how x becomes bytes. channels: of a result; with several pixels together, of all these. read: bytes
    that a loop reads of each cell. steps: of the filter in each cell, for tiles.
    """

    loops: IntegerLoops
    loop: Shared
    operands: tuple[Any, ...]
    terms: Terms
    channels: int
    read: int
    together: int = 1
    steps: int = 0

    def of_pixels(self, depth: int) -> PointSums:
        """Return the results for single pixels of so many bytes."""
        cells: Array = np.zeros((1, 2), np.int32)
        divide = lru_cache(1 << 3)(self._divided)  # of blocks, of which one may be smaller

        flip, copies = int(HIGHEST_BIT) if self.terms.turned else 0, self.terms.turned or self.read > depth

        def multiply(rows: Array, out: Array) -> None:
            bytes = rows.reshape(-1).view(_BYTE)
            if copies:
                copy = scratch("bytes", (rows.size + self.read - depth,), _BYTE)
                own = rows_divided(rows.size, rows.size, TOGETHER, OF_COPIES)
                self.loops.flipped(own, bytes, flip, copy)
                bytes = copy
            pixels = _side_by_side(len(rows), depth, self.channels)
            ends, parts = divide(len(rows))
            self.loop(ends, bytes, pixels, cells, parts, *self.operands, out.view(_BYTE))

        return PointSums((depth, self.channels), multiply, finished=True)

    def _divided(self, pixels: int) -> tuple[Ends, Array]:
        """Return the parts of the loop for so many pixels and the threads in use."""
        weights, first, _, (groups, depth, vector, rows, *_), _ = self.operands
        kinds, read = ((pixels, rows), (len(first), VECTORS * vector)), groups * depth * pixels
        microseconds = weights.size * pixels / (A_SUM * vector * rows)
        shares = tile_shares(*kinds, microseconds, read < weights.size)
        cut = [(*(whole_tiles(place, pixels, rows) for place in some), *lanes) for some, lanes in shares]
        parts = np.array([part for part in cut if part[0] < part[1]], np.int64)
        return np.arange(len(parts) + 1), parts

    def pieces(self, window: Window, shape: Shape, rows_of_cells: bool) -> list[Piece]:
        """Return the results over the windows of x [N, H, W, C].

        rows_of_cells: the loop reads all cells in a row of a window as one.
        """
        cost = max(shape[3] * math.prod(window.stride), self.channels // self.together)
        blocks = list(row_blocks(window, shape, pixels_at_once(cost) * threads()))
        layout = Margin.of(window, shape, self.terms, blocks)
        images, rows, columns, depth = layout.shape
        behind = ceil_div(self.read, max(1, columns * depth))  # rows for what is read after the last cell
        layout = layout._replace(shape=(images, rows + behind, columns, depth))

        def bind(padded: Array, window: Window) -> Place:
            bytes, seen = seen_by(window, padded, self.read, rows_of_cells, self.together)
            count = len(seen.pixels)
            if self.steps:
                ends, parts = self._divided(count)
                places: Sequence[Array] = *seen.of_tiles(self.steps, self.channels), parts
            else:
                weights, _, _, (vector, _), _ = self.operands
                microseconds = count * weights.size / (A_LANE * vector)
                ends, places = divided(count, microseconds, PIXELS[0]), seen

            def write(out: Array) -> None:
                results = out.reshape(-1, self.channels).view(_BYTE)
                self.loop(ends, bytes, *places, *self.operands, results)

            return write

        return looped_pieces(layout, blocks, bind, self.loops.place_rows)


def dot_filter(filter: Array, terms: Terms, groups: int = 1) -> ByteFilter | None:
    """Return a filter [O, cells, C] of integers for dot_products(), where x has groups C channels.

    None where no loops of bytes are in use, for other elements, and for weights of more than 8 bits.
    """
    found = _ready(filter, terms, (1, 2))
    if found is None:
        return None
    loops, of_bytes, results = found
    low, high = int(filter.min()), int(filter.max())
    if high - low > HIGH - LOW:
        return None
    (channels, _, depth), (lanes, pixels) = filter.shape, of_bytes.sizes
    more = min(low - LOW, 0) or max(high - HIGH, 0)
    weights = aligned(packed((filter - np.float32(more)).astype(np.int8), groups, lanes, BYTES))
    shape = groups, depth, lanes, pixels, more, results.offset
    numbers = _numbers(filter.sum(axis=(1, 2), dtype=np.float64), terms, results, groups, lanes)
    operands = weights, *numbers, shape, results.ends
    read = (groups - 1) * depth + ceil_div(depth, BYTES) * BYTES
    words = ceil_div(depth, BYTES)
    terms = bytes_of(terms, results)
    return ByteFilter(loops, of_bytes.dot_products, operands, terms, channels, read, steps=words)


def channel_filter(filter: Array, window: Window, terms: Terms) -> ByteFilter | None:
    """Return a filter [KH, KW, C] of integers for channel_products(); None as of dot_filter()."""
    found = _ready(filter, terms, (0, 1))
    if found is None:
        return None
    loops, of_bytes, results = found
    height, width, channels = filter.shape
    lanes, _ = of_bytes.sizes
    together = _together(window, channels, lanes)
    cells = np.tile(filter.reshape(height * width, channels), together)
    shift = None if results.shift is None else np.tile(results.shift, together)
    tiled = results._replace(line=np.tile(results.line, together), shift=shift)
    weights = aligned(in_lanes(cells.astype(np.int32), 1, lanes))
    numbers = _numbers(cells.sum(axis=0, dtype=np.float64), terms, tiled, 1, lanes)
    operands = weights, *numbers, (lanes, results.offset), results.ends
    terms = bytes_of(terms, results)
    return ByteFilter(
        loops,
        of_bytes.channel_products,
        operands,
        terms,
        together * channels,
        weights.shape[1],
        together,
    )


def _ready(
    filter: Array, terms: Terms, axes: tuple[int, ...]
) -> tuple[IntegerLoops, OfBytes, Results] | None:
    """Return the loops for sums of a filter along axes, those of bytes, and the results that they make.

    None where no loops of bytes are in use, for other elements, and where sums do not fit.
    """
    loops, results = integer_loops(), terms.results
    if loops is None or results is None or not filter.size or not _fits(filter, terms, axes):
        return None
    return None if loops.of_bytes is None else (loops, loops.of_bytes, results)


def _fits(filter: Array, terms: Terms, axes: tuple[int, ...]) -> bool:
    """Tell whether sums fit 32 bits."""
    return bool(terms.most * np.abs(filter).sum(axis=axes, dtype=np.float64).max() < MOST)


def _together(window: Window, channels: int, lanes: int) -> int:
    """Return how many pixels of a row, of which all divide it, fill vectors best with their channels.

    With a stride they do not lie side by side.
    """
    if window.stride[1] != 1:
        return 1
    counts = [k for k in range(1, lanes + 1) if window.out[1] % k == 0]
    return min(counts, key=lambda k: (ceil_div(k * channels, lanes) / k, k))


def bytes_of(terms: Terms, results: Results) -> Terms:
    """Return the way from elements to bytes without a sign."""
    turned = results.stored == np.int8
    return Terms(_BYTE, 0, terms.around + _subtracted(terms, results), exact=True, turned=turned)


def _subtracted(terms: Terms, results: Results) -> int:
    """Return how much more a byte is than a term."""
    return terms.subtracted + (1 << 7 if results.stored == np.int8 else 0)


def _numbers(totals: Array, terms: Terms, results: Results, groups: int, lanes: int) -> tuple[Array, Array]:
    """Return what sums begin with, by the `totals` of each channel's weights, and factors and summands."""
    first = -_subtracted(terms, results) * totals.astype(np.int64)
    if results.shift is not None:
        first += results.shift.astype(np.int64)
    return in_lanes(first.astype(np.int32), groups, lanes), in_lanes(results.line, groups, lanes)


@lru_cache(1 << 8)
def _side_by_side(pixels: int, depth: int, channels: int) -> Array:
    return np.outer(np.arange(pixels), (depth, channels)).astype(np.int32)
