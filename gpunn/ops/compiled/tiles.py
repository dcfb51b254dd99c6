"""Tiles of products, whose sums stay in the registers of a CPU: what those of bytes and of reals share.

A tile reads what pixels see where it lies, and the filter in the order of packed(). Each lane of a vector is
a channel. A tile has channels of one group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gpunn.ops.compiled.vectors import Code
from gpunn.types import Array

VECTORS = 2  # side by side in a tile of many pixels, and in the order of packed()
WIDE = 4  # in a tile of one pixel, where there are as many: sums of fewer wait for their last products
BLOCK = 1 << 18  # numbers that the tiles of some pixels read and write, before others begin
LINE = 64  # bytes of a cache line

ALL = 0, 1 << 62  # lanes

Position = tuple[int, int]  # of a vector in a tile: the pixel, and which vector of its channels


class Box(NamedTuple):
    """Some channels of some pixels, in lanes of which the first is `lane` and the last may be empty."""

    begin: int  # the first pixel
    end: int  # the pixel behind the last
    limit: int  # the pixel behind the last one that sees as many cells
    rows: int  # pixels of a tile
    depth: int  # steps of the filter
    first: int  # the place in each cell where what the group sees begins
    channel: int
    behind: int  # the channel behind the last one of the group
    lane: int
    width: int  # in lanes
    weights: int  # the place of the first step of the filter
    along: int  # from one step of the filter to the next
    beside: int  # from the weights of the first VECTORS vectors to those of the next ones


def boxes(
    pixels: tuple[int, int],
    among: tuple[int, int],
    channels: int,
    groups: int,
    apart: int,
    depth: int,
    tile: tuple[int, int],
    row: int = 0,
) -> Iterator[Box]:
    """Divide the results of some pixels, from one to another, and of some lanes, into boxes.

    among: the lanes that boxes may begin with, from one to another. What the groups see lies `apart` in each
    cell. depth: steps of the filter. tile: pixels, where there are so many, and lanes of a vector. row: from
    one step of a filter to the next, where all lanes of a step lie side by side; 0 if it is packed(). All
    channels of some pixels follow one another, as what these see is in the cache. Pixels that are too few
    for a tile are tiles of their own, of up to WIDE vectors.
    """
    (first, limit), (rows, lanes), each = pixels, tile, channels // groups
    count, side = rows if limit - first >= rows else 1, VECTORS * lanes
    block = max(1, BLOCK // (groups * depth + channels) // count) * count
    for begin in range(first, limit, block):
        lane, end = 0, min(limit, begin + block)
        for group in range(groups):
            channel, behind = group * each, (group + 1) * each
            while channel < behind:
                width = lanes if behind - channel <= lanes else side
                if among[0] <= lane < among[1]:
                    if count < rows and min(behind - channel, among[1] - lane) >= WIDE * lanes:
                        width = WIDE * lanes
                    rest = (lane * depth, min(width, side), side * depth) if row == 0 else (lane, row, side)
                    some = begin, end, limit, count, depth, group * apart, channel, behind, lane, width
                    yield Box(*some, *rest)
                lane, channel = lane + width, channel + width


def weights_of(box: Box, w: Array, together: int = 1) -> Array:
    """Return the weights [steps, lanes, together] of a box."""
    width = min(box.width, box.along)
    shape, strides = (box.depth, width, together), (box.along * together, together, 1)
    first = range(box.weights, box.weights + box.width // width * box.beside, box.beside)
    parts = [as_strided(w[k * together :], shape, [w.itemsize * s for s in strides]) for k in first]
    return np.concatenate(parts, 1)


def in_lanes(numbers: Array, groups: int, lanes: int) -> Array:
    """Return numbers [..., O], of each channel, in the lanes of boxes; the empty ones have zeros."""
    apart = numbers.reshape(*numbers.shape[:-1], groups, numbers.shape[-1] // groups)
    padded = np.pad(apart, [(0, 0)] * numbers.ndim + [(0, -apart.shape[-1] % lanes)])
    return padded.reshape(*numbers.shape[:-1], -1)


def packed(filter: Array, groups: int, lanes: int, together: int = 1) -> Array:
    """Return a filter [O, cells, C] in the order in which tiles read it, flat.

    For the channels of each box it has, for each step of each cell, `together` weights of one channel after
    the other. What a step or the last vector lacks are zeros.
    """
    channels, cells, depth = filter.shape
    steps, parts = -(-depth // together), []
    for box in boxes((0, 1), ALL, channels, groups, depth, cells * depth, (1, lanes)):
        part = filter[box.channel : min(box.channel + box.width, box.behind)]
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

    @property
    def in_order(self) -> bool:
        """Tell whether the results of pixels always follow one another."""

    def begin(self, pixel: Any, row: int, vector: int) -> Any:
        """Return what the sums of a vector of a tile begin with, which are those `row` pixels behind one."""

    def add(self, sums: Any, seen: Any, weights: Any) -> Any:
        """Return sums with the products of a step; `seen` is the same in each lane."""

    def finish(self, sums: Mapping[Position, Any]) -> Mapping[Position, Any]:
        """Return the results of the sums of a tile, which are in memory."""


def tile_code(
    pixels: int, arithmetic: Callable[[Code, Sequence[Any]], Arithmetic]
) -> Callable[[Code, Sequence[Any]], None]:
    """Return what writes the code of a box, for tiles of so many pixels or one, of one vector or more.

    Its operands are x, pixels, cells and filter, as of dot_products(); steps of each cell; the Box; and the
    result. Those that follow are for the arithmetic alone.
    """

    def write(code: Code, operands: Sequence[Any]) -> None:
        of, (_, _, _, rows, *_, width, _, _, _) = code.builder, operands[5]
        some = range(1, VECTORS + 1)
        for height, vectors in (*product((pixels,), some), *product((1,), (*some, WIDE))):
            high = of.icmp_signed("==", rows, code.index(height))
            wide = of.icmp_signed("==", width, code.index(vectors * code.lanes))
            with of.if_then(of.and_(high, wide)):
                _write_box(code, operands, height, vectors, arithmetic(code, operands))

    return write


def _write_box(code: Code, operands: Sequence[Any], rows: int, vectors: int, arithmetic: Arithmetic) -> None:
    """Write the code of a box whose tiles have so many pixels and vectors.

    The last tile of some begins among the pixels of the one before. Each tile fetches a part of the weights
    that the tiles of the next channels read.
    """
    _, _, _, w, _, (begin, end, limit, _, depth, *_, weights, _, _), *_ = operands
    of, together = code.builder, arithmetic.together
    beside = code.index(vectors * code.lanes * together)
    w = of.gep(w.data, [code.times(weights, together)])
    tiles = code.parts(of.sub(end, begin), code.index(rows))
    fetched = code.parts(beside, tiles)  # weights of each step
    ahead, each = of.gep(w, [of.mul(depth, beside)]), of.mul(depth, fetched)
    last = of.sub(limit, code.index(rows))
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
    x, pixels, cells, _, steps, (*_, first, channel, behind, _, _, _, along, side), out, *_ = operands
    (rows, vectors), (w, ahead, fetched) = shape, weights
    of, lanes, pixel = code.builder, code.lanes, code.opaque(pixel)
    kind, together = arithmetic.kind, arithmetic.together

    def pair(place: Any, number: int) -> list[Any]:
        return [code.wide(of.load(code.behind(place, 2 * number + k))) for k in range(2)]

    pixels = of.gep(pixels.data, [code.times(pixel, 2)])
    starts, results = zip(*(pair(pixels, row) for row in range(rows)), strict=True)
    if arithmetic.in_order:
        channels = of.extract_value(out.shape, 1)
        results = tuple(of.mul(of.add(pixel, code.index(row)), channels) for row in range(rows))
    x, out = of.gep(x.data, [first]), of.gep(out.data, [channel])
    lines = [of.gep(out, [result]) for result in results]
    sums = {place: code.utils.alloca_once(of, kind) for place in product(range(rows), range(vectors))}
    for (row, k), sum in sums.items():
        of.store(arithmetic.begin(pixel, row, k), sum)
        if k * lanes * arithmetic.nbytes % LINE == 0:
            code.prefetch(code.behind(lines[row], k * lanes), for_writing=True)
    along = code.times(along, together)
    places = [
        of.add(code.times(side, k // VECTORS * together), code.index(k % VECTORS * lanes * together))
        for k in range(vectors)
    ]
    with code.walk(of.extract_value(cells.shape, 0), [(cells.data, code.index(2))]) as (cell,):
        place, step = pair(cell, 0)
        of_step = [
            (of.gep(x, [place]), code.index(together)),
            (of.gep(w, [of.mul(step, along)]), along),
            (of.gep(ahead, [of.mul(step, fetched)]), fetched),
        ]
        with code.walk(steps, of_step) as (seen, filter, next):
            code.prefetch(next)
            loaded = [code.load(of.gep(filter, [place]), kind) for place in places]
            for row in range(rows):
                everywhere = code.splat(code.load(of.gep(seen, [starts[row]]), kind.element))
                for k in range(vectors):
                    sum = sums[row, k]
                    of.store(arithmetic.add(of.load(sum), everywhere, loaded[k]), sum)
    code.store_box(arithmetic.finish(sums), lines, of.sub(behind, channel))
