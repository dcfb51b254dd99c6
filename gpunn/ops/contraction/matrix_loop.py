"""Products of computed matrices of real numbers on the CPU backend, as the compiled loop of filters.

The loop reads a second factor [K, N] row by row, as if it were a filter whose channels lie side by side. Its
rows are whole vectors: where they are not, or where the factor is [N, K], it is copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from gpunn.kernel import ceil_div, fits_i32
from gpunn.ops.call import Call
from gpunn.ops.compiled import OfReals, RealLoops, real_loops
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.compiled.sharing import OF_COPIES, Ends, divided, rows_divided
from gpunn.ops.compiled.tiles import ALL
from gpunn.ops.compiled.turn import COLUMNS
from gpunn.ops.contraction.prepared import PLAIN
from gpunn.ops.contraction.product_loop import A_MICROSECOND
from gpunn.ops.contraction.tile_places import whole_tiles
from gpunn.ops.memory import aligned, empty, scratch
from gpunn.types import Array, DType, Shape

FEWEST = 8  # columns, which fill half of the longest vectors
APART, MANY = 256, 128  # numbers between rows that have the same place in a cache, and such rows
LEAST_PRODUCTS = 1 << 12  # of a call: fewer take less time than what is around the loop


def _row(columns: int, lanes: int, depth: int) -> int:
    """Return how far apart rows of so many columns lie: in vectors, and many not in one place of a cache."""
    row = ceil_div(columns, lanes) * lanes
    return row + lanes if row % APART == 0 and depth > MANY else row


class MatrixLoop:
    """The products of stacks of matrices a [..., M, K] and b [..., K, N], or [..., N, K] if `turned`."""

    def __init__(self, loop: OfReals, a: Shape, b: Shape, result: Shape, turned: bool) -> None:
        (*_, self._rows, self._depth), (*_, self._columns) = a, result
        lanes, rows = loop.sizes
        self._row = _row(self._columns, lanes, self._depth)
        self._count, self._result, self._turned = math.prod(b[:-2]), result, turned
        self._loop, self._ends, self._parts = loop.products, *self._divided(a, b, rows)
        first = np.arange(self._rows)
        self._pixels = np.stack([first * self._depth, first * self._columns], axis=1).astype(np.int32)
        self._cells = np.zeros((1, 2), np.int32)
        shape = 1, 0, self._depth, lanes, rows, self._row
        self._operands = aligned(np.zeros(self._row, np.float32)), shape, *PLAIN
        self._turn = self._turning() if turned and self._depth >= COLUMNS else None
        self._copied = self._copying()

    def _divided(self, a: Shape, b: Shape, tile: int) -> tuple[Ends, Array]:
        """Return parts of the loop: of each matrix of the result whole tiles."""
        stack = self._result[:-2]
        of_a, of_b = (
            np.broadcast_to(np.arange(math.prod(s[:-2])).reshape(s[:-2]), stack).reshape(-1) for s in (a, b)
        )
        count, size = len(of_a), self._rows * self._columns
        lines, parts, ends = count * self._rows, list[tuple[int, ...]](), [0]
        for begin, end in pairwise(divided(lines, lines * self._depth * self._row / A_MICROSECOND).tolist()):
            for k in range(begin // self._rows, ceil_div(end, self._rows)):
                before = k * self._rows
                first, last = (whole_tiles(place - before, self._rows, tile) for place in (begin, end))
                if first < last:
                    factors = of_a[k] * self._rows * self._depth, of_b[k] * self._depth * self._row
                    parts.append((first, last, 0, 1, self._depth, *ALL, *factors, k * size))
            ends.append(len(parts))
        return np.array(ends), np.array(parts, np.int64)

    def _turning(self) -> tuple[Any, ...]:
        """Return the parts of the loop that turns b, and its operands between b and the copy."""
        strips = self._count * ceil_div(self._depth, COLUMNS)
        parts = rows_divided(strips, self._count * self._columns * self._depth)
        size, copy = self._columns * self._depth, self._depth * self._row
        places = np.arange(self._count)
        sizes, steps = (self._columns, self._depth), (self._depth, self._row)
        return parts, (places * size, places * copy, sizes, steps)

    def _copying(self) -> tuple[Ends, tuple[Any, ...]]:
        """Return the parts of the loop that copies the rows of b, and its operands between b and the copy."""
        rows, (width, whole) = self._count * self._depth, (4 * n for n in (self._columns, self._row))
        first = np.zeros(1, np.int64)
        return divided(rows, rows * width / OF_COPIES), (first, first, (rows, width), (width, whole))

    def __call__(self, loops: RealLoops, a: Array, b: Array) -> Array:
        """Return the products of dense matrices."""
        result = empty(self._result, np.float32)
        places = a.reshape(-1), self._pixels, self._cells, self._parts
        rows = result.reshape(-1, self._columns)
        self._loop(self._ends, *places, self._in_rows(loops, b), *self._operands, rows)
        return result if self._turned and self._turn is None else of_loops(result)

    def _in_rows(self, loops: RealLoops, b: Array) -> Array:
        """Return dense b as flat matrices [K, N], whose rows are whole vectors."""
        if not self._turned and self._row == self._columns:
            return b.reshape(-1)
        # What is behind the columns of a row gets into lanes that are not stored.
        copy = scratch("matrices", (self._count, self._depth, self._row), b.dtype)
        rows, flat = copy[..., : self._columns], copy.reshape(-1)
        if self._turn is not None:
            parts, places = self._turn
            loops.turn(parts, b.reshape(-1).view(np.uint32), *places, flat.view(np.uint32))
        elif self._turned:
            rows[...] = b.reshape(self._count, self._columns, self._depth).swapaxes(1, 2)
        else:
            ends, places = self._copied
            loops.copy_rows(ends, b.reshape(-1).view(np.uint8), *places, flat.view(np.uint8))
        return flat


def prepare_products(meaning: Callable[..., Array], call: Call) -> Callable[[Array, Array], Array] | None:
    """Return the products of a call of batch_matmul, of dense matrices; None for what numpy multiplies.

    meaning: the reference of the op.
    """
    a, b, y, turned = call.x, call.input(1), call.y, call["adj_b"]
    products = y.size * a.shape[-1]
    if call["adj_a"] or call.x.dtype is not DType.FLOAT32 or products < LEAST_PRODUCTS:
        return None
    if not fits_i32(a.size, y.size):
        return None
    made: list[MatrixLoop] = []

    def multiply(left: Array, right: Array) -> Array:
        loops = real_loops()
        loop = None if loops is None else loops.of_tiles
        if loops is None or loop is None or a.shape[-2] < loop.sizes.pixels or y.shape[-1] < FEWEST:
            return meaning(left, right, adj_b=turned)
        if not made:
            made.append(MatrixLoop(loop, a.shape, b.shape, y.shape, turned))
        return made[0](loops, left, right)

    return multiply
