"""Products of bytes with filters, as a loop whose tiles have machine code of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.integer_products import Add
from gpunn.ops.compiled.tiles import Box, Position, boxes, weights_of
from gpunn.ops.compiled.vectors import BYTES, Bounds, Code
from gpunn.types import Array

# Groups, bytes of one in a cell, lanes of a vector, pixels of a tile, what each weight has in addition, and
# results' offset
Shape = tuple[int, int, int, int, int, int]


def dot_products(
    some: tuple[int, int],
    x: Array,
    pixels: Array,
    cells: Array,
    parts: Array,
    w: Array,
    first: Array,
    line: Array,
    shape: Shape,
    bounds: tuple[float, float],
    out: Array,
) -> None:
    """Write results [P, O] of sums of products of bytes with filters.

    some: of parts, from one to another. x: flat, uint8, as far as pixels see it in whole words. pixels,
    cells: as those of tile_places.Sight, where all pixels see all cells. parts [K, 4]: from a pixel to
    another, and from which lane to which boxes may begin. w: int8, in the order of tiles.packed(), a word of
    each channel after the other. For each lane of w, `first` has what a sum begins with, and `line` factor
    and summand of a result, as in loops.floors().
    """
    groups, length, lanes, rows, more, offset = shape
    count, channels = out.shape
    words, added = (length + BYTES - 1) // BYTES, np.zeros(count, np.int32)
    ends = bounds[0], bounds[1], offset
    for k in range(*some):
        known = -1, -1
        of_part, lanes_of = (parts[k, 0], parts[k, 1]), (parts[k, 2], parts[k, 3])
        for box in boxes(of_part, lanes_of, channels, groups, length, len(cells) * words, (rows, lanes)):
            if more != 0 and known != (box.begin, box.first):  # other pixels, or another group
                known = box.begin, box.first
                for p in range(max(of_part[0], min(box.begin, of_part[1] - box.rows)), box.end):
                    added[p] = more * sum_of_bytes(x, pixels[p, 0] + box.first, cells, length)
            tiles_of_bytes(x, pixels, cells, w, words, box, out, first, added, line, ends)


def sum_of_bytes(x: Array, place: int, cells: Array, length: int) -> Any:
    """Return the sum of all bytes that a pixel sees."""
    total = np.int32(0)
    for cell in cells[:, 0]:
        seen = x[place + cell : place + cell + length]
        for k in range(length):
            total += np.int32(seen[k])
    return total


def tiles_of_bytes(
    x: Array,
    pixels: Array,
    cells: Array,
    w: Array,
    words: int,
    box: Box,
    out: Array,
    first: Array,
    added: Array,
    line: Array,
    ends: Bounds,
) -> None:
    """Write what dot_products() writes, for a box.

    added: what the sums of each pixel have in addition.
    """
    lanes = slice(box.lane, box.lane + box.width)
    weights = weights_of(box, w, BYTES).transpose(0, 2, 1).reshape(-1, box.width)
    low, high, offset = ends
    results = out.reshape(-1)
    for p in range(box.begin, box.end):
        place, result = pixels[p, 0] + box.first, pixels[p, 1]
        seen = np.concatenate([x[place + cell :][: words * BYTES] for cell in cells[:, 0]])
        sums = first[lanes] + added[p] + seen.astype(np.int32) @ weights.astype(np.int32)
        numbers = (sums.astype(line.dtype) * line[0, lanes] + line[1, lanes]).clip(low, high)
        to = results[result + box.channel : result + min(box.channel + box.width, box.behind)]
        to[:] = (numbers.astype(np.int32) - offset)[: len(to)]


class ByteArithmetic:
    """The arithmetic of tiles_of_bytes(); `add` adds products of bytes."""

    together, nbytes, in_order = BYTES, 1, True

    def __init__(self, add: Add, code: Code, operands: Sequence[Any]) -> None:
        *_, (*_, lane, _, _, _, _), out, first, added, line, self._ends = operands
        of = code.builder
        self.kind = code.vector
        self._add, self._code, self._stored = add, code, out.data.type.pointee
        self._first, self._added = of.gep(first.data, [lane]), added.data
        self._factor = of.gep(line.data, [lane])
        self._summand = of.gep(self._factor, [of.extract_value(line.shape, 1)])

    def begin(self, pixel: Any, row: int, vector: int) -> Any:
        """Return what the sums of a pixel begin with."""
        code, of = self._code, self._code.builder
        first = code.load(code.behind(self._first, vector * code.lanes), self.kind)
        added = of.load(code.behind(of.gep(self._added, [pixel]), row))
        return of.add(first, code.splat(added))

    def add(self, sums: Any, seen: Any, weights: Any) -> Any:
        """Return sums with the products of four bytes."""
        return self._add(self._code, sums, seen, weights)

    def finish(self, sums: Mapping[Position, Any]) -> Mapping[Position, Any]:
        """Return stored results."""
        code, of = self._code, self._code.builder

        def results(vector: int) -> Callable[[Any], Any]:
            first = vector * code.lanes
            factor, summand = (code.behind(place, first) for place in (self._factor, self._summand))
            return code.results(factor, summand, self._ends, self._stored)

        finish = [results(vector) for vector in range(1 + max(k for _, k in sums))]
        return {(row, k): finish[k](of.load(sum)) for (row, k), sum in sums.items()}
