"""Functions of rows of stored integers of 8 bits, as loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpunn.ops.compiled.rows import look_up
from gpunn.types import Array

ONE = 2**31 - 1
HALF = 2**30


def row_look_up(some: tuple[int, int], x: Array, numbers: Array, tables: Array, out: Array) -> None:
    """Write entries of tables [256, 256] for rows of bytes [P, C], each of the table of its number [P]."""
    width = x.shape[1]
    for p in range(*some):
        look_up((0, width), x[p], tables[numbers[p]], out[p])


def stored_softmax(
    some: tuple[int, int],
    x: Array,
    weights: Array,
    terms: Array,
    newton: tuple[int, int],
    steps: tuple[int, int],
    low: int,
    out: Array,
) -> None:
    """Write softmax of rows of stored integers, as gpunn.ops.normalization.softmax_integer does.

    weights: of each distance from the greatest number of a row, with 31 bits of fraction; those behind are 0.
    terms: what they add to the sum of a row. steps: the integer bits of this sum, and the bits of results.
    newton: where the iteration for a reciprocal begins, and its slope.
    """
    (start, slope), (bits, fraction), length = newton, steps, x.shape[1]
    shares = np.empty(256, np.uint8)
    for row in range(*some):
        numbers, to = x[row], out[row]
        top = np.int64(numbers[0])
        for k in range(length):
            top = max(top, np.int64(numbers[k]))
        total = np.int64(0)
        for k in range(length):
            below = top - np.int64(numbers[k])
            total += terms[below] if below < len(terms) else 0
        leading = 0
        while total << leading < HALF << 1:
            leading += 1
        half = total << leading >> 1
        over = start + product(half, -slope)
        for _ in range(3):
            over = over + (product(over, (HALF >> 1) - product(half, over)) << 2)
        over = min(over << 1, ONE)
        down = bits - leading + 31 - fraction
        for k in range(len(weights)):
            share = (product(weights[k], over) + (1 << down >> 1)) >> down
            shares[k] = min(share, 255)
        shares[len(weights) :] = 0
        for k in range(length):
            to[k] = np.int64(shares[top - np.int64(numbers[k])]) + low


def product(a: Any, b: Any) -> Any:
    """Return a product of numbers with 31 bits of fraction, rounded to nearest, halves upwards."""
    return min((a * b + HALF) >> 31, ONE)
