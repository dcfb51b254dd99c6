"""Turned copies of matrices of words or bytes, as a loop whose tiles have machine code of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpunn.ops.compiled.vectors import Code
from gpunn.types import Array

COLUMNS = 16  # as many as the lanes of a vector of any CPU, or more


def turn(
    some: tuple[int, int],
    lanes: int,
    x: Array,
    places: Array,
    targets: Array,
    sizes: tuple[int, int],
    steps: tuple[int, int],
    out: Array,
) -> None:
    """Copy some strips of matrices from flat x to flat `out`, so that rows become columns.

    A strip has COLUMNS of a matrix, or those that are left. Matrix k begins at places[k], and its copy at
    targets[k]. sizes: of the rows of a matrix, and of its columns, of which there are as many as lanes of a
    vector at least. steps: from one row to the next, of a matrix and of a copy. The elements of each row lie
    side by side.
    """
    (rows, columns), (along, across) = sizes, steps
    strips = (columns + COLUMNS - 1) // COLUMNS
    for strip in range(*some):
        k, first = strip // strips, strip % strips * COLUMNS
        for left in range(first, min(first + COLUMNS, columns), lanes):
            column = min(left, columns - lanes)
            place, target = places[k] + column, targets[k] + column * across
            if rows == 2 == across:
                turn_pair(lanes, x, place, along, out, target)
            elif rows < lanes:
                turn_by_ones(lanes, rows, x, place, along, out, target, across)
            else:
                for top in range(0, rows, lanes):
                    row = min(top, rows - lanes)
                    turn_tile(lanes, x, place + row * along, along, out, target + row, across)


def turn_by_ones(
    columns: int, rows: int, x: Array, place: int, along: int, out: Array, target: int, across: int
) -> None:
    """Copy a part of a matrix element by element."""
    for column in range(columns):
        for row in range(rows):
            out[target + column * across + row] = x[place + row * along + column]


def turn_tile(lanes: int, x: Array, place: int, along: int, out: Array, target: int, across: int) -> None:
    """Copy as many rows and columns as a vector has lanes."""
    turn_by_ones(lanes, lanes, x, place, along, out, target, across)


def turn_pair(lanes: int, x: Array, place: int, along: int, out: Array, target: int) -> None:
    """Copy as many columns of two rows as a vector has lanes; their elements lie side by side in the copy."""
    turn_by_ones(lanes, 2, x, place, along, out, target, 2)


def turn_tile_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of turn_tile().

    One step exchanges, between vectors that are 1, 2, 4 ... apart, the lanes that are as far apart.
    """
    _, x, place, along, out, target, across = operands
    of, lanes, kind = code.builder, code.lanes, code.of(x.data.type.pointee)
    source, copy = of.gep(x.data, [place]), of.gep(out.data, [target])
    vectors = [code.load(of.gep(source, [of.mul(along, code.index(k))]), kind) for k in range(lanes)]
    apart = 1
    while apart < lanes:
        for k in (k for k in range(lanes) if not k & apart):
            pair = vectors[k], vectors[k + apart]
            early = [lanes + lane - apart if lane & apart else lane for lane in range(lanes)]
            late = [lanes + lane if lane & apart else lane + apart for lane in range(lanes)]
            vectors[k], vectors[k + apart] = (code.shuffled(*pair, chosen) for chosen in (early, late))
        apart *= 2
    for k, vector in enumerate(vectors):
        code.store(vector, of.gep(copy, [of.mul(across, code.index(k))]))


def turn_pair_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of turn_pair()."""
    _, x, place, along, out, target = operands
    of, lanes, kind = code.builder, code.lanes, code.of(x.data.type.pointee)
    source, copy = of.gep(x.data, [place]), of.gep(out.data, [target])
    pair = code.load(source, kind), code.load(of.gep(source, [along]), kind)
    chosen = [lane // 2 + lanes * (lane % 2) for lane in range(2 * lanes)]
    for first in (0, lanes):
        code.store(code.shuffled(*pair, chosen[first : first + lanes]), code.behind(copy, first))
