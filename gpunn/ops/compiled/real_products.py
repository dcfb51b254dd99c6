"""Products of real numbers with filters, as a loop whose tiles have machine code of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.gates import hard_swish, hard_swish_code
from gpunn.ops.compiled.tiles import Box, Position, boxes, weights_of
from gpunn.ops.compiled.vectors import Code
from gpunn.types import Array


def real_products(
    some: tuple[int, int],
    x: Array,
    pixels: Array,
    cells: Array,
    parts: Array,
    w: Array,
    bias: Array,
    shape: tuple[int, int, int, int, int, int],
    bounds: tuple[Any, Any],
    hard: int,
    out: Array,
) -> None:
    """Write results [P, O] of sums of products of float32 with filters, between bounds.

    some: of parts, from one to another. x: flat. pixels, cells: as those of tile_places.Sight. parts [K, 10]:
    a part of a Sight, from which lane to which its boxes may begin, and the first numbers of x, w and out
    that count. w: filters in the order of tiles.packed(), or as tiles.boxes() says. bias: for each lane.
    shape: groups, from what one sees of a cell to what the next does, steps of the filter, lanes of a vector,
    pixels of a tile, and `row` of boxes(). A sum adds its products in the order of cells and numbers,
    each with one rounding, and then the bias: on every CPU and for any number of pixels. hard: 1 for
    hard_swish of the sums, else 0.
    """
    groups, apart, depth, lanes, rows, row = shape
    results = out.reshape(-1)
    for k in range(*some):
        of_part, lanes_of = (parts[k, 0], parts[k, 1]), (parts[k, 5], parts[k, 6])
        seen, length = cells[parts[k, 2] : parts[k, 3]], parts[k, 4]
        own, weights, to = x[parts[k, 7] :], w[parts[k, 8] :], results[parts[k, 9] :]
        for box in boxes(of_part, lanes_of, out.shape[1], groups, apart, depth, (rows, lanes), row):
            tiles_of_reals(own, pixels, seen, weights, length, box, to, bias, bounds, hard)


def tiles_of_reals(
    x: Array,
    pixels: Array,
    cells: Array,
    w: Array,
    length: int,
    box: Box,
    out: Array,
    bias: Array,
    bounds: tuple[Any, Any],
    hard: int,
) -> None:
    """Write what real_products() writes, for a box.

    float64 has the products exactly, and rounds each sum before float32 does.
    """
    lanes = slice(box.lane, box.lane + box.width)
    weights, (low, high) = weights_of(box, w)[..., 0].astype(np.float64), bounds
    for place, result in pixels[box.begin : box.end]:
        sums = np.zeros(box.width, np.float32)
        for cell, step in cells:
            seen = x[place + cell + box.first :][:length]
            for number, row in zip(seen, weights[step:][:length], strict=True):
                sums = (sums + number * row).astype(np.float32)
        sums += bias[lanes]
        if hard:
            sums = hard_swish(sums)
        sums = np.where(sums < low, low, sums)
        to = out[result + box.channel : result + min(box.channel + box.width, box.behind)]
        to[:] = np.where(sums > high, high, sums)[: len(to)]


class RealArithmetic:
    """The arithmetic of tiles_of_reals()."""

    together, nbytes, in_order = 1, 4, False

    def __init__(self, code: Code, operands: Sequence[Any]) -> None:
        *_, (*_, lane, _, _, _, _), out, bias, self._bounds, self._hard = operands
        self.kind = code.of(out.data.type.pointee)
        self._code, self._bias = code, code.builder.gep(bias.data, [lane])

    def begin(self, pixel: Any, row: int, vector: int) -> Any:
        """Return zeros."""
        return self.kind(None)

    def add(self, sums: Any, seen: Any, weights: Any) -> Any:
        """Return sums with the products of a number."""
        return self._code.fma(seen, weights, sums)

    def finish(self, sums: Mapping[Position, Any]) -> Mapping[Position, Any]:
        """Return sums with the bias, as hard_swish or clamped."""
        code, of = self._code, self._code.builder
        width = 1 + max(k for _, k in sums)
        biases = [code.load(code.behind(self._bias, k * code.lanes), self.kind) for k in range(width)]
        for (_, k), sum in sums.items():
            of.store(of.fadd(of.load(sum), biases[k]), sum)
        hard_swish_code(code, self._hard, sums.values())
        return {place: code.clamped(of.load(sum), *self._bounds) for place, sum in sums.items()}
