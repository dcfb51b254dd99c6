"""Tiles of products, whose sums stay in the registers of a CPU: what those of bytes and of reals share.

A tile reads what pixels see where it lies, and the filter in the order of packed(). Each lane of a vector is
a channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Protocol

import numpy as np

from gpunn.ops.compiled.vectors import Code
from gpunn.types import Array

VECTORS = 2  # side by side in a tile
BLOCK = 1 << 16  # numbers that the tiles of some pixels read and write, before others begin
LINE = 64  # bytes of a cache line

# The first pixel and the one behind the last, pixels of a tile, the first channel, and how many channels
Box = tuple[int, int, int, int, int]


def boxes(pixels: int, channels: int, depth: int, rows: int, lanes: int) -> Iterator[Box]:
    """Divide a result [pixels, channels] into boxes, whose tiles have `rows` pixels where there are so many.

    What a pixel sees has `depth` numbers. All channels of some pixels follow one another, as what these see
    is in the cache.
    """
    count = rows if pixels >= rows else 1
    block = max(1, BLOCK // (depth + channels) // count) * count
    for begin in range(0, pixels, block):
        for channel in range(0, channels, VECTORS * lanes):
            width = lanes if channels - channel <= lanes else VECTORS * lanes
            yield begin, min(pixels, begin + block), count, channel, width


def packed(filter: Array, lanes: int, together: int = 1) -> Array:
    """Return a filter [O, cells, C] in the order in which tiles read it, flat.

    For up to VECTORS * lanes channels at a time it has, for each step of each cell, `together` weights of one
    channel after the other. What a step or the last vector lacks are zeros.
    """
    channels, cells, depth = filter.shape
    steps, parts = -(-depth // together), []
    for first in range(0, channels, VECTORS * lanes):
        part = filter[first : first + VECTORS * lanes]
        padded: Array = np.zeros((-(-len(part) // lanes) * lanes, cells, steps * together), filter.dtype)
        padded[: len(part), :, :depth] = part
        parts.append(padded.reshape(-1, cells, steps, together).transpose(1, 2, 0, 3).reshape(-1))
    return np.concatenate(parts)


class Arithmetic(Protocol):
    """The instructions of a tile, in each lane of a vector."""

    @property
    def kind(self) -> Any:
        """Return the type of a vector of sums."""

    @property
    def together(self) -> int:
        """Return how many elements of a pixel, and of each channel's filter, a step multiplies."""

    @property
    def nbytes(self) -> int:
        """Return the size of a result."""

    def begin(self, pixel: Any, row: int, vector: int) -> Any:
        """Return what the sums of a vector of a tile begin with, which are those `row` pixels behind one."""

    def add(self, sums: Any, seen: Any, weights: Any) -> Any:
        """Return sums with the products of a step; `seen` is the same in each lane."""

    def finish(self, vector: int) -> Callable[[Any], Any]:
        """Return what makes results of the sums of a vector of the tile."""


def tile_code(
    pixels: int, arithmetic: Callable[[Code, Sequence[Any]], Arithmetic]
) -> Callable[[Code, Sequence[Any]], None]:
    """Return what writes the code of a box, for tiles of so many pixels or one, and one vector or more.

    Its operands are x, places, cells and filter, as of dot_products(); steps of each cell; the Box; and the
    result. Those that follow are for the arithmetic alone.
    """

    def write(code: Code, operands: Sequence[Any]) -> None:
        of, (_, _, rows, _, width) = code.builder, operands[5]
        for height, vectors in product((pixels, 1), range(1, VECTORS + 1)):
            high = of.icmp_signed("==", rows, code.index(height))
            wide = of.icmp_signed("==", width, code.index(vectors * code.lanes))
            with of.if_then(of.and_(high, wide)):
                _write_box(code, operands, height, vectors, arithmetic(code, operands))

    return write


def _write_box(code: Code, operands: Sequence[Any], rows: int, vectors: int, arithmetic: Arithmetic) -> None:
    """Write the code of a box whose tiles have so many pixels and vectors.

    The last tile of all begins among the pixels of the one before. Each tile fetches a part of the weights
    that the tiles of the next channels read.
    """
    _, _, cells, w, steps, (begin, end, _, channel, _), out, *_ = operands
    of, together = code.builder, arithmetic.together
    pixels = of.extract_value(out.shape, 0)
    total, beside = (
        of.mul(of.extract_value(cells.shape, 0), steps),
        code.index(vectors * code.lanes * together),
    )
    w = of.gep(w.data, [code.times(of.mul(channel, total), together)])
    tiles = code.parts(of.sub(end, begin), code.index(rows))
    fetched = code.parts(beside, tiles)  # weights of each step
    ahead, each = of.gep(w, [of.mul(total, beside)]), of.mul(total, fetched)
    last = of.sub(pixels, code.index(rows))
    with code.utils.for_range(of, tiles) as tile:
        pixel = code.least(of.add(begin, code.times(tile.index, rows)), last)
        fetch = of.gep(ahead, [of.mul(tile.index, each)]), fetched
        _write_tile(code, operands, pixel, (rows, vectors), (w, *fetch), arithmetic)


def _write_tile(
    code: Code,
    operands: Sequence[Any],
    pixel: Any,
    shape: tuple[int, int],
    weights: tuple[Any, Any, Any],
    arithmetic: Arithmetic,
) -> None:
    """Write the code of a tile of so many pixels and vectors.

    weights: where they begin, where those to fetch do, and how many of these there are for each step.
    """
    x, places, cells, _, steps, (_, _, _, channel, _), out, *_ = operands
    (rows, vectors), (w, ahead, fetched) = shape, weights
    of, lanes, pixel = code.builder, code.lanes, code.opaque(pixel)
    kind, together = arithmetic.kind, arithmetic.together
    places = of.gep(places.data, [pixel])
    starts = [of.load(code.behind(places, row)) for row in range(rows)]
    sums = {place: code.utils.alloca_once(of, kind) for place in product(range(rows), range(vectors))}
    channels = of.extract_value(out.shape, 1)
    corner = of.gep(out.data, [of.add(of.mul(pixel, channels), channel)])
    lines = [of.gep(corner, [of.mul(code.index(row), channels)]) for row in range(rows)]
    for (row, k), sum in sums.items():
        of.store(arithmetic.begin(pixel, row, k), sum)
        if k * lanes * arithmetic.nbytes % LINE == 0:
            code.prefetch(code.behind(lines[row], k * lanes), for_writing=True)
    along = code.index(vectors * lanes * together)
    of_cell = [(cells.data, code.index(1)), (w, of.mul(steps, along)), (ahead, of.mul(steps, fetched))]
    with code.walk(of.extract_value(cells.shape, 0), of_cell) as (cell, *of_weights):
        place = of.load(cell)
        seen = [of.gep(x.data, [of.add(start, place)]) for start in starts]
        of_step = [(code.index(0), code.index(together)), *zip(of_weights, (along, fetched), strict=True)]
        with code.walk(steps, of_step) as (done, first, next):
            code.prefetch(next)
            loaded = [code.load(code.behind(first, k * lanes * together), kind) for k in range(vectors)]
            for row in range(rows):
                everywhere = code.splat(code.load(of.gep(seen[row], [done]), kind.element))
                for k in range(vectors):
                    sum = sums[row, k]
                    of.store(arithmetic.add(of.load(sum), everywhere, loaded[k]), sum)
    finish = [arithmetic.finish(k) for k in range(vectors)]
    results = {(row, k): finish[k](of.load(sum)) for (row, k), sum in sums.items()}
    code.store_box(results, lines, of.sub(channels, channel))
