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
        if call.x.dtype not in EIGHT_BITS:
            return exact
        table: Array | None = None
        sums: PairSums | None = None
        for_channels: ChannelLines | None = None
        of_rows: RowTables | None = None
        shapes = call.x.shape, call.input(1).shape
        turned = of_channels(*shapes[::-1])
        by_channel = turned or of_channels(*shapes)
        left, count, shape = 2**16, call.y.size, call.y.shape

        def compute(a: Array, b: Array) -> Array:
            nonlocal table, sums, for_channels, of_rows, left
            if table is None:
                left -= A_CALL + count
                if left > 0:
                    return exact(a, b)
            loops = integer_loops()
            if table is None:
                table, factors = pair_table(call, exact), weights(call)
                sums = None if factors is None else PairSums.of(call, factors, table)
                if loops is not None and by_channel:
                    for_channels = ChannelLines.of(call, lines, table, turned)
                if loops is not None and a.shape != b.shape:
                    of_rows = RowTables.of(call, table)
            alike = a.shape == b.shape
            if sums is not None and alike:
                result = empty(shape, table.dtype)
                sums.write(loops, a, b, result)
                return result if loops is None else of_loops(result)
            if for_channels is not None and loops is not None:
                result = empty(shape, table.dtype)
                if for_channels.write(loops, a, b, result):
                    return of_loops(result) if for_channels.all_sure else result
            if of_rows is not None and loops is not None:
                return of_rows(loops, a, b)
            if not alike or a.size <= BLOCK:
                pairs = a.view(np.uint8).astype(np.uint16) << 8
                return table.take(pairs | b.view(np.uint8))
            result = empty(shape, table.dtype)
            first, second = (v.reshape(-1).view(np.uint8) for v in (a, b))
            _read_pairs(first, second, result.reshape(-1), table)
            return result

        return compute

    return prepare


def _read_pairs(a: Array, b: Array, result: Array, table: Array) -> None:
    """Look pairs of bytes up in a pair_table(), block by block, which stay in the CPU's cache."""
    for start in range(0, len(a), BLOCK):
        part = slice(start, start + BLOCK)
        pairs = scratch("pairs", a[part].shape, np.dtype(np.uint16))
        pairs[...] = a[part]
        pairs <<= 8
        pairs |= b[part]
        table.take(pairs, out=result[part], mode="wrap")  # in place, as none is beyond the table
