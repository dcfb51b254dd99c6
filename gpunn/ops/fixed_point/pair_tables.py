"""Functions of two numbers of 8 bits as tables of all results, and what takes their place where it can."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import IntegerLoops, integer_loops
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.compiled.sharing import OF_TABLES, rows_divided
from gpunn.ops.fixed_point.channel_lines import ChannelLines, Lines, of_channels
from gpunn.ops.fixed_point.pair_sums import PairSums, Weights
from gpunn.ops.fixed_point.tables import every_value
from gpunn.ops.memory import empty, scratch
from gpunn.ops.op import EIGHT_BITS
from gpunn.types import Array, Shape

Pairwise = Callable[[Array, Array], Array]  # from the stored values of two operands to those of the result
BLOCK = 1 << 14  # pairs that are looked up at a time
A_CALL = 1 << 12  # pairs of a pair_table() that take as long as the beginning of a reference in fixed point


def pair_table(call: Call, exact: Pairwise) -> Array:
    """List the stored results of all pairs of stored values of 8 bits, by the bits of the first, then of the
    second. `exact` computes them.
    """
    values = every_value(call.x)
    with np.errstate(all="ignore"):
        return exact(np.repeat(values, len(values)), np.tile(values, len(values))).reshape(-1)


class RowTables(NamedTuple):
    """The results of pairs where one operand has a number for each row of the other one, or a single number.

    tables: by the bits of such a number, the results by the bits of others. first: tells whether the first
    operand has them. rows: [P, C], of the other one.
    """

    first: bool
    rows: tuple[int, int]
    tables: Array

    @classmethod
    def of(cls, call: Call, table: Array) -> RowTables | None:
        """Return the tables of a pair_table(); None for other shapes."""
        shapes, pairs = (call.x.shape, call.input(1).shape), table.reshape(256, 256)
        for first, (numbers, x) in ((True, shapes), (False, shapes[::-1])):
            rows = _rows_of(x, numbers)
            if rows is not None and x == call.y.shape:
                return cls(first, rows, np.ascontiguousarray(pairs if first else pairs.T))
        return None

    def __call__(self, loops: IntegerLoops, a: Array, b: Array) -> Array:
        """Return the results of dense operands."""
        numbers, x = (a, b) if self.first else (b, a)
        result = empty(x.shape, self.tables.dtype)
        source, target = (v.reshape(self.rows).view(np.uint8) for v in (x, result))
        parts = rows_divided(self.rows[0], x.size, each=OF_TABLES)
        tables = self.tables.view(np.uint8)
        loops.row_look_up(parts, source, numbers.reshape(-1).view(np.uint8), tables, target)
        return of_loops(result)


def _rows_of(x: Shape, numbers: Shape) -> tuple[int, int] | None:
    """Return how many rows x has, and of how many elements, if there is a number for each, or one for all."""
    if math.prod(numbers) == 1:
        return 1, math.prod(x)
    numbers = (1,) * (len(x) - len(numbers)) + numbers
    rows = next((k for k, n in enumerate(numbers) if math.prod(numbers[k:]) == 1), len(x))
    return (math.prod(x[:rows]), math.prod(x[rows:])) if numbers[:rows] == x[:rows] else None


def by_pairs(
    make: Callable[[Call], Pairwise], weights: Weights = lambda _: None, lines: Lines = lambda *_: None
) -> Callable[[Call], Pairwise]:
    """Make Quantized.prepare: a call of 8 bits makes a table as soon as its results have taken as long.

    make: what computes the results of a call without one. weights: where the op is a sum, the real factors of
    both operands. PairSums may take the place of the table then. lines: of ChannelLines, which may take it
    where one operand has a number for each channel.
    """

    def prepare(call: Call) -> Pairwise:
        exact = make(call)
        return PairResults(call, exact, weights, lines) if call.x.dtype in EIGHT_BITS else exact

    return prepare


class PairResults:
    """The results of a call of 8 bits, run by run: by exact arithmetic until a table has paid off."""

    def __init__(self, call: Call, exact: Pairwise, weights: Weights, lines: Lines) -> None:
        self._call, self._exact, self._weights, self._lines = call, exact, weights, lines
        self._left = 2**16  # pairs to compute before the table has paid off
        self._ways: _Ways | None = None

    def __call__(self, a: Array, b: Array) -> Array:
        """Return the results of dense operands."""
        if self._ways is None:
            self._left -= A_CALL + self._call.y.size
            if self._left > 0:
                return self._exact(a, b)
            self._ways = self._tabulated()
        return self._ways(a, b)

    def _tabulated(self) -> _Ways:
        """Make the table, and what takes its place where it can."""
        call, a, b = self._call, self._call.x.shape, self._call.input(1).shape
        table, factors = pair_table(call, self._exact), self._weights(call)
        sums = None if factors is None else PairSums.of(call, factors, table)
        lines: ChannelLines | None = None
        rows: RowTables | None = None
        if integer_loops() is not None:
            turned = of_channels(b, a)
            if turned or of_channels(a, b):
                lines = ChannelLines.of(call, self._lines, table, turned)
            if a != b:
                rows = RowTables.of(call, table)
        return _Ways(call.y.shape, table, sums, lines, rows)


class _Ways(NamedTuple):
    """A pair_table() for results of a shape, and what takes its place.

    sums: for operands of one shape. lines, rows: for loops, where one operand is broadcast.
    """

    shape: Shape
    table: Array
    sums: PairSums | None
    lines: ChannelLines | None
    rows: RowTables | None

    def __call__(self, a: Array, b: Array) -> Array:
        """Return the results of dense operands in the way that takes the least time."""
        loops = integer_loops()
        if self.sums is not None and a.shape == b.shape:
            result = empty(self.shape, self.table.dtype)
            self.sums.write(loops, a, b, result)
            return result if loops is None else of_loops(result)
        found = None if loops is None else self._broadcast(loops, a, b)
        return self._looked_up(a, b) if found is None else found

    def _broadcast(self, loops: IntegerLoops, a: Array, b: Array) -> Array | None:
        """Return the results by loops, of which one operand is broadcast; None if they do not suit."""
        if self.lines is not None:
            result = empty(self.shape, self.table.dtype)
            if self.lines.write(loops, a, b, result):
                return of_loops(result) if self.lines.all_sure else result
        return None if self.rows is None else self.rows(loops, a, b)

    def _looked_up(self, a: Array, b: Array) -> Array:
        """Return the results from the table, by numpy."""
        if a.shape != b.shape or a.size <= BLOCK:
            pairs = a.view(np.uint8).astype(np.uint16) << 8
            return self.table.take(pairs | b.view(np.uint8))
        result = empty(self.shape, self.table.dtype)
        first, second = (v.reshape(-1).view(np.uint8) for v in (a, b))
        _read_pairs(first, second, result.reshape(-1), self.table)
        return result


def _read_pairs(a: Array, b: Array, result: Array, table: Array) -> None:
    """Look pairs of bytes up in a pair_table(), block by block, which stay in the CPU's cache."""
    for start in range(0, len(a), BLOCK):
        part = slice(start, start + BLOCK)
        pairs = scratch("pairs", a[part].shape, np.dtype(np.uint16))
        pairs[...] = a[part]
        pairs <<= 8
        pairs |= b[part]
        table.take(pairs, out=result[part], mode="wrap")  # in place, as none is beyond the table
