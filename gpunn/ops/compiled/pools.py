"""Pools of reals and of bytes, as a loop whose parts of rows have machine code of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.vectors import Code
from gpunn.ops.compiled.windows import Cells, Part, PartCode, Walk
from gpunn.types import Array

MAXIMA, MEANS = range(2)  # kinds of pools of reals
SIGNED, UNSIGNED = range(2)  # maxima of bytes
LOWEST_BYTE = -128  # with a sign


def pools(
    some: tuple[int, int],
    x: Array,
    kind: int,
    rows: Array,
    columns: Array,
    steps: tuple[int, int, int],
    sizes: tuple[int, int],
    out: Array,
) -> None:
    """Write the maxima or the means of windows of each channel of float32 x, or the maxima of bytes.

    some: the rows of all results, from one to another. x, out: flat; bytes as uint8. kind: one for reals, of
    which NaN is the greatest, or one for bytes. rows, columns: as those of gpunn.ops.kernels.window_parts.
    steps: from a row of the window, a cell and a pixel to the next. sizes: numbers of an image of x, and of a
    row of the result. A mean is of the cells that see x, which are added up in their order.
    """
    (image, across), (down, beside, apart) = sizes, steps
    for line in range(*some):
        n, y = line // len(rows), line % len(rows)
        for part in columns:
            cells = (n * image + rows[y, 0] + part[0], rows[y, 2], part[2], down, beside)
            part_pool(x, kind, cells, (line * across + part[3], part[4], part[5], apart), out)


def mean_pools(
    some: tuple[int, int],
    x: Array,
    rows: Array,
    columns: Array,
    steps: tuple[int, int, int],
    sizes: tuple[int, int],
    ends: tuple[int, int],
    out: Array,
) -> None:
    """Write the means of windows of each channel of stored integers; halves go away from zero.

    ends: what results are clamped to. All else is as of pools().
    """
    (image, across), (down, beside, apart) = sizes, steps
    longest = 0
    for part in columns:
        longest = max(longest, part[4])
    sums = np.empty(longest, np.int32)
    for line in range(*some):
        n, y = line // len(rows), line % len(rows)
        for part in columns:
            place, first, length = n * image + rows[y, 0] + part[0], line * across + part[3], part[4]
            for p in range(part[5]):
                add_cells(x, (place + p * apart, rows[y, 2], part[2], down, beside), sums[:length])
                to = first + p * length
                store_means(sums[:length], rows[y, 2] * part[2], ends, out[to : to + length])


def add_cells(x: Array, cells: Cells, sums: Array) -> None:
    """Write the sums of cells for each channel of stored integers."""
    (place, rows, columns, down, beside), length = cells, len(sums)
    for k in range(length):
        sums[k] = 0
    for i in range(rows):
        for j in range(columns):
            first = place + i * down + j * beside
            cell = x[first : first + length]
            for k in range(length):
                sums[k] += np.int32(cell[k])


def store_means(sums: Array, count: int, ends: tuple[int, int], out: Array) -> None:
    """Write sums of so many stored integers, divided by the count."""
    half = count // 2
    for k in range(len(sums)):
        nudged = sums[k] - half if sums[k] < 0 else sums[k] + half
        mean = np.int32(np.float64(nudged) / np.float64(count))
        out[k] = min(max(mean, ends[0]), ends[1])


def part_pool(x: Array, kind: int, cells: Cells, part: Part, out: Array) -> None:
    """Write what pools() writes for a part of a row."""
    (place, rows, columns, down, beside), (to, length, pixels, apart) = cells, part
    reals = x.dtype == np.float32
    if not reals and kind == SIGNED:
        x, out = x.view(np.int8), out.view(np.int8)
    lowest = -np.inf if reals else np.iinfo(x.dtype).min
    combine, first = (np.add, 0) if reals and kind == MEANS else (np.maximum, lowest)
    for p in range(pixels):
        found = np.full(length, first, x.dtype)
        for i in range(rows):
            for j in range(columns):
                cell = place + p * apart + i * down + j * beside
                combine(found, x[cell : cell + length], out=found)
        if reals and kind == MEANS:
            found /= np.float32(rows * columns)
        out[to + p * length :][:length] = found


def part_pool_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of part_pool()."""
    x, kind, cells, part, out = operands
    _, rows, columns, *_ = cells
    of, numbers = code.builder, code.of(x.data.type.pointee)
    if numbers.element == code.bytes(1).element:
        ways: tuple[_Pool, _Pool] = _GreatestBytes(code, numbers, True), _GreatestBytes(code, numbers, False)
    else:
        ways = _Maxima(code, numbers), _Means(code, numbers, of.mul(rows, columns))
    with of.if_else(of.icmp_signed("==", kind, code.index(0))) as branches:
        for branch, arithmetic in zip(branches, ways, strict=True):
            with branch:
                PartCode(code, x, cells, part, out, lambda *_, found=arithmetic: found).write()


class _Pool:
    """Both kinds of pools, to whose cells nothing belongs."""

    def __init__(self, code: Code, numbers: Any) -> None:
        self._code, self._numbers = code, numbers

    def walks(self) -> Sequence[Walk]:
        """Return no places."""
        return ()

    def of_cell(self, places: Sequence[Any]) -> None:
        """Return nothing."""

    def finish(self, found: Sequence[Any]) -> Sequence[Any]:
        """Return what was found."""
        return [self._code.builder.load(numbers) for numbers in found]


class _Maxima(_Pool):
    """The greatest number of all cells."""

    def begin(self) -> Any:
        """Return the lowest numbers."""
        return self._numbers([-np.inf] * self._code.lanes)

    def add(self, found: Any, numbers: Any, of_cell: None, vector: int) -> Any:
        """Return the greater numbers, or what is undefined."""
        of = self._code.builder
        above = of.or_(of.fcmp_ordered(">", numbers, found), of.fcmp_unordered("!=", numbers, numbers))
        return of.select(above, numbers, found)


class _GreatestBytes(_Pool):
    """The greatest byte of all cells, with a sign or without."""

    def __init__(self, code: Code, numbers: Any, has_sign: bool) -> None:
        super().__init__(code, numbers)
        self._compare = code.builder.icmp_signed if has_sign else code.builder.icmp_unsigned
        self._lowest = numbers([LOWEST_BYTE if has_sign else 0] * code.lanes)

    def begin(self) -> Any:
        """Return the lowest bytes."""
        return self._lowest

    def add(self, found: Any, numbers: Any, of_cell: None, vector: int) -> Any:
        """Return the greater bytes."""
        return self._code.builder.select(self._compare(">", numbers, found), numbers, found)


class _Means(_Pool):
    """The sums of all cells, over their count."""

    def __init__(self, code: Code, numbers: Any, count: Any) -> None:
        super().__init__(code, numbers)
        self._count = code.splat(code.builder.sitofp(count, numbers.element))

    def begin(self) -> Any:
        """Return zeros."""
        return self._numbers(None)

    def add(self, found: Any, numbers: Any, of_cell: None, vector: int) -> Any:
        """Return sums."""
        return self._code.builder.fadd(found, numbers)

    def finish(self, found: Sequence[Any]) -> Sequence[Any]:
        """Return means."""
        return [self._code.builder.fdiv(sums, self._count) for sums in super().finish(found)]
