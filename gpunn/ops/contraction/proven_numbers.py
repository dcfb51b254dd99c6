"""Numbers of float32 that convert sums of products to stored results of 8 bits, proven for all sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from gpunn.ops.contraction.conversion import Line
from gpunn.types import Array

EXACT = 2**24  # up to which float32 has all integers
FACTOR_STEPS = (0, 1, -1, 2, -2, 3, -3)  # in units of the last digit
SUMMAND_STEPS = (0, 1, -1, 2, -2, 3, -3, 4, -4)  # in halves of the last digit of summand or results
MOST_MISSES = 4  # sums of a channel, each of which is searched for in every run
HOPELESS = 1 / 2  # of the channels, if no summand serves for a factor
HOPELESS_SHIFTED = 9 / 10  # the same for shifts, each of which serves few channels
SHIFTS = 32  # that are tried
GOLDEN = 0.618034  # of multiples of which the fractions lie far apart
SHIFTED_UNIT = 2.0**-17  # of the last digit of a summand up to 192
LEAST_FACTOR = 2.0**-24  # for shifts: no sum of less makes a step
TRIED = 16 * 2.0**-24  # the relative error of all that is tried
LEAST = 128  # what results are taken to be at least, for errors
CHANNELS = 1 << 6  # whose results are looked at together: they stay in the CPU's cache

Range = tuple[Array, Array]  # the least and the greatest sum of each channel that can occur


class Points(NamedTuple):
    """Sums beside which results change: channels, results k, sums, and whether they reach k."""

    channels: Array
    results: Array
    sums: Array
    reached: Array

    def of_channels(self, wanted: Array) -> Points:
        """Return those of the channels that a mask has."""
        return self.at(wanted[self.channels])

    def at(self, kept: Array) -> Points:
        """Return those that a mask has."""
        return Points(self.channels[kept], self.results[kept], self.sums[kept], self.reached[kept])

    def wrong(self, factor: Array, summand: Array, shift: Array) -> Array:
        """Tell which points float32 computes wrong."""
        at = self.channels
        sums = self.sums + shift[at] if shift.any() else self.sums
        numbers = sums * factor[at] + summand[at]
        return np.asarray((numbers >= self.results) != self.reached)


class Numbers(NamedTuple):
    """Numbers of float32 for each channel, of which (s + shift) factor + summand has the result as its floor.

    shift: None for 0 everywhere. misses: how many points have another result, more than MOST_MISSES where
    nothing is proven; of other channels all other sums have theirs. missed: these points.
    """

    factor: Array
    summand: Array
    shift: Array | None
    misses: Array
    missed: Points


def proven(line: Line, sums: Range, shifting: bool = True) -> Iterator[Numbers]:
    """Yield numbers without shifts, then others if these are `shifting` and some points are missed.

    A result reaches k at a sum t, and not at t - 1. If the formula, as float32 rounds it, is k or more at t,
    and less at t - 1, for all k, then its floor is the result of every sum: rounding is monotonic. Numbers
    that differ in their last digits are tried until it is so, and with them shifts: each of these has other
    errors of rounding.
    """
    first_factor, first_summand = line.factor.astype(np.float32), line.summand.astype(np.float32)
    points, possible = _points(line, sums)
    unit = np.spacing(np.maximum(np.abs(first_summand), np.float32(LEAST))) / 2
    shift: Array = np.zeros(len(unit), np.float32)
    search = _Search.of(line, points, possible, (first_factor, first_summand, shift))
    for up, more in product(FACTOR_STEPS, SUMMAND_STEPS):
        tried = (first_factor.view(np.int32) + np.int32(up)).view(np.float32)
        search.consider(tried, first_summand + np.float32(more) * unit, shift)
        if search.ended or (more == SUMMAND_STEPS[-1] and search.sought.mean() > HOPELESS):
            break
    yield search.numbers(line, points)
    if search.ended or not shifting:
        return
    for count in range(SHIFTS):
        # The product has both signs, so that it is at most 3/4 of the greatest result.
        middle = 128 + 128 * (count * GOLDEN % 1 - 0.5)
        shift = np.rint((line.summand - middle) / np.maximum(line.factor, LEAST_FACTOR)).astype(np.float32)
        exact = line.summand - shift * line.factor
        for up, more in product(FACTOR_STEPS[:3], SUMMAND_STEPS[:3]):
            tried = (first_factor.view(np.int32) + np.int32(up)).view(np.float32)
            search.consider(tried, (exact + more * SHIFTED_UNIT).astype(np.float32), shift)
            if search.ended:
                break
        if search.ended or search.sought.mean() > HOPELESS_SHIFTED:
            break
    yield search.numbers(line, points)


@dataclass(slots=True)
class _Search:
    """The best numbers so far, the channels that are still `sought`, and the points of these."""

    factor: Array
    summand: Array
    shift: Array
    misses: Array
    sought: Array
    left: Points

    @classmethod
    def of(cls, line: Line, points: Points, possible: Array, numbers: tuple[Array, ...]) -> _Search:
        misses = np.where(possible, len(points.sums) + 1, MOST_MISSES + 1)
        factor, summand, shift = (n.copy() for n in numbers)
        return cls(factor, summand, shift, misses, possible, points.of_channels(possible))

    @property
    def ended(self) -> bool:
        """Tell whether no channel is sought any more."""
        return not self.sought.any()

    def consider(self, factor: Array, summand: Array, shift: Array) -> None:
        """Keep the numbers of sought channels that miss fewer points."""
        wrong = self.left.channels[self.left.wrong(factor, summand, shift)]
        missed = np.bincount(wrong, minlength=len(self.misses))
        better = self.sought & (missed < self.misses)
        if not better.any():
            return
        for kept, tried in ((self.factor, factor), (self.summand, summand), (self.shift, shift)):
            kept[better] = tried[better]
        self.misses[better] = missed[better]
        done = better & (missed == 0)
        if done.any():
            self.sought = self.sought & ~done
            self.left = self.left.of_channels(self.sought)

    def numbers(self, line: Line, points: Points) -> Numbers:
        """Return the best numbers."""
        misses = self.misses.copy()
        # Where two steps of the sum outweigh all errors, the points contain all sums that may be wrong.
        misses[(misses > 0) & (2 * line.factor < TRIED * _sizes(line))] = MOST_MISSES + 1
        missing = points.of_channels((misses > 0) & (misses <= MOST_MISSES))
        missed = missing.at(missing.wrong(self.factor, self.summand, self.shift))
        shift = self.shift.copy() if self.shift.any() else None
        return Numbers(self.factor.copy(), self.summand.copy(), shift, misses, missed)


def _points(line: Line, sums: Range) -> tuple[Points, Array]:
    """Return the points where float32 may be wrong, and for which channels float64 is sure of all.

    Of what proven() tries, factors are wrong by 7 units of the last digit at most, summands by 5, product
    and sum by one each: together less than TRIED, relative to the greatest product and result. With a shift
    factors are wrong by 2 units, and a shifted sum is rounded, too, where it has more than 24 bits.
    """
    found, possible = [], []
    for first in range(0, len(line.factor), CHANNELS):
        part = slice(first, first + CHANNELS)
        cut = replace(line, factor=line.factor[part], summand=line.summand[part], right=line.right[part])
        points, sure = _points_of_few(cut, sums[0][part, None], sums[1][part, None])
        found += [(channels + first, *rest) for channels, *rest in points]
        possible.append(sure)
    return Points(*map(np.concatenate, zip(*found, strict=True))), np.concatenate(possible)


def _sizes(line: Line) -> Array:
    """Return the greatest result and product of each channel together, which errors are relative to."""
    return np.asarray(max(line.bounds[1] + 2, LEAST) + np.abs(line.summand))


def _points_of_few(line: Line, least: Array, most: Array) -> tuple[list[tuple[Array, ...]], Array]:
    """Return the points of some channels, as the fields of Points, and of which channels they are sure."""
    low, high = line.bounds
    results = np.arange(low + 1, high + 1, dtype=np.float64)
    factor, summand = line.factor[:, None], line.summand[:, None]
    possible, size = line.factor >= 0, _sizes(line)[:, None]
    unsure = np.where(line.exact[:, None], 0, 2.0**-48 * size)
    with np.errstate(all="ignore"):
        t = np.ceil((results - summand) / factor)
        t += t * factor + summand < results
        t -= (t - 1) * factor + summand >= results
        if not np.isfinite(t).all():
            t = np.nan_to_num(t)
        t.clip(least, most + 1, out=t)
    found: list[tuple[Array, ...]] = []
    every = np.arange(len(factor))
    # Where a step of the sum outweighs all errors, only the sums on both sides of a result are close to it.
    close = np.flatnonzero(factor < 2 * TRIED * size)
    sought = ((every, 0, True), (every, -1, False), (close, 1, True), (close, -2, False))
    for which, beside, reached in sought:
        if not len(which):
            continue
        at = t[which] + beside
        above = at * factor[which] + summand[which] - results
        known = (at <= most[which]) if reached else (at >= least[which])
        sure = (above >= unsure[which]) if reached else (above < -unsure[which])
        possible[which] &= (sure | ~known).all(1)
        near = (np.abs(above, out=above) < TRIED * size[which]) & known
        channels, places = near.nonzero()
        numbers = at[channels, places].astype(np.float32)
        reach = np.full(len(places), reached)
        found.append((which[channels], results[places].astype(np.float32), numbers, reach))
    return found, possible
