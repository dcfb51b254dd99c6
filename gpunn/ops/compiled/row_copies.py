"""Copies of rows of bytes, as loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.vectors import Code
from gpunn.types import Array

TOGETHER = 64  # bytes of a vector, of which parts are


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


def place_rows(
    some: tuple[int, int],
    x: Array,
    places: Array,
    sizes: tuple[int, int, int],
    around: int,
    flip: int,
    out: Array,
) -> None:
    """Write some rows of flat `out`: bytes of flat x, and padding around them.

    places: where each row begins in x; one that begins below 0 is padding alone. sizes: the bytes in front of
    those of x, of these, and of a whole row. flip: bits of x that are turned round. around: what padding is.
    """
    before, width, whole = sizes
    value, turned = np.uint8(around), np.uint8(flip)
    for row in range(*some):
        to, place = out[row * whole : (row + 1) * whole], places[row]
        if fill_around(to, place, sizes, value):
            own, source = to[before : before + width], x[place : place + width]
            for k in range(width):
                own[k] = source[k] ^ turned


def fill_around(to: Array, place: int, sizes: tuple[int, int, int], value: Any) -> bool:
    """Write the padding of a row of place_rows(); tell whether it has more."""
    before, width, whole = sizes
    first, last = (before, before + width) if place >= 0 else (whole, whole)
    for k in range(first):
        to[k] = value
    for k in range(last, whole):
        to[k] = value
    return place >= 0


def place_numbers(
    some: tuple[int, int], x: Array, places: Array, sizes: tuple[int, int, int], around: float, out: Array
) -> None:
    """Write what place_rows() writes, of stored integers as float32; places and sizes count elements."""
    before, width, whole = sizes
    for row in range(*some):
        to, place = out[row * whole : (row + 1) * whole], places[row]
        if fill_around(to, place, sizes, around):
            own, source = to[before : before + width], x[place : place + width]
            for k in range(width):
                own[k] = source[k]


def flipped(some: tuple[int, int], x: Array, flip: int, out: Array) -> None:
    """Write some bytes of flat x, of which the bits of `flip` are turned round."""
    begin, end = some
    source, to, turned = x[begin:end], out[begin:end], np.uint8(flip)
    for k in range(len(to)):
        to[k] = source[k] ^ turned


def copy_row_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of copy_row()."""
    x, place, out, target, width = operands
    of = code.builder
    code.utils.raw_memcpy(of, of.gep(out.data, [target]), of.gep(x.data, [place]), width, 1)
