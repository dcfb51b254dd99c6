"""Sums of two tensors of 8 bits in float32 or integers, proven for all pairs of stored values.

In real numbers the stored result is the floor of a first + b second + summand. Fixed-point arithmetic and
such sums round on the way there, so both may leave it where it is close to an integer. Numbers that differ
in their last digits are tried until they give the result of fixed point for each of the 65,536 pairs.

PairSums are in float32, for compiled loops. numpy takes as long for this arithmetic as for a table of the
results that is in the CPU's cache, where a network rarely leaves it; a compiled loop takes half of that or
less. IntegerSums are for GPUs: these may contract a product and a sum of float32, and round it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import IntegerLoops
from gpunn.ops.compiled.sharing import rows_divided
from gpunn.ops.fixed_point.affine import LIMITS, activation_bounds, scale_of
from gpunn.ops.memory import ALIGNMENT, scratch
from gpunn.types import Array

FACTOR_STEPS = (0, 1, -1, 2, -2, 3, -3)  # in units of the last digit
SUMMAND_STEPS = (0, 1, -1, 2, -2, 4, -4, 8, -8)
SINGLE = np.dtype(np.float32)
BYTE = np.dtype(np.uint8)
FLIP = np.array(128, BYTE)
BLOCK = 1 << 14  # elements that numpy adds at a time: they stay in the CPU's cache
NEAR = 2.0**-8  # of an integer, where what is tried is looked at first
# Of a fraction. Factors that are 3.5 units off add 3.5 * 510 of 2^20 units at most: half of NEAR.
_LEAST_BITS = 20

Weights = Callable[[Call], tuple[float, float] | None]  # the real factors of both operands of a call
Singles = tuple[np.float32, np.float32, np.float32]  # first, second, summand


class PairSums(NamedTuple):
    """The formula for a call. `offset` is a part of summand and bounds, so that no result is negative.

    arrays: numbers and bounds as arrays without axes, with which numpy begins sooner than with its scalars.
    """

    numbers: Singles
    bounds: tuple[np.float32, np.float32]
    offset: int
    arrays: tuple[Array, Array, Array, Array, Array]

    @classmethod
    def of(cls, call: Call, weights: tuple[float, float], table: Array) -> PairSums | None:
        """Return the formula that gives the results of a pair_table(); None if no numbers are found."""
        low, high = activation_bounds(call, call.y)
        offset = -LIMITS[call.y.dtype][0]
        bounds = np.float32(low + offset), np.float32(high + offset)
        zeros = [scale_of(call, type)[1] for type in (call.x, call.input(1), call.y)]
        exact = zeros[2] + offset + 0.5 - zeros[0] * weights[0] - zeros[1] * weights[1]
        numbers = _proven((*weights, exact), bounds, table.astype(np.int16) + offset, call.x.dtype.numpy)
        if numbers is None:
            return None
        one, two, summand, low_end, high_end = map(np.asarray, (*numbers, *bounds))
        return cls(numbers, bounds, offset, (one, two, summand, low_end, high_end))

    def write(self, loops: IntegerLoops | None, a: Array, b: Array, result: Array) -> None:
        """Write the results of dense arrays of one shape, by a compiled loop if there are some."""
        if loops is None and result.size <= BLOCK:
            self._write(a, b, result.view(BYTE))
            return
        first, second, stored = (v.reshape(-1) for v in (a, b, result))
        if loops is not None:
            parts = rows_divided(stored.size, stored.size, ALIGNMENT)
            loops.pair_sums(parts, first, second, self.numbers, self.bounds, self.offset, stored)
            return
        unsigned = stored.view(BYTE)
        for start in range(0, len(stored), BLOCK):
            part = slice(start, start + BLOCK)
            self._write(first[part], second[part], unsigned[part])

    def _write(self, a: Array, b: Array, result: Array) -> None:
        """Write the results of a block as unsigned integers of the same bits."""
        one, two, summand, low, high = self.arrays
        sums, others = scratch("numbers", a.shape, SINGLE), scratch("others", a.shape, SINGLE)
        sums[...] = a
        others[...] = b
        np.multiply(sums, one, out=sums)
        np.add(sums, summand, out=sums)
        np.multiply(others, two, out=others)
        np.add(sums, others, out=sums)
        sums.clip(low, high, out=sums)
        result[...] = sums  # the floor, of what is not negative
        if self.offset:
            np.bitwise_xor(result, FLIP, out=result)


class IntegerSums(NamedTuple):
    """first a + second b + summand in 32 bits, of stored values: the result times 2^bits, and a fraction."""

    first: int
    second: int
    summand: int
    bits: int

    @classmethod
    def of(
        cls, call: Call, weights: tuple[float, float], compute: Callable[[Array, Array], Array], slack: float
    ) -> IntegerSums | None:
        """Return the formula for what `compute` gives for pairs of stored values, as int64, before it is
        clamped or after it; None if no numbers are found.

        slack: how far in steps fixed point may be from the real numbers. Only pairs whose real result is
        closer than that to an integer, or than the errors of the numbers, can have a wrong one.
        """
        low, high = activation_bounds(call, call.y)
        zeros = [scale_of(call, type)[1] for type in (call.x, call.input(1), call.y)]
        exact = zeros[2] + 0.5 - zeros[0] * weights[0] - zeros[1] * weights[1]
        values = np.arange(256, dtype=np.uint8).view(call.x.dtype.numpy).astype(np.int64)
        whole = (values * weights[0])[:, None] + (values * weights[1] + exact)
        bits = int(np.floor(np.log2(2**31 / (np.abs(whole).max() + 2))))
        if slack >= NEAR or bits < _LEAST_BITS:
            return None
        near = np.flatnonzero(np.abs(whole - np.rint(whole)) < NEAR)
        a, b = values[near >> 8], values[near & 255]
        results = compute(a, b)
        # Of sum and summand: no lower than where the result begins, and below where the next one does.
        starts, ends = (results << bits)[results > low], ((results + 1) << bits)[results < high]
        first, second = (round(weight * 2**bits) for weight in weights)
        for one, two in product(FACTOR_STEPS, FACTOR_STEPS):
            sums = (first + one) * a + (second + two) * b
            least = (starts - sums[results > low]).max(initial=-(2**62))
            most = (ends - 1 - sums[results < high]).min(initial=2**62)
            summand = int(min(max(round(exact * 2**bits), least), most))
            if least <= most and abs(summand - exact * 2**bits) < 2**bits * NEAR / 4:
                return cls(first + one, second + two, summand, bits)
        return None


def _proven(
    exact: tuple[float, float, float],
    bounds: tuple[np.float32, np.float32],
    results: Array,
    dtype: np.dtype[np.generic],
) -> Singles | None:
    """Return numbers that give these results for all pairs of values of a dtype; see pair_table()."""
    values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
    pairs = np.repeat(values, 256), np.tile(values, 256)
    whole = pairs[0] * exact[0] + pairs[1] * exact[1] + exact[2]
    near = np.flatnonzero(np.abs(whole - np.rint(whole)) < NEAR)
    a, b = (p.astype(np.float32) for p in pairs)
    few = a[near], b[near], results[near]
    single = [np.float32(number) for number in exact]
    for one, two, three in product(FACTOR_STEPS, FACTOR_STEPS, SUMMAND_STEPS):
        first, second, summand = (_moved(s, k) for s, k in zip(single, (one, two, three), strict=True))
        numbers = first, second, summand
        if _gives(numbers, bounds, *few) and _gives(numbers, bounds, a, b, results):
            return numbers
    return None


def _gives(
    numbers: Singles, bounds: tuple[np.float32, np.float32], a: Array, b: Array, results: Array
) -> bool:
    first, second, summand = numbers
    found = np.clip((a * first + summand) + b * second, *bounds)
    return bool((found.astype(np.int16) == results).all())


def _moved(number: np.float32, steps: int) -> np.float32:
    """Return a number that is so many units of its last digit away."""
    return np.float32(number + steps * np.spacing(number))
