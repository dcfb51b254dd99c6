"""Depthwise convolutions of real numbers, as a loop whose vectors have machine code of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.vectors import Code
from gpunn.types import Array

VECTORS = (4, 1)  # of which the sums are in registers together, as many as there are

# The first number of x and of w; how many rows and columns of the window; and from one of these to the next,
# in x, and in w
Cells = tuple[int, int, int, int, int, int, int, int]


def depthwise(
    lanes: int,
    x: Array,
    w: Array,
    bias: Array,
    bounds: tuple[Any, Any],
    rows: Array,
    columns: Array,
    steps: tuple[int, int, int, int],
    sizes: tuple[int, int, int],
    out: Array,
) -> None:
    """Convolve each channel of float32 x with filters of its own, add a bias, and clamp the results.

    lanes: of a vector. x, out: flat. w: a number for each cell of the window and each of the channels, as
    often as pixels are computed together; so is the bias. For each row of the result, `rows` has the place of
    what it sees first in an image, and in w, and how many rows of the window see x; `columns` the same for
    each part of a row, and the place and the length of this part. steps: as the last of Cells. sizes: images,
    and the numbers of one of x, and of a row of the result.

    A sum adds its products in the order of cells, each with one rounding where the CPU has an instruction
    for it.
    """
    images, image, across = sizes
    for n in range(images):
        for y in range(len(rows)):
            line = n * len(rows) + y
            for part in columns:
                place = n * image + rows[y, 0] + part[0]
                cells = (place, rows[y, 1] + part[1], rows[y, 2], part[2], *steps)
                to, length = line * across + part[3], part[4]
                if length >= lanes:
                    vector_sums(x, w, bias, bounds, cells, to, length, out)
                else:
                    single_sums(x, w, bias, bounds, cells, to, length, out)


def single_sums(
    x: Array,
    w: Array,
    bias: Array,
    bounds: tuple[Any, Any],
    cells: Cells,
    to: int,
    length: int,
    out: Array,
) -> None:
    """Write so many results of depthwise() that lie side by side."""
    place, weight, rows, columns, down, beside, row, cell = cells
    low, high = bounds
    for k in range(length):
        sum = np.float32(0)
        for i in range(rows):
            for j in range(columns):
                a, b = x[place + i * down + j * beside + k], w[weight + i * row + j * cell + k]
                sum = np.float32(np.float64(a) * np.float64(b) + np.float64(sum))
        sum += bias[k]
        sum = low if sum < low else sum
        out[to + k] = high if sum > high else sum


def vector_sums(
    x: Array,
    w: Array,
    bias: Array,
    bounds: tuple[Any, Any],
    cells: Cells,
    to: int,
    length: int,
    out: Array,
) -> None:
    """Write what single_sums() does, of a vector or more."""
    place, weight, rows, columns, down, beside, row, cell = cells
    low, high = bounds
    sums = np.zeros(length, np.float32)
    for i in range(rows):
        for j in range(columns):
            a, b = place + i * down + j * beside, weight + i * row + j * cell
            products = x[a : a + length].astype(np.float64) * w[b : b + length]
            sums = (sums + products).astype(np.float32)
    sums += bias[:length]
    sums = np.where(sums < low, low, sums)
    out[to : to + length] = np.where(sums > high, high, sums)


def vector_sums_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of vector_sums(): the last vector begins among the numbers of the one before."""
    *_, length, _ = operands
    of, done = code.builder, code.index(0)
    for vectors in VECTORS:
        size = code.index(vectors * code.lanes)
        left = of.sub(length, done)
        count = of.udiv(left, size) if vectors > 1 else code.parts(left, size)
        last = of.sub(length, size)
        with code.utils.for_range(of, count) as step:
            first = code.least(of.add(done, of.mul(step.index, size)), last)
            _write_sums(code, operands, first, vectors)
        done = of.add(done, of.mul(count, size))


def _write_sums(code: Code, operands: Sequence[Any], first: Any, vectors: int) -> None:
    """Write the code of some vectors from a number on."""
    x, w, bias, bounds, cells, to, _, out = operands
    of, each, lanes = code.builder, code.utils.for_range, code.lanes
    place, weight, rows, columns, down, beside, row, cell = cells
    kind = code.of(x.data.type.pointee)
    target = of.gep(out.data, [of.add(to, first)])
    sums = [code.utils.alloca_once(of, kind) for _ in range(vectors)]
    for k, sum in enumerate(sums):
        of.store(kind(None), sum)
        code.prefetch(code.behind(target, k * lanes), for_writing=True)
    seen, weights = (of.gep(a.data, [of.add(at, first)]) for a, at in ((x, place), (w, weight)))
    with each(of, rows) as i:
        seen_row, weights_row = (
            of.gep(a, [of.mul(i.index, step)]) for a, step in ((seen, down), (weights, row))
        )
        with each(of, columns) as j:
            a, b = of.gep(seen_row, [of.mul(j.index, beside)]), of.gep(weights_row, [of.mul(j.index, cell)])
            for k, sum in enumerate(sums):
                number, factor = (code.load(code.behind(at, k * lanes), kind) for at in (a, b))
                of.store(code.times_plus(number, factor, of.load(sum)), sum)
    biases = of.gep(bias.data, [first])
    for k, sum in enumerate(sums):
        total = of.fadd(of.load(sum), code.load(code.behind(biases, k * lanes), kind))
        code.store(code.clamped(total, *bounds), code.behind(target, k * lanes))
