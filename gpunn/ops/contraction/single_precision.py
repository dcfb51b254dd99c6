"""Sums of products to stored results of 8 bits in float32, where a proof or a check says that it is exact.

SingleSteps converts twice, a little too low and a little too high, and asks for the exact result where these
differ. ProvenSteps converts once: for each channel the numbers of the formula are such that no sum near a
step of the results falls on its wrong side, apart from few sums whose results are known (corrections.py). The
search for them takes as long as some thousands of pixels, so LearningSteps starts it when so many have been
converted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.call import Call
from gpunn.ops.contraction.channelwise import LONG
from gpunn.ops.contraction.conversion import (
    Conversion,
    IntegerSteps,
    Line,
    RealSteps,
    blocks_of,
    dense_rows,
    longest,
    lower,
    spread,
)
from gpunn.ops.contraction.corrections import Corrections
from gpunn.ops.contraction.product_rescaling import Rescaling
from gpunn.ops.memory import scratch
from gpunn.types import Array, Shape

MOST_SLACK = 2.0**-8  # a result is doubtful with a probability of twice as much
WORD = 8  # flags that are looked at together
SINGLE, BYTE, FLAGS = np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.uint64)
PIXELS_BEFORE_SEARCH = 1 << 13
MOST_OTHERS = 1 / 32  # of the channels may be converted by themselves, as that takes several times as long
FACTOR_STEPS = (0, 1, -1, 2, -2, 3, -3)  # in units of the last digit
SUMMAND_STEPS = (0, 1, -1, 2, -2, 3, -3, 4, -4)  # in halves of the last digit of summand or results
MOST_MISSES = 4  # sums of a channel, each of which is searched for in every run
MOST_MISSED = 1 / 8  # such sums for each channel, in the mean: with more, exact steps take less time
HOPELESS = 1 / 2  # of the channels, if no summand serves for a factor
TRIED = 16 * 2.0**-24  # the relative error of all that is tried
LEAST = 128  # what results are taken to be at least, for errors
CHANNELS = 1 << 6  # whose results are looked at together: they stay in the CPU's cache

Exact = RealSteps | IntegerSteps
Range = tuple[Array, Array]  # the least and the greatest sum of each channel that can occur


class SingleSteps(NamedTuple):
    """The conversion of sums of float32 in float32; where its rounding may decide, the `exact` steps do.

    It computes two numbers that the exact one lies between, 2 `slack` apart, and their floors are mostly the
    same. All steps are monotonic, so what leaves the bounds is clamped as the exact number is.
    """

    exact: Exact
    factor: Array
    summand: Array  # without `slack`
    channels: int
    between: np.float32  # 2 slack
    bounds: tuple[np.float32, np.float32]
    offset: int
    longest: int

    @classmethod
    def of(cls, call: Call, how: Rescaling, bias: Array) -> SingleSteps | None:
        """Return the steps for a bias; None if they might round in another way, or are too often unsure."""
        line = Line.of(call, how, bias)
        if line is None or line.bounds[1] > 255:
            return None
        # Of results up to high + 2 a product is at most as far from 0 as these and the summand together. It
        # has two roundings; the summand, the lower number and the upper one have one each, which makes 4.
        slack = 6 * 2.0**-24 * (line.bounds[1] + 2 + float(np.abs(line.summand).max(initial=0)))
        if slack > MOST_SLACK:
            return None
        factor = spread(line.factor.astype(np.float32), line.pixels)
        summand = spread((line.summand - slack).astype(np.float32), line.pixels)
        return cls(
            RealSteps.of(call, how, bias) or IntegerSteps.of(call, how, bias),
            factor,
            summand,
            call.y.shape[-1],
            np.float32(2 * slack),
            _single(line.bounds),
            line.offset,
            longest(factor, summand),
        )

    def write(self, sums: Array, result: Array) -> None:
        """Write the results [pixels, C] of sums of products."""
        flat, stored = sums.reshape(-1), result.reshape(-1).view(np.uint8)
        for place, shape in blocks_of(*sums.shape, self.longest):
            self._write(flat[place], stored[place], shape, place.start)
        lower(stored, self.offset)

    def _write(self, sums: Array, stored: Array, shape: Shape, first: int) -> None:
        """Write the results of a block of sums, `offset` higher; the first is element `first` of all."""
        number, upper = scratch("numbers", shape, SINGLE), scratch("upper", shape, BYTE)
        words = scratch("doubtful", (ceil_div(len(sums), WORD),), FLAGS)
        words[-1:] = 0
        doubtful, below, width = words.view(np.bool_), stored.reshape(shape), shape[1]
        np.multiply(sums.reshape(shape), self.factor[:width], out=number)
        number += self.summand[:width]
        number.clip(*self.bounds, out=number)
        below[...] = number  # the floor, of what is not negative
        number += self.between
        upper[...] = number
        np.not_equal(below, upper, out=doubtful[: len(sums)].reshape(shape))
        (found,) = (words != 0).nonzero()
        if len(found):
            which, within = doubtful.reshape(-1, WORD)[found].nonzero()
            places = found[which] * WORD + within
            stored[places] = self.exact.floors(sums.take(places), (places + first) % self.channels)


class ProvenSteps(NamedTuple):
    """The conversion of sums of float32 in float32, with numbers that _proven() found.

    `others`: channels without such numbers, which `exact` converts. corrections: of what the numbers miss.
    """

    factor: Array
    summand: Array
    bounds: tuple[np.float32, np.float32]
    offset: int
    others: Array
    exact: Exact
    corrections: Corrections | None = None
    longest: int = LONG

    @classmethod
    def of(
        cls, line: Line, exact: Exact, sums: Range, most: float | None = None, corrected: bool = True
    ) -> ProvenSteps | None:
        """Return the steps for a formula and what sums may be; None if too many channels have no numbers.

        most: the share of the channels that may have none, if it is not MOST_OTHERS. corrected: numbers may
        miss some sums, which are corrected.
        """
        factor, summand, misses, missed = _proven(line, sums)
        corrected = corrected and 0 < len(missed.sums) <= MOST_MISSED * len(misses)
        others = np.flatnonzero(misses > (MOST_MISSES if corrected else 0))
        if len(others) > (MOST_OTHERS if most is None else most) * len(misses):
            return None
        rows = spread(factor, line.pixels), spread(summand, line.pixels)
        rest = exact.of_channels(others) if len(others) else exact
        corrections = None
        if corrected:
            results: Array = np.empty((1, len(missed.sums)), np.int8 if line.offset else np.uint8)
            exact.of_channels(missed.channels).write(missed.sums[None], results)
            corrections = Corrections(missed.channels, missed.sums, results[0])
        return cls(*rows, _single(line.bounds), line.offset, others, rest, corrections, longest(*rows))

    def write(self, sums: Array, result: Array) -> None:
        """Write the results [pixels, C] of sums of products, which change."""
        rest = sums.take(self.others, axis=1) if len(self.others) else None
        corrected = None if self.corrections is None else self.corrections.find(sums)
        stored, blocks = result.view(BYTE), blocks_of(*sums.shape, self.longest)
        if len(blocks) == 1:
            ((_, shape),) = blocks
            self._convert(sums.reshape(shape), stored.reshape(shape))
        else:
            flat, results = sums.reshape(-1), stored.reshape(-1)
            for place, shape in blocks:
                self._convert(flat[place].reshape(shape), results[place].reshape(shape))
        lower(stored, self.offset)
        if rest is not None:
            found = np.empty(rest.shape, result.dtype)
            self.exact.write(rest, found)
            result[:, self.others] = found
        if corrected is not None:
            places, numbers = corrected
            result.reshape(-1)[places] = numbers

    def _convert(self, numbers: Array, result: Array) -> None:
        """Write the results of sums [rows, pixels * C], which change, `offset` higher."""
        width = numbers.shape[1]
        np.multiply(numbers, self.factor[:width], out=numbers)
        np.add(numbers, self.summand[:width], out=numbers)
        numbers.clip(*self.bounds, out=numbers)
        result[...] = numbers

    def rows(self, channels: int) -> tuple[Any, ...]:
        """Return what loops.floors() takes."""
        return *dense_rows(channels, self.factor, self.summand), self.bounds, self.offset


class LearningSteps:
    """Steps that become ProvenSteps, if there are any, when PIXELS_BEFORE_SEARCH have been converted.

    sums: makes what ProvenSteps need to know of sums. most: as of ProvenSteps.of().
    """

    def __init__(
        self,
        line: Line,
        steps: Conversion,
        exact: Exact,
        sums: Callable[[], Range],
        most: float | None = None,
    ) -> None:
        self._prove: Callable[[], ProvenSteps | None] | None = lambda: ProvenSteps.of(
            line, exact, sums(), most
        )
        self._steps, self._left = steps, PIXELS_BEFORE_SEARCH

    def write(self, sums: Array, result: Array) -> None:
        """Write the results [pixels, C] of sums of products, which may change."""
        if self._prove is not None:
            self._left -= len(sums)
            if self._left <= 0:
                self._steps, self._prove = self._prove() or self._steps, None
        self._steps.write(sums, result)


def _single(bounds: tuple[int, int]) -> tuple[np.float32, np.float32]:
    return np.float32(bounds[0]), np.float32(bounds[1])


class _Points(NamedTuple):
    """Sums beside which results change: channels, results k, sums, and whether they reach k."""

    channels: Array
    results: Array
    sums: Array
    reached: Array

    def of_channels(self, wanted: Array) -> _Points:
        """Return those of the channels that a mask has."""
        return self.at(wanted[self.channels])

    def at(self, kept: Array) -> _Points:
        """Return those that a mask has."""
        return _Points(self.channels[kept], self.results[kept], self.sums[kept], self.reached[kept])

    def wrong(self, factor: Array, summand: Array) -> Array:
        """Tell which points float32 computes wrong."""
        numbers = self.sums * factor[self.channels] + summand[self.channels]
        return np.asarray((numbers >= self.results) != self.reached)


def _proven(line: Line, sums: Range) -> tuple[Array, Array, Array, _Points]:
    """Return factors and summands of float32, at how many points they miss the result, and these points.

    They are proven for all other sums. Of channels with more than MOST_MISSES points nothing is proven, and
    these points are not returned.

    A result reaches k at a sum t, and not at t - 1. If s factor + summand, as float32 rounds product and sum,
    is k or more at t, and less at t - 1, for all k, then its floor is the result of every sum: rounding is
    monotonic. Numbers that differ in their last digits are tried until it is so.
    """
    first_factor, first_summand = line.factor.astype(np.float32), line.summand.astype(np.float32)
    factor, summand, count = first_factor.copy(), first_summand.copy(), len(first_factor)
    unit = np.spacing(np.maximum(np.abs(summand), np.float32(LEAST))) / 2
    points, sought = _points(line, sums)
    misses, left = np.where(sought, len(points.sums) + 1, MOST_MISSES + 1), points
    for up, more in product(FACTOR_STEPS, SUMMAND_STEPS):
        tried = (first_factor.view(np.int32) + np.int32(up)).view(np.float32)
        shifted = first_summand + np.float32(more) * unit
        left = left.of_channels(sought)
        missed = np.bincount(left.channels[left.wrong(tried, shifted)], minlength=count)
        better = sought & (missed < misses)
        factor[better], summand[better], misses[better] = tried[better], shifted[better], missed[better]
        sought &= misses > 0
        if not sought.any() or (more == SUMMAND_STEPS[-1] and sought.mean() > HOPELESS):
            break
    # Where two steps of the sum outweigh all errors, the points contain all sums that may be wrong.
    misses[(misses > 0) & (2 * line.factor < TRIED * _sizes(line))] = MOST_MISSES + 1
    missing = points.of_channels((misses > 0) & (misses <= MOST_MISSES))
    return factor, summand, misses, missing.at(missing.wrong(factor, summand))


def _points(line: Line, sums: Range) -> tuple[_Points, Array]:
    """Return the points where float32 may be wrong, and for which channels float64 is sure of all.

    Of what _proven() tries, factors are wrong by 7 units of the last digit at most, summands by 5, product
    and sum by one each: together less than TRIED, relative to the greatest product and result.
    """
    found, possible = [], []
    for first in range(0, len(line.factor), CHANNELS):
        part = slice(first, first + CHANNELS)
        cut = replace(line, factor=line.factor[part], summand=line.summand[part], right=line.right[part])
        points, sure = _points_of_few(cut, sums[0][part, None], sums[1][part, None])
        found += [(channels + first, *rest) for channels, *rest in points]
        possible.append(sure)
    return _Points(*map(np.concatenate, zip(*found, strict=True))), np.concatenate(possible)


def _sizes(line: Line) -> Array:
    """Return the greatest result and product of each channel together, which errors are relative to."""
    return np.asarray(max(line.bounds[1] + 2, LEAST) + np.abs(line.summand))


def _points_of_few(line: Line, least: Array, most: Array) -> tuple[list[tuple[Array, ...]], Array]:
    """Return the points of some channels, as the fields of _Points, and of which channels they are sure."""
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
