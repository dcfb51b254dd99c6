"""Depthwise convolutions of real numbers, as a loop whose parts of rows have machine code of their own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np

from gpunn.ops.compiled.gates import hard_swish, hard_swish_code
from gpunn.ops.compiled.vectors import Code
from gpunn.ops.compiled.windows import Arithmetic, Cells, Load, Part, PartCode, Walk
from gpunn.types import Array

Weights = tuple[int, int, int]  # the first number of w, and from one row and one cell to the next


def depthwise(
    some: tuple[int, int],
    x: Array,
    w: Array,
    bias: Array,
    bounds: tuple[Any, Any],
    hard: int,
    rows: Array,
    columns: Array,
    steps: tuple[int, int, int, int, int],
    sizes: tuple[int, int],
    out: Array,
) -> None:
    """Convolve each channel of float32 x with filters of its own, add a bias, and clamp the results.

    some: the rows of all results, from one to another. x, out: flat. w: a number for each cell of the window
    and each of the numbers that lie side by side; so is the bias. rows, columns: as those of
    gpunn.ops.kernels.window_parts. steps: from a row of the window, a cell and a pixel to the next in x, and
    from a row and a cell to the next in w. sizes: numbers of an image of x, and of a row of the result. hard:
    1 for hard_swish of the sums, else 0.

    A sum adds its products in the order of cells, each with one rounding where the CPU has an instruction
    for it.
    """
    (image, across), (down, beside, apart, row, cell) = sizes, steps
    for line in range(*some):
        n, y = line // len(rows), line % len(rows)
        for part in columns:
            place = n * image + rows[y, 0] + part[0]
            cells = (place, rows[y, 2], part[2], down, beside)
            weights = (rows[y, 1] * row + part[1] * cell, row, cell)
            of_part = (line * across + part[3], part[4], part[5], apart)
            part_sums(x, w, bias, bounds, hard, cells, weights, of_part, out)


def part_sums(
    x: Array,
    w: Array,
    bias: Array,
    bounds: tuple[Any, Any],
    hard: int,
    cells: Cells,
    weights: Weights,
    part: Part,
    out: Array,
) -> None:
    """Write what depthwise() writes for a part of a row."""
    (place, rows, columns, down, beside), (weight, row, cell) = cells, weights
    to, length, pixels, apart = part
    low, high = bounds
    for p in range(pixels):
        sums = np.zeros(length, np.float32)
        for i in range(rows):
            for j in range(columns):
                a, b = place + p * apart + i * down + j * beside, weight + i * row + j * cell
                products = x[a : a + length].astype(np.float64) * w[b : b + length]
                sums = (sums + products).astype(np.float32)
        sums += bias[:length]
        if hard:
            sums = hard_swish(sums)
        sums = np.where(sums < low, low, sums)
        out[to + p * length :][:length] = np.where(sums > high, high, sums)


def part_sums_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of part_sums()."""
    x, w, bias, bounds, hard, cells, weights, part, out = operands

    def products(first: Any, vectors: int, load: Load) -> Arithmetic:
        of, (weight, row, cell) = code.builder, weights
        walk = Walk(code.opaque(of.gep(w.data, [of.add(weight, first)])), row, cell)
        return _Products(code, load, walk, of.gep(bias.data, [first]), (*bounds, hard), vectors)

    PartCode(code, x, cells, part, out, products).write()


class _Products:
    """Sums of products with a weight for each cell and number."""

    def __init__(
        self, code: Code, load: Load, weights: Walk, biases: Any, activation: Sequence[Any], vectors: int
    ) -> None:
        self._code, self._load, self._weights, self._activation = code, load, weights, activation
        self._biases = [load(code.behind(biases, k * code.lanes)) for k in range(vectors)]

    def walks(self) -> Sequence[Walk]:
        """Return the weights."""
        return [self._weights]

    def begin(self) -> Any:
        """Return zeros."""
        return self._biases[0].type(None)

    def of_cell(self, places: Sequence[Any]) -> Any:
        """Return the weights of a cell, a vector after the other."""
        (weights,), lanes = places, self._code.lanes
        return [self._load(self._code.behind(weights, k * lanes)) for k in range(len(self._biases))]

    def add(self, found: Any, numbers: Any, of_cell: Any, vector: int) -> Any:
        """Return sums with the products of a cell."""
        return self._code.times_plus(numbers, of_cell[vector], found)

    def finish(self, found: Sequence[Any]) -> Sequence[Any]:
        """Return sums with the bias, as hard_swish or clamped."""
        code, of, (low, high, hard) = self._code, self._code.builder, self._activation
        for sums, bias in zip(found, cycle(self._biases), strict=False):
            of.store(of.fadd(of.load(sums), bias), sums)
        hard_swish_code(code, hard, found)
        return [code.clamped(of.load(sums), low, high) for sums in found]
