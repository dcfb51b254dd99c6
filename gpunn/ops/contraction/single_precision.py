"""Sums of products to stored results of 8 bits in float32, where a proof or a check says that it is exact.

SingleSteps converts twice, a little too low and a little too high, and asks for the exact result where these
differ. ProvenSteps converts once: for each channel the numbers of the formula are such that no sum near a
step of the results falls on its wrong side, apart from few sums whose results are known (corrections.py). The
search for them (proven_numbers.py) takes as long as some thousands of pixels, so LearningSteps starts it when
so many have been converted.
"""

from __future__ import annotations

from collections.abc import Callable
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
from gpunn.ops.contraction.pieces import remembered
from gpunn.ops.contraction.product_rescaling import Rescaling
from gpunn.ops.contraction.proven_numbers import MOST_MISSES, Numbers, Range, proven
from gpunn.ops.memory import scratch
from gpunn.types import Array, Shape

MOST_SLACK = 2.0**-8  # a result is doubtful with a probability of twice as much
WORD = 8  # flags that are looked at together
SINGLE, BYTE, FLAGS = np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.uint64)
PIXELS_BEFORE_SEARCH = 1 << 13
LEAST_COUNTED = 1 << 9  # sums of a run: fewer gain as much, as numpy's calls are fewer
MOST_OTHERS = 1 / 32  # of the channels may be converted by themselves, as that takes several times as long
MOST_MISSED = 1 / 8  # such sums for each channel, in the mean: with more, exact steps take less time

Exact = RealSteps | IntegerSteps


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
    bounds: tuple[Array, Array]
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
    """The conversion of sums of float32 in float32, with Numbers.

    `others`: channels without such numbers, which `exact` converts. corrections: of what the numbers miss.
    """

    factor: Array
    summand: Array
    bounds: tuple[Array, Array]
    offset: int
    others: Array
    exact: Exact
    corrections: Corrections | None = None
    longest: int = LONG
    shift: Array | None = None

    @classmethod
    def of(
        cls, line: Line, exact: Exact, sums: Range, most: float | None = None, plain: bool = False
    ) -> ProvenSteps | None:
        """Return the steps for a formula and what sums may be; None if too many channels have no numbers.

        most: the share of the channels that may have none, if it is not MOST_OTHERS. plain: there may be no
        shifts, and no misses, which are corrected elsewhere.
        """
        best: tuple[int, Numbers, Array, bool] | None = None
        for numbers in proven(line, sums, not plain):
            count, missed = len(numbers.misses), len(numbers.missed.sums)
            corrected = not plain and 0 < missed <= MOST_MISSED * count
            others = np.flatnonzero(numbers.misses > (MOST_MISSES if corrected else 0))
            if len(others) > (MOST_OTHERS if most is None else most) * count:
                continue
            cost = 2 * len(others) + corrected
            if best is None or cost < best[0]:
                best = cost, numbers, others, corrected
        return None if best is None else cls._of(line, exact, *best[1:])

    @classmethod
    def _of(cls, line: Line, exact: Exact, numbers: Numbers, others: Array, corrected: bool) -> ProvenSteps:
        rows = spread(numbers.factor, line.pixels), spread(numbers.summand, line.pixels)
        shift = None if numbers.shift is None else spread(numbers.shift, line.pixels)
        rest = exact.of_channels(others) if len(others) else exact
        corrections = None
        if corrected:
            missed = numbers.missed
            results: Array = np.empty((1, len(missed.sums)), np.int8 if line.offset else np.uint8)
            exact.of_channels(missed.channels).write(missed.sums[None], results)
            corrections = Corrections(missed.channels, missed.sums, results[0])
        bounds, length = _single(line.bounds), longest(*rows, *([] if shift is None else [shift]))
        return cls(*rows, bounds, line.offset, others, rest, corrections, length, shift)

    def write(self, sums: Array, result: Array) -> None:
        """Write the results [pixels, C] of sums of products, which change."""
        self.writer()(sums, result)

    def writer(self) -> Callable[[Array, Array], None]:
        """Return write() for many runs: it keeps views of the sums while they lie in the same memory."""
        views, others, corrections = remembered(self._views), self.others, self.corrections
        exact, (low, high), offset = self.exact, self.bounds, self.offset

        def write(sums: Array, result: Array) -> None:
            rest = sums.take(others, axis=1) if len(others) else None
            corrected = None if corrections is None else corrections.find(sums)
            stored, blocks = result.view(BYTE), views(sums)
            for numbers, place, shift, factor, summand in blocks:
                if shift is not None:
                    np.add(numbers, shift, out=numbers)
                np.multiply(numbers, factor, out=numbers)
                np.add(numbers, summand, out=numbers)
                numbers.clip(low, high, out=numbers)
                part = stored if len(blocks) == 1 else stored.reshape(-1)[place]
                part.reshape(numbers.shape)[...] = numbers  # the floor, of what is not negative
            lower(stored, offset)
            if rest is not None:
                found = np.empty(rest.shape, result.dtype)
                exact.write(rest, found)
                result[:, others] = found
            if corrected is not None:
                places, right = corrected
                result.reshape(-1)[places] = right

        return write

    def _views(self, sums: Array) -> list[tuple[Array, slice, Array | None, Array, Array]]:
        """Return blocks [..., pixels * C] of sums, their places among all, and the numbers for each."""
        blocks, flat, found = blocks_of(*sums.shape, self.longest), sums.reshape(-1), []
        for place, (rows, width) in blocks:
            shape = (rows, width) if len(blocks) > 1 or rows > 1 else (width,)  # numpy begins sooner
            shift = None if self.shift is None else _cut(self.shift, width)
            numbers = flat[place].reshape(shape)
            found.append((numbers, place, shift, _cut(self.factor, width), _cut(self.summand, width)))
        return found

    def rows(self, channels: int) -> tuple[Any, ...]:
        """Return what loops.floors() takes."""
        low, high = (bound[()] for bound in self.bounds)
        return *dense_rows(channels, self.factor, self.summand), (low, high), self.offset


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
        self._write: Callable[[Array, Array], None] = steps.write
        self._least = LEAST_COUNTED // max(1, len(line.factor))

    def write(self, sums: Array, result: Array) -> None:
        """Write the results [pixels, C] of sums of products, which may change."""
        if self._prove is not None:
            self._left -= max(len(sums), self._least)
            if self._left <= 0:
                proven, self._prove = self._prove(), None
                if proven is not None:
                    self._steps, self._write = proven, proven.writer()
        self._write(sums, result)


def _cut(row: Array, width: int) -> Array:
    """Return spread() numbers for rows of a width; a single one without an axis, which numpy takes sooner."""
    return row.reshape(()) if len(row) == 1 else row[:width]


def _single(bounds: tuple[int, int]) -> tuple[Array, Array]:
    """Return bounds as arrays without axes, with which numpy clamps sooner than with its scalars."""
    return np.array(bounds[0], SINGLE), np.array(bounds[1], SINGLE)
