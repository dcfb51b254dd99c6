"""Copies of rows of bytes, as a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpunn.ops.compiled.vectors import Code
from gpunn.types import Array


def copy_rows(
    some: tuple[int, int],
    x: Array,
    places: Array,
    targets: Array,
    sizes: tuple[int, int],
    steps: tuple[int, int],
    out: Array,
) -> None:
    """Copy some rows of bytes from flat x to flat `out`.

    Rows come in groups. Group k begins at places[k], and its copy at targets[k]. sizes: rows of a group, and
    bytes of a row, which lie side by side. steps: from one row to the next, of x and of `out`.
    """
    (rows, width), (along, across) = sizes, steps
    for row in range(*some):
        k, r = row // rows, row % rows
        copy_row(x, places[k] + r * along, out, targets[k] + r * across, width)


def copy_row(x: Array, place: int, out: Array, target: int, width: int) -> None:
    """Copy bytes that lie side by side."""
    out[target : target + width] = x[place : place + width]


def copy_row_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of copy_row()."""
    x, place, out, target, width = operands
    of = code.builder
    code.utils.raw_memcpy(of, of.gep(out.data, [target]), of.gep(x.data, [place]), width, 1)
