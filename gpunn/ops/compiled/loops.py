"""Loops over elements that numba compiles, where it is installed: what numpy needs several passes for.

These are plain functions of Python; gpunn.ops.compiled makes machine code of them. Arrays are dense, those of
tensors are flat. `low` and `high` are what an activation allows. Their bits are those of the references: each
sum has the same order, and no product is fused with a sum. Only a filter with infinite or undefined weights
gives other results where it reaches into the padding, whose products these loops leave out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpunn.types import Array

# batch, height, width, channels, result's height and width, window's height and width, strides, dilations,
# padding above and to the left, and pixels of the result that are computed together
Geometry = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int, int, int]


def finish(sums: Array, bias: Array, low: Any, high: Any) -> None:
    """Add a bias [C] to float32 sums [P, C], and clamp them."""
    pixels, channels = sums.shape
    for p in range(pixels):
        row = sums[p]
        for k in range(channels):
            s = row[k] + bias[k]
            s = low if s < low else s
            row[k] = high if s > high else s


def requantize(
    sums: Array,
    multiplier: Array,
    first: Array,
    below: Array,
    last: Array,
    right: Array,
    bounds: tuple[int, int, int],
    out: Array,
) -> None:
    """Convert sums [P, C] to stored integers, as requantization.IntegerSteps; bounds: low, high, zero."""
    low, high, zero = bounds
    pixels, channels = sums.shape
    for p in range(pixels):
        row, to = sums[p], out[p]
        for k in range(channels):
            t = np.int64(row[k]) * multiplier[k] + first[k]
            t = (t + ((t >> 63) & below[k]) + last[k]) >> right[k]
            t = low if t < low else t
            to[k] = (high if t > high else t) + zero


def floors(
    sums: Array, factor: Array, summand: Array, bounds: tuple[float, float], offset: int, out: Array
) -> None:
    """Convert sums [P, C] to stored integers: in float64 as conversion.RealSteps, in float32 as ProvenSteps.

    Factors, summands and bounds have the dtype that it computes in.
    """
    low, high = bounds
    pixels, channels = sums.shape
    for p in range(pixels):
        row, to = sums[p], out[p]
        for k in range(channels):
            t = row[k] * factor[k] + summand[k]
            t = low if t < low else t
            to[k] = np.int32(high if t > high else t) - offset


def hard_swish(x: Array, out: Array) -> None:
    """Write x (x + 3) / 6, with this quotient between 0 and 1, of float32 x; both are flat, or the same."""
    least, most, six = np.float32(-3), np.float32(3), np.float32(6)
    for k in range(len(x)):
        above = least if x[k] < least else x[k]
        gate = most if above > most else above
        out[k] = above * ((gate + most) / six)


def pair_sums(
    a: Array,
    b: Array,
    numbers: tuple[Any, Any, Any],
    bounds: tuple[Any, Any],
    offset: int,
    out: Array,
) -> None:
    """Add stored integers in float32, as pair_sums.PairSums; all arrays are flat."""
    first, second, summand = numbers
    low, high = bounds
    for k in range(len(out)):
        sum = (np.float32(a[k]) * first + summand) + np.float32(b[k]) * second
        t = low if sum < low else sum
        out[k] = np.int32(high if t > high else t) - offset


def depthwise(x: Array, w: Array, bias: Array, low: Any, high: Any, geometry: Geometry, out: Array) -> None:
    """Convolve each channel of float32 x with filters of its own, add a bias, and clamp the results.

    w: a row for each cell of the window, its channels as often as there are pixels together; so is the bias.
    """
    batch, height, width, channels, rows, columns, kh, kw, sy, sx, dy, dx, top, left, together = geometry
    begin = min(columns, (left + sx - 1) // sx)
    inner = width - 1 - (kw - 1) * dx + left
    end = max(begin, min(columns, inner // sx + 1 if inner >= 0 else 0))
    size, beside = together * channels, dx * channels
    for line in range(batch * rows):
        n, y = line // rows, line % rows
        above = y * sy - top
        first = min(kh, max(0, (dy - 1 - above) // dy))
        last = max(first, min(kh, (height - 1 - above) // dy + 1)) if above < height else first
        column = 0
        while column < columns:
            inside = begin <= column < end
            pixels = min(together, end - column) if inside else 1
            length = pixels * channels
            to = (line * columns + column) * channels
            o = out[to : to + length]
            for k in range(length):
                o[k] = 0
            for i in range(first, last):
                start = ((n * height + above + i * dy) * width + column * sx - left) * channels
                if inside and kw == 3:
                    three_cells(x, w, o, start, beside, i * 3 * size, size)
                else:
                    for j in range(kw):
                        if 0 <= column * sx - left + j * dx < width:
                            one_cell(x, w, o, start + j * beside, (i * kw + j) * size)
            finish_cells(o, bias, low, high)
            column += pixels


# The parts of depthwise(). A loop of its own for each is vectorised, and a function for each keeps what is
# around it short: several pixels take half the time that they would take in one long function.


def three_cells(x: Array, w: Array, o: Array, place: int, beside: int, weight: int, size: int) -> None:
    """Add the products with three cells of a row."""
    length = len(o)
    a, u = x[place : place + length], w[weight : weight + length]
    place, weight = place + beside, weight + size
    b, v = x[place : place + length], w[weight : weight + length]
    place, weight = place + beside, weight + size
    c, z = x[place : place + length], w[weight : weight + length]
    for k in range(length):
        o[k] = ((o[k] + a[k] * u[k]) + b[k] * v[k]) + c[k] * z[k]


def one_cell(x: Array, w: Array, o: Array, place: int, weight: int) -> None:
    """Add the products with a cell."""
    length = len(o)
    a, u = x[place : place + length], w[weight : weight + length]
    for k in range(length):
        o[k] += a[k] * u[k]


def finish_cells(o: Array, bias: Array, low: Any, high: Any) -> None:
    """Add a bias, and clamp."""
    for k in range(len(o)):
        s = o[k] + bias[k]
        s = low if s < low else s
        o[k] = high if s > high else s


PARTS = (three_cells, one_cell, finish_cells)
