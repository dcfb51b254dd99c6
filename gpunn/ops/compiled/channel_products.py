"""Products of bytes with numbers of their channel, as a loop whose strips have machine code of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.vectors import Bounds, Code
from gpunn.types import Array

VECTORS = (4, 2, 1)  # side by side in a strip, as many as there are; each lane of a vector is a channel


def channel_products(
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

    x: flat, uint8, as far as pixels see it in whole vectors. Pixel p sees C bytes from places[p] + cells[s]
    on, for each s. w: int32, a row for each cell, of 16 bits with a sign. For each lane of w, `first` has
    what a sum begins with, and `line` factor and summand of a result, as in loops.floors(). shape: lanes of
    a vector, and the results' offset.
    """
    lanes, offset = shape
    ends = bounds[0], bounds[1], offset
    total = w.shape[1] // lanes
    for p in range(len(out)):
        done = 0
        while done < total:
            left = total - done
            vectors = 4 if left >= 4 else 2 if left >= 2 else 1
            strip(x, places, cells, w, first, line, ends, (p, done * lanes, vectors * lanes), out)
            done += vectors


def strip(
    x: Array,
    places: Array,
    cells: Array,
    w: Array,
    first: Array,
    line: Array,
    ends: Bounds,
    box: tuple[int, int, int],
    out: Array,
) -> None:
    """Write the results of a pixel for some channels, of which the result may have fewer."""
    p, channel, width = box
    lanes, (low, high, offset) = slice(channel, channel + width), ends
    sums = first[lanes].copy()
    for s, cell in enumerate(cells):
        seen = x[places[p] + cell + channel :][:width].astype(np.int32)
        sums[: len(seen)] += seen * w[s, lanes][: len(seen)]
    numbers = (sums.astype(line.dtype) * line[0, lanes] + line[1, lanes]).clip(low, high)
    out[p, lanes] = (numbers.astype(np.int32) - offset)[: out.shape[1] - channel]


def strip_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of strip() for each number of vectors."""
    of, (*_, (_, _, width), _) = code.builder, operands
    for vectors in VECTORS:
        with of.if_then(of.icmp_signed("==", width, code.index(vectors * code.lanes))):
            _write_strip(code, operands, vectors)


def _write_strip(code: Code, operands: Sequence[Any], vectors: int) -> None:
    x, places, cells, w, first, line, ends, (pixel, channel, _), out = operands
    of, lanes = code.builder, code.lanes
    first, factor, w = (of.gep(a.data, [channel]) for a in (first, line, w))
    length = of.extract_value(line.shape, 1)
    summand = of.gep(factor, [length])
    start = of.add(of.load(of.gep(places.data, [pixel])), channel)
    sums = [code.utils.alloca_once(of, code.vector) for _ in range(vectors)]
    for k, sum in enumerate(sums):
        of.store(code.load(code.behind(first, k * lanes), code.vector), sum)
    with code.utils.for_range(of, of.extract_value(cells.shape, 0)) as cell:
        place = of.add(start, of.load(of.gep(cells.data, [cell.index])))
        seen, weights = of.gep(x.data, [place]), of.gep(w, [of.mul(cell.index, length)])
        for k, sum in enumerate(sums):
            bytes = code.load(code.behind(seen, k * lanes), code.of(x.data.type.pointee))
            by = code.load(code.behind(weights, k * lanes), code.vector)
            of.store(code.call("vpdpwssd", of.load(sum), of.zext(bytes, code.vector), by), sum)
    channels = of.extract_value(out.shape, 1)
    left = of.sub(channels, channel)
    target = of.gep(out.data, [of.add(of.mul(pixel, channels), channel)])
    kind = out.data.type.pointee
    for k, sum in enumerate(sums):
        finish = code.results(code.behind(factor, k * lanes), code.behind(summand, k * lanes), ends, kind)
        numbers, place = finish(of.load(sum)), code.behind(target, k * lanes)
        rest = of.sub(left, code.index(k * lanes))
        with of.if_else(of.icmp_signed(">=", rest, code.index(lanes))) as (whole, part):
            with whole:
                code.store(numbers, place)
            with part:
                code.store_part(numbers, place, rest)
