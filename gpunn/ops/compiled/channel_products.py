"""Products of bytes with numbers of their channel, as a loop whose strips have machine code of their own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from gpunn.ops.compiled.integer_products import Add
from gpunn.ops.compiled.vectors import Bounds, Code
from gpunn.types import Array

# Side by side in a strip, as many as there are: weights are loaded once for all of its pixels. Each lane of a
# vector is a channel.
PIXELS = (3, 1)
VECTORS = (4, 2, 1)

# The first pixel of a strip, pixels, the first channel, and how many channels
Strip = tuple[int, int, int, int]


def channel_products(
    some: tuple[int, int],
    x: Array,
    places: Array,
    cells: Array,
    w: Array,
    first: Array,
    line: Array,
    shape: tuple[int, int],
    bounds: tuple[float, float],
    out: Array,
) -> None:
    """Write results [P, C] of sums of products of bytes with a number for each cell and channel.

    some: the pixels, from one to another. x: flat, uint8, as far as pixels see it in whole vectors. Pixel p
    sees C bytes from places[p] + cells[s] on, for each s. w: int32, a row for each cell, of 16 bits with a
    sign. For each lane of w, `first` has what a sum begins with, and `line` factor and summand of a result,
    as in loops.floors(). shape: lanes of a vector, and the results' offset.
    """
    lanes, offset = shape
    ends = bounds[0], bounds[1], offset
    (pixel, behind), total = some, w.shape[1] // lanes
    while pixel < behind:
        pixels = 3 if behind - pixel >= 3 else 1
        done = 0
        while done < total:
            left = total - done
            vectors = 4 if left >= 4 else 2 if left >= 2 else 1
            box = pixel, pixels, done * lanes, vectors * lanes
            strip(x, places, cells, w, first, line, ends, box, out)
            done += vectors
        pixel += pixels


def strip(
    x: Array,
    places: Array,
    cells: Array,
    w: Array,
    first: Array,
    line: Array,
    ends: Bounds,
    box: Strip,
    out: Array,
) -> None:
    """Write the results of some pixels for some channels, of which the result may have fewer."""
    pixel, pixels, channel, width = box
    lanes, (low, high, offset) = slice(channel, channel + width), ends
    for p in range(pixel, pixel + pixels):
        sums = first[lanes].copy()
        for s, cell in enumerate(cells):
            seen = x[places[p] + cell + channel :][:width].astype(np.int32)
            sums[: len(seen)] += seen * w[s, lanes][: len(seen)]
        numbers = (sums.astype(line.dtype) * line[0, lanes] + line[1, lanes]).clip(low, high)
        out[p, lanes] = (numbers.astype(np.int32) - offset)[: out.shape[1] - channel]


def strip_code(add: Add, code: Code, operands: Sequence[Any]) -> None:
    """Write the code of strip() for each number of pixels and vectors; `add` adds products of 16 bits."""
    of, (*_, (_, pixels, _, width), _) = code.builder, operands
    for rows, vectors in product(PIXELS, VECTORS):
        high = of.icmp_signed("==", pixels, code.index(rows))
        wide = of.icmp_signed("==", width, code.index(vectors * code.lanes))
        with of.if_then(of.and_(high, wide)):
            _write_strip(add, code, operands, rows, vectors)


def _write_strip(add: Add, code: Code, operands: Sequence[Any], rows: int, vectors: int) -> None:
    x, places, cells, w, first, line, ends, (pixel, _, channel, _), out = operands
    of, lanes, pixel = code.builder, code.lanes, code.opaque(pixel)
    first, factor, w = (of.gep(a.data, [channel]) for a in (first, line, w))
    length, channels = of.extract_value(line.shape, 1), of.extract_value(out.shape, 1)
    place = of.gep(places.data, [pixel])
    starts = [of.gep(x.data, [of.add(of.load(code.behind(place, p)), channel)]) for p in range(rows)]
    corner = of.gep(out.data, [of.add(of.mul(pixel, channels), channel)])
    lines = [of.gep(corner, [code.times(channels, row)]) for row in range(rows)]
    sums = {place: code.utils.alloca_once(of, code.vector) for place in product(range(rows), range(vectors))}
    for (_, k), sum in sums.items():
        of.store(code.load(code.behind(first, k * lanes), code.vector), sum)
    bytes = code.of(x.data.type.pointee)
    of_cell = [(cells.data, code.index(1)), (w, length)]
    with code.walk(of.extract_value(cells.shape, 0), of_cell) as (cell, weights):
        offset = of.load(cell)
        loaded = [code.load(code.behind(weights, k * lanes), code.vector) for k in range(vectors)]
        seen = [of.gep(start, [offset]) for start in starts]
        for (row, k), sum in sums.items():
            numbers = of.zext(code.load(code.behind(seen[row], k * lanes), bytes), code.vector)
            of.store(add(code, of.load(sum), numbers, loaded[k]), sum)
    summand, kind = of.gep(factor, [length]), out.data.type.pointee
    finish = [
        code.results(code.behind(factor, k * lanes), code.behind(summand, k * lanes), ends, kind)
        for k in range(vectors)
    ]
    results = {(row, k): finish[k](of.load(sum)) for (row, k), sum in sums.items()}
    code.store_box(results, lines, of.sub(channels, channel))
