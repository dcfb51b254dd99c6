"""Maxima of windows, as a loop whose parts of rows have machine code of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.vectors import Code
from gpunn.ops.compiled.windows import Cells, Part, PartCode, Walk
from gpunn.types import Array


def maxima(
    x: Array,
    rows: Array,
    columns: Array,
    steps: tuple[int, int, int],
    sizes: tuple[int, int, int],
    out: Array,
) -> None:
    """Write the maxima of windows of each channel of float32 x; NaN is the greatest.

    x, out: flat. rows, columns: as those of gpunn.ops.kernels.window_parts. steps: from a row of the window,
    a cell and a pixel to the next. sizes: images, and the numbers of one of x, and of a row of the result.
    """
    (images, image, across), (down, beside, apart) = sizes, steps
    for n in range(images):
        for y in range(len(rows)):
            line = n * len(rows) + y
            for part in columns:
                cells = (n * image + rows[y, 0] + part[0], rows[y, 2], part[2], down, beside)
                part_maxima(x, cells, (line * across + part[3], part[4], part[5], apart), out)


def part_maxima(x: Array, cells: Cells, part: Part, out: Array) -> None:
    """Write what maxima() writes for a part of a row."""
    (place, rows, columns, down, beside), (to, length, pixels, apart) = cells, part
    for p in range(pixels):
        most = np.full(length, -np.inf, np.float32)
        for i in range(rows):
            for j in range(columns):
                first = place + p * apart + i * down + j * beside
                np.maximum(most, x[first : first + length], out=most)
        out[to + p * length :][:length] = most


def part_maxima_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of part_maxima()."""
    x, cells, part, out = operands
    greatest = _Greatest(code, code.of(x.data.type.pointee))
    PartCode(code, x, cells, part, out, lambda *_: greatest).write()


class _Greatest:
    """The greatest number of all cells."""

    def __init__(self, code: Code, kind: Any) -> None:
        self._code, self._kind = code, kind

    def walks(self) -> Sequence[Walk]:
        """Return no places."""
        return ()

    def begin(self) -> Any:
        """Return the lowest numbers."""
        return self._kind([-np.inf] * self._code.lanes)

    def of_cell(self, places: Sequence[Any]) -> None:
        """Return nothing."""

    def add(self, found: Any, numbers: Any, of_cell: None, vector: int) -> Any:
        """Return the greater numbers, or what is undefined."""
        of = self._code.builder
        above = of.or_(of.fcmp_ordered(">", numbers, found), of.fcmp_unordered("!=", numbers, numbers))
        return of.select(above, numbers, found)

    def finish(self, found: Any, vector: int) -> Any:
        """Return what was found."""
        return found
