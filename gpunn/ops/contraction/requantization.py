"""Sums of products to stored results on the CPU: product_rescaling.Rescaling, in few steps, block by block.

Without overflow, rescale() is one shift: (s m + 2^30) >> 31 and then (. + half) >> right are the floor of
(s m + 2^30 + half 2^31) / 2^(31 + right). Where halves go away from zero, 2^31 less is added below 0.
RealSteps computes this in float64, IntegerSteps in int64, SingleSteps in float32 where that is sure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import current
from gpunn.ops.contraction.channelwise import long_row, wide
from gpunn.ops.contraction.product_rescaling import Rescaling
from gpunn.ops.fixed_point.affine import LIMITS, store
from gpunn.ops.memory import scratch
from gpunn.ops.op import EIGHT_BITS
from gpunn.types import Array

BLOCK = 1 << 17  # sums that are converted at a time
MANY_SUMS = 1 << 16  # for which SingleSteps take less time than RealSteps, though they are more calls
MOST_SLACK = 2.0**-8  # a result is doubtful with a probability of twice as much
UNIT = 2.0**-53  # the relative error of a sum or product of float64


class Conversion(Protocol):
    """Arithmetic that makes stored results of sums."""

    def write(self, sums: Array, result: Array) -> None:
        """Write the results [pixels, C] of sums of products."""


class _InBlocks:
    """A conversion that works in another dtype, block by block."""

    __slots__ = ()
    computed: ClassVar[np.dtype[Any]]  # the dtype

    def write(self, sums: Array, result: Array) -> None:
        """Write the results [pixels, C] of sums of products."""
        for part, results in _blocks(sums, result):
            total = scratch("numbers", part.shape, self.computed)
            np.copyto(total, part, casting="unsafe")
            self.convert(total, results)

    def convert(self, sums: Array, result: Array) -> None:
        """Write the results of sums [rows, pixels * C] in the dtype `computed`, which change."""
        raise NotImplementedError


def _blocks(sums: Array, result: Array) -> Iterator[tuple[Array, Array]]:
    """Yield sums and results [pixels, C] as blocks [rows, pixels * C] that stay in the CPU's cache."""
    if not sums.size:
        return
    channels = sums.shape[1]
    for rows, results in zip(wide(sums, channels), wide(result, channels), strict=True):
        block = max(1, BLOCK // rows.shape[1])
        if len(rows) <= block:
            yield rows, results
            continue
        for start in range(0, len(rows), block):
            yield rows[start : start + block], results[start : start + block]


def few_steps(call: Call, how: Rescaling, bias: Array, exact: np.dtype[Any]) -> Conversion:
    """Return the conversion of sums that stay within 32 bits with their bias, by factors up to 1.

    exact: the dtype of the sums.
    """
    loops = current()
    if loops is not None and exact == np.float32 and call.y.dtype in EIGHT_BITS:
        return LoopSteps(loops.requantize, IntegerSteps.of(call, how, bias).rows(call.y.shape[-1]))
    kinds: list[Callable[[Call, Rescaling, Array], Conversion | None]] = [RealSteps.of]
    if exact == np.float32:
        kinds.insert(0 if call.y.size >= MANY_SUMS else 1, SingleSteps.of)
    found = (kind(call, how, bias) for kind in kinds)
    return next((steps for steps in found if steps is not None), None) or IntegerSteps.of(call, how, bias)


@dataclass(frozen=True, slots=True)
class _Shift:
    """The numbers of the formula above, for each channel: `first` is bias m + 2^30, `half` is half 2^31."""

    first: Array
    half: Array
    right: Array
    away: Array

    @classmethod
    def of(cls, call: Call, how: Rescaling, bias: Array) -> _Shift:
        right = 31 - how.shift
        half = (np.int64(1) << (right - 1)) >> 31 << 31  # 0 if right is 31
        away = (np.arange(call.y.shape[-1]) >= how.upwards) & (half > 0)
        return cls(bias * how.multiplier + (1 << 30), half, right, away)


@dataclass(frozen=True, slots=True)
class RealSteps(_InBlocks):
    """The conversion in float64: the floor of s factor + summand, where the summand has half a unit more.

    The exact value is a multiple of 2^-right, so with half of that more it is so far from every integer.
    Errors below that do not change the floor. What is clamped needs no sign: where results below the zero
    point are clamped, halves below it may go either way. `offset` is added so that no result is negative.
    """

    computed: ClassVar[np.dtype[Any]] = np.dtype(np.float64)
    factor: Array
    summand: Array
    bounds: tuple[float, float]
    offset: int

    @classmethod
    def of(cls, call: Call, how: Rescaling, bias: Array) -> RealSteps | None:
        """Return the steps for a bias; None if they might round in another way."""
        shift, offset = _Shift.of(call, how, bias), -LIMITS[call.y.dtype][0]
        if shift.away.any() and how.bounds[0] < how.zero_y:
            return None
        step = 2.0**-shift.right
        summand = (shift.first + shift.half) * step + (how.zero_y + offset)
        # Three roundings of the summand, one of the product, which is a difference of two others, one of the
        # result: all that is not clamped is at most `most`.
        most = how.bounds[1] + offset + 2
        if (UNIT * (2 * most + 4 * np.abs(summand)) >= step / 2).any():
            return None
        bounds = (float(how.bounds[0] + offset), float(how.bounds[1] + offset))
        return cls(_spread(how.multiplier * step), _spread(summand + step / 2), bounds, offset)

    def convert(self, sums: Array, result: Array) -> None:
        """Write the results of sums."""
        width = sums.shape[1]
        sums *= self.factor[:width]
        sums += self.summand[:width]
        sums.clip(*self.bounds, out=sums)
        unsigned = result.view(f"u{result.itemsize}")
        np.copyto(unsigned, sums, casting="unsafe")  # the floor, of what is not negative
        _lower(unsigned, self.offset)


@dataclass(frozen=True, slots=True)
class IntegerSteps(_InBlocks):
    """The conversion in int64, which asks for the sign where halves go away from zero (`below`).

    The zero point is added before the shift, too, unless that leaves 64 bits; then it is `zero`. If no
    channel asks for the sign in between, `first` is all that is added; else `last` is the rest.
    """

    computed: ClassVar[np.dtype[Any]] = np.dtype(np.int64)
    multiplier: Array
    first: Array
    below: Array | None
    last: Array
    right: Array
    bounds: tuple[int, int]
    zero: int

    @classmethod
    def of(cls, call: Call, how: Rescaling, bias: Array) -> IntegerSteps:
        """Return the steps for a bias."""
        shift = _Shift.of(call, how, bias)
        right, away = shift.right, shift.away
        last, zero = shift.half, how.zero_y
        if abs(zero) << int(right.max(initial=0)) <= 1 << 60:
            last, zero = last + (zero << right), 0
        return cls(
            _spread(how.multiplier),
            _spread(shift.first if away.any() else shift.first + last),
            _spread(np.where(away, np.int64(-(1 << 31)), np.int64(0))) if away.any() else None,
            _spread(last),
            _spread(right),
            (how.bounds[0] - zero, how.bounds[1] - zero),
            zero,
        )

    def rows(self, channels: int) -> tuple[Any, ...]:
        """Return what loops.requantize() takes."""
        none = np.zeros(1, np.int64)
        added = (none, none) if self.below is None else (self.below, self.last)
        parts = (self.multiplier, self.first, *added, self.right)
        whole = (np.broadcast_to(v, channels) if len(v) == 1 else v[:channels] for v in parts)
        return *map(np.ascontiguousarray, whole), (*self.bounds, self.zero)

    def of_channels(self, channels: Array) -> IntegerSteps:
        """Return the steps for one sum of each of these channels."""
        first, last, multiplier, right = (
            v if len(v) == 1 else v[channels] for v in (self.first, self.last, self.multiplier, self.right)
        )
        below = self.below if self.below is None or len(self.below) == 1 else self.below[channels]
        return replace(self, multiplier=multiplier, first=first, below=below, last=last, right=right)

    def convert(self, sums: Array, result: Array) -> None:
        """Write the results of sums."""
        width = sums.shape[1]
        sums *= self.multiplier[:width]
        sums += self.first[:width]
        if self.below is not None:
            sign = sums >> 63
            sign &= self.below[:width]
            sums += sign
            sums += self.last[:width]
        sums >>= self.right[:width]
        sums.clip(*self.bounds, out=sums)
        if self.zero:
            sums += self.zero
        np.copyto(result, sums, casting="unsafe")


@dataclass(frozen=True, slots=True)
class SingleSteps:
    """The conversion of sums of float32 in float32; where its rounding may decide, IntegerSteps does.

    It computes two numbers that the exact one lies between, 2 `slack` apart, and their floors are mostly the
    same. All steps are monotonic, so what leaves the bounds is clamped as the exact number is.
    """

    exact: IntegerSteps
    factor: Array
    summand: Array  # without `slack`
    slack: np.float32
    bounds: tuple[np.float32, np.float32]
    offset: int

    @classmethod
    def of(cls, call: Call, how: Rescaling, bias: Array) -> SingleSteps | None:
        """Return the steps for a bias; None if they might round in another way, or are too often unsure."""
        shift, offset = _Shift.of(call, how, bias), -LIMITS[call.y.dtype][0]
        low, high = (bound + offset for bound in how.bounds)
        if high > 255 or (shift.away.any() and how.bounds[0] < how.zero_y):
            return None
        step = 2.0**-shift.right
        summand = (shift.first + shift.half) * step + (how.zero_y + offset)
        # Of results up to high + 2 a product is at most as far from 0 as these and the summand together. It
        # has two roundings; the summand, the lower number and the upper one have one each, which makes 4.
        slack = 6 * 2.0**-24 * (high + 2 + float(np.abs(summand).max(initial=0)))
        if slack > MOST_SLACK:
            return None
        return cls(
            IntegerSteps.of(call, how, bias),
            _spread((how.multiplier * step).astype(np.float32)),
            _spread((summand - slack).astype(np.float32)),
            np.float32(slack),
            (np.float32(low), np.float32(high)),
            offset,
        )

    def write(self, sums: Array, result: Array) -> None:
        """Write the results [pixels, C] of sums of products."""
        unsigned, doubtful = result.view(np.uint8), scratch("doubtful", result.shape, np.dtype(np.bool_))
        pairs = zip(_blocks(sums, unsigned), _blocks(sums, doubtful), strict=True)
        for (part, lower), (_, differs) in pairs:
            number, width = scratch("numbers", part.shape, np.dtype(np.float32)), part.shape[1]
            upper = scratch("upper", part.shape, np.dtype(np.uint8))
            np.multiply(part, self.factor[:width], out=number)
            number += self.summand[:width]
            number.clip(*self.bounds, out=number)
            np.copyto(lower, number, casting="unsafe")  # the floor, of what is not negative
            number += 2 * self.slack
            np.copyto(upper, number, casting="unsafe")
            np.not_equal(lower, upper, out=differs)
        _lower(unsigned, self.offset)
        places = np.flatnonzero(doubtful)
        if len(places):
            exact = self.exact.of_channels(places % sums.shape[1])
            found = np.empty((1, len(places)), result.dtype)
            exact.convert(sums.reshape(-1)[places].astype(np.int64)[None], found)
            result.reshape(-1)[places] = found[0]


def _lower(results: Array, offset: int) -> None:
    """Subtract `offset` from unsigned results, of which it is the highest bit, or nothing."""
    if offset:
        results ^= results.dtype.type(offset)


@dataclass(frozen=True, slots=True)
class LoopSteps:
    """The conversion of IntegerSteps as a compiled loop, from float32 sums to 8 bits."""

    loop: Callable[..., None]
    steps: tuple[Any, ...]

    def write(self, sums: Array, result: Array) -> None:
        """Write the results [pixels, C] of sums of products."""
        self.loop(sums, *self.steps, result)


@dataclass(frozen=True, slots=True)
class ManySteps(_InBlocks):
    """The conversion of all other sums: by a function of sums [pixels, C] of int64 to results that may be too
    large.
    """

    computed: ClassVar[np.dtype[Any]] = np.dtype(np.int64)
    call: Call
    how: Rescaling
    rescaled: Callable[[Array], Array]

    def convert(self, sums: Array, result: Array) -> None:
        """Write the results of sums."""
        found = self.rescaled(sums.reshape(-1, self.call.y.shape[-1])) + self.how.zero_y
        result[...] = store(found, self.call.y, self.how.bounds).reshape(result.shape)


def _spread(values: Array) -> Array:
    """Return a number for each channel as a long_row(), equal ones as one."""
    return values[:1] if (values == values[:1]).all() else long_row(values)
