"""Loops over elements that numba compiles, where it is installed: what numpy needs several passes for.

These are plain functions of Python; gpunn.ops.compiled makes machine code of them. Arrays are dense, those of
tensors are flat. `low` and `high` are what an activation allows. Their bits are those of the references: each
sum has the same order, and no product is fused with a sum. `some`: the rows that they compute, or numbers of
flat arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpunn.types import Array

Range = tuple[int, int]  # from one row or number to another


def finish(some: Range, sums: Array, bias: Array, low: Any, high: Any) -> None:
    """Add a bias [C] to float32 sums [P, C], and clamp them."""
    channels = sums.shape[1]
    for p in range(*some):
        row = sums[p]
        for k in range(channels):
            s = row[k] + bias[k]
            s = low if s < low else s
            row[k] = high if s > high else s


def scaled(some: Range, x: Array, numbers: Array, bounds: tuple[Any, Any], out: Array) -> None:
    """Write b x + d or (x + a) b c + d of float32 x [P, C] between bounds; numbers: rows b and d, or all."""
    low, high = bounds
    channels = x.shape[1]
    few = len(numbers) == 2
    for p in range(*some):
        row, to = x[p], out[p]
        if few:
            factor, summand = numbers[0], numbers[1]
            for k in range(channels):
                t = row[k] * factor[k] + summand[k]
                t = low if t < low else t
                to[k] = high if t > high else t
        else:
            first, factor, second, summand = numbers[0], numbers[1], numbers[2], numbers[3]
            for k in range(channels):
                t = (row[k] + first[k]) * factor[k] * second[k] + summand[k]
                t = low if t < low else t
                to[k] = high if t > high else t


def added(some: Range, a: Array, b: Array, bounds: tuple[Any, Any], out: Array) -> None:
    """Write the sums of float32 a [P, C] and b [P, D], between bounds; further channels of b are 0."""
    low, high = bounds
    channels, known = a.shape[1], b.shape[1]
    for p in range(*some):
        row, other, to = a[p], b[p], out[p]
        for k in range(known):
            t = row[k] + other[k]
            t = low if t < low else t
            to[k] = high if t > high else t
        for k in range(known, channels):
            t = row[k] + np.float32(0)
            t = low if t < low else t
            to[k] = high if t > high else t


def multiplied(some: Range, a: Array, b: Array, bounds: tuple[Any, Any], out: Array) -> None:
    """Write the products of float32 a [P, C] and b [P, C], between bounds."""
    low, high = bounds
    channels = a.shape[1]
    for p in range(*some):
        row, other, to = a[p], b[p], out[p]
        for k in range(channels):
            t = row[k] * other[k]
            t = low if t < low else t
            to[k] = high if t > high else t


def blended(some: Range, x: Array, starts: Array, places: Array, weights: Array, out: Array) -> None:
    """Write rows [K * P, L], each the sum of two rows of flat float32 x that have a weight each.

    Row k * P + p is x[starts[k] + places[p, i] :] for i of 0 and 1, times weights[p, i]; places: [P, 2].
    """
    count, length = len(places), out.shape[1]
    for row in range(*some):
        k, p = row // count, row % count
        a, b, to = starts[k] + places[p, 0], starts[k] + places[p, 1], out[row]
        first, second, near, far = x[a : a + length], x[b : b + length], weights[p, 0], weights[p, 1]
        for j in range(length):
            to[j] = first[j] * near + second[j] * far


def leaky(some: Range, x: Array, slope: Any, out: Array) -> None:
    """Write flat float32 x, times a slope where it is below 0."""
    begin, end = some
    source, to = x[begin:end], out[begin:end]
    for k in range(len(to)):
        number = source[k]
        to[k] = number * slope if number < 0 else number


def requantize(
    some: Range,
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
    channels = sums.shape[1]
    for p in range(*some):
        row, to = sums[p], out[p]
        for k in range(channels):
            t = np.int64(row[k]) * multiplier[k] + first[k]
            t = (t + ((t >> 63) & below[k]) + last[k]) >> right[k]
            t = low if t < low else t
            to[k] = (high if t > high else t) + zero


def floors(
    some: Range,
    sums: Array,
    factor: Array,
    summand: Array,
    bounds: tuple[float, float],
    offset: int,
    out: Array,
) -> None:
    """Convert sums [P, C] to stored integers: in float64 as conversion.RealSteps, in float32 as ProvenSteps.

    Factors, summands and bounds have the dtype that it computes in.
    """
    low, high = bounds
    channels = sums.shape[1]
    for p in range(*some):
        row, to = sums[p], out[p]
        for k in range(channels):
            t = row[k] * factor[k] + summand[k]
            t = low if t < low else t
            to[k] = np.int32(high if t > high else t) - offset


def pair_sums(
    some: Range,
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
    begin, end = some
    a, b, out = a[begin:end], b[begin:end], out[begin:end]  # so that no place may be below 0
    for k in range(len(out)):
        sum = (np.float32(a[k]) * first + summand) + np.float32(b[k]) * second
        t = low if sum < low else sum
        out[k] = np.int32(high if t > high else t) - offset
