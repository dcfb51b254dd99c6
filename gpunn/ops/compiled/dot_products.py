"""Products of bytes with filters, as a loop whose tiles have machine code of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from gpunn.ops.compiled.vectors import BYTES, Bounds, Code
from gpunn.types import Array

VECTORS = 2  # side by side in a tile; each lane of a vector is a channel

# Bytes of a cell, lanes of a vector, pixels of a tile, what each weight has in addition, and results' offset
Shape = tuple[int, int, int, int, int]
# Pixels and channels of a tile: the first ones and how many; where its weights begin, and words of each cell
Box = tuple[int, int, int, int, int, int]


def dot_products(
    x: Array,
    places: Array,
    cells: Array,
    w: Array,
    first: Array,
    line: Array,
    shape: Shape,
    bounds: tuple[float, float],
    out: Array,
) -> None:
    """Write results [P, O] of sums of products of bytes with filters.

    x: flat, uint8, as far as pixels see it in whole words. Pixel p sees some bytes from places[p] +
    cells[s] on, for each s. w: int8, in the order of byte_sums.packed(). For each lane of w, `first` has
    what a sum begins with, and `line` factor and summand of a result, as in loops.floors().
    """
    length, lanes, rows, more, offset = shape
    pixels, channels = out.shape
    words, added = (length + BYTES - 1) // BYTES, np.zeros(pixels, np.int32)
    if more != 0:
        for p in range(pixels):
            added[p] = more * sum_of_bytes(x, places[p], cells, length)
    count = rows if pixels >= rows else 1
    ends = bounds[0], bounds[1], offset
    at, channel = 0, 0
    while channel < channels:
        width = lanes if channels - channel <= lanes else VECTORS * lanes
        for step in range((pixels + count - 1) // count):
            p = min(step * count, pixels - count)  # the last tile begins among the pixels of the one before
            box = p, channel, count, width, at, words
            tile(x, places, cells, w, first, added, line, ends, box, out)
        at += len(cells) * words * BYTES * width
        channel += width


def sum_of_bytes(x: Array, place: int, cells: Array, length: int) -> Any:
    """Return the sum of all bytes that a pixel sees."""
    total = np.int32(0)
    for cell in cells:
        seen = x[place + cell : place + cell + length]
        for k in range(length):
            total += np.int32(seen[k])
    return total


def tile(
    x: Array,
    places: Array,
    cells: Array,
    w: Array,
    first: Array,
    added: Array,
    line: Array,
    ends: Bounds,
    box: Box,
    out: Array,
) -> None:
    """Write what dot_products() writes, for some pixels and channels, of which the result may have fewer."""
    pixel, channel, rows, width, at, words = box
    depth, lanes = len(cells) * words * BYTES, slice(channel, channel + width)
    weights = w[at : at + depth * width].reshape(-1, width, BYTES).transpose(0, 2, 1).reshape(depth, width)
    low, high, offset = ends
    for p in range(pixel, pixel + rows):
        seen = np.concatenate([x[places[p] + cell :][: words * BYTES] for cell in cells])
        sums = first[lanes] + added[p] + seen.astype(np.int32) @ weights.astype(np.int32)
        numbers = (sums.astype(line.dtype) * line[0, lanes] + line[1, lanes]).clip(low, high)
        out[p, lanes] = (numbers.astype(np.int32) - offset)[: out.shape[1] - channel]


def tile_code(pixels: int) -> Callable[[Code, Sequence[Any]], None]:
    """Return what writes the code of tile() for tiles of so many pixels or one, and of one vector or more."""

    def write(code: Code, operands: Sequence[Any]) -> None:
        of, (*_, (_, _, rows, width, _, _), _) = code.builder, operands
        for height, vectors in product((pixels, 1), range(1, VECTORS + 1)):
            high = of.icmp_signed("==", rows, code.index(height))
            wide = of.icmp_signed("==", width, code.index(vectors * code.lanes))
            with of.if_then(of.and_(high, wide)):
                _write_tile(code, operands, height, vectors)

    return write


def _write_tile(code: Code, operands: Sequence[Any], rows: int, vectors: int) -> None:
    """Write the code of a tile; its sums stay in registers."""
    x, places, cells, w, first, added, line, ends, (pixel, channel, _, _, at, words), out = operands
    of, lanes, each = code.builder, code.lanes, code.utils.for_range
    places, added = (of.gep(a.data, [pixel]) for a in (places, added))
    first, factor, w = of.gep(first.data, [channel]), of.gep(line.data, [channel]), of.gep(w.data, [at])
    summand = of.gep(factor, [of.extract_value(line.shape, 1)])
    starts = [of.load(code.behind(places, row)) for row in range(rows)]
    sums = {each: code.utils.alloca_once(of, code.vector) for each in product(range(rows), range(vectors))}
    for (row, k), sum in sums.items():
        begin = code.load(code.behind(first, k * lanes), code.vector)
        of.store(of.add(begin, code.splat(of.load(code.behind(added, row)))), sum)
    step = vectors * lanes * BYTES
    with each(of, of.extract_value(cells.shape, 0)) as cell:
        place = of.load(of.gep(cells.data, [cell.index]))
        seen = [of.gep(x.data, [of.add(start, place)]) for start in starts]
        weights = of.gep(w, [code.times(of.mul(cell.index, words), step)])
        with each(of, words) as word:
            beside = of.gep(weights, [code.times(word.index, step)])
            loaded = [code.load(code.behind(beside, k * lanes * BYTES), code.vector) for k in range(vectors)]
            for row in range(rows):
                bytes = code.load(of.gep(seen[row], [code.times(word.index, BYTES)]), code.vector.element)
                everywhere = code.splat(bytes)
                for k in range(vectors):
                    sum = sums[row, k]
                    of.store(code.call("vpdpbusd", of.load(sum), everywhere, loaded[k]), sum)
    channels = of.extract_value(out.shape, 1)
    left = of.sub(channels, channel)
    corner = of.gep(out.data, [of.add(of.mul(pixel, channels), channel)])
    kind = out.data.type.pointee
    finish = [
        code.results(code.behind(factor, k * lanes), code.behind(summand, k * lanes), ends, kind)
        for k in range(vectors)
    ]
    with of.if_else(of.icmp_signed(">=", left, code.index(vectors * lanes))) as (whole, part):
        for way in (whole, part):
            with way:
                for (row, k), sum in sums.items():
                    line_of = of.gep(corner, [of.mul(code.index(row), channels)])
                    target, numbers = code.behind(line_of, k * lanes), finish[k](of.load(sum))
                    if way is whole:
                        code.store(numbers, target)
                    else:
                        code.store_part(numbers, target, of.sub(left, code.index(k * lanes)))
