"""Products of real numbers with filters, as a loop whose tiles have machine code of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.tiles import Box, boxes
from gpunn.ops.compiled.vectors import Code
from gpunn.types import Array


def real_products(
    x: Array,
    places: Array,
    cells: Array,
    w: Array,
    bias: Array,
    shape: tuple[int, int, int],
    bounds: tuple[Any, Any],
    out: Array,
) -> None:
    """Write results [P, O] of sums of products of float32 with filters, between bounds.

    x: flat. Pixel p sees some numbers from places[p] + cells[s] on, for each s. w: in the order of
    tiles.packed(). bias: for each lane of w. shape: numbers of a cell, lanes of a vector, pixels of a tile. A
    sum adds its products in the order of cells and numbers, each with one rounding, and then the bias: on
    every CPU and for any number of pixels.
    """
    length, lanes, rows = shape
    pixels, channels = out.shape
    for box in boxes(pixels, channels, len(cells) * length, rows, lanes):
        tiles_of_reals(x, places, cells, w, length, box, out, bias, bounds)


def tiles_of_reals(
    x: Array,
    places: Array,
    cells: Array,
    w: Array,
    length: int,
    box: Box,
    out: Array,
    bias: Array,
    bounds: tuple[Any, Any],
) -> None:
    """Write what real_products() writes, for a box, of whose channels the result may have fewer.

    float64 has the products exactly, and rounds each sum before float32 does.
    """
    begin, end, _, channel, width = box
    depth, lanes = len(cells) * length, slice(channel, channel + width)
    weights = w[channel * depth :][: depth * width].reshape(depth, width).astype(np.float64)
    low, high = bounds
    for p in range(begin, end):
        seen = np.concatenate([x[places[p] + cell :][:length] for cell in cells])
        sums = np.zeros(width, np.float32)
        for number, row in zip(seen, weights, strict=True):
            sums = (sums + number * row).astype(np.float32)
        sums += bias[lanes]
        sums = np.where(sums < low, low, sums)
        out[p, lanes] = np.where(sums > high, high, sums)[: out.shape[1] - channel]


class RealArithmetic:
    """The arithmetic of tiles_of_reals()."""

    together, nbytes = 1, 4

    def __init__(self, code: Code, operands: Sequence[Any]) -> None:
        *_, (_, _, _, channel, _), out, bias, self._bounds = operands
        self.kind = code.of(out.data.type.pointee)
        self._code, self._bias = code, code.builder.gep(bias.data, [channel])

    def begin(self, pixel: Any, row: int, vector: int) -> Any:
        """Return zeros."""
        return self.kind(None)

    def add(self, sums: Any, seen: Any, weights: Any) -> Any:
        """Return sums with the products of a number."""
        return self._code.fma(seen, weights, sums)

    def finish(self, vector: int) -> Callable[[Any], Any]:
        """Return what adds the bias to sums, and clamps them."""
        code = self._code
        bias = code.load(code.behind(self._bias, vector * code.lanes), self.kind)
        return lambda sums: code.clamped(code.builder.fadd(sums, bias), *self._bounds)
