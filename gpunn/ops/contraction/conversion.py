"""Sums of products to stored results on the CPU: product_rescaling.Rescaling, in few steps, block by block.

Without overflow, rescale() is one shift: (s m + 2^30) >> 31 and then (. + half) >> right are the floor of
(s m + 2^30 + half 2^31) / 2^(31 + right). Where halves go away from zero, 2^31 less is added below 0.
RealSteps computes this in float64, IntegerSteps in int64. A factor of 1 or more moves s to the left first, as
if m had more bits; right is 31 then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.call import Call
from gpunn.ops.contraction.channelwise import FEW_RESULTS, LONG, long_row, wide_shapes
from gpunn.ops.contraction.product_rescaling import Rescaling
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.ops.memory import scratch
from gpunn.types import Array, Shape

BLOCK = 1 << 17  # sums that are converted at a time
FEW_SUMS = 1 << 14  # that are converted in one block
UNSIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
}  # by the bytes of an element
HIGHEST: dict[int, Array] = {1: np.array(1 << 7, np.uint8), 2: np.array(1 << 15, np.uint16)}
DIGITS = 53  # of float64


class Conversion(Protocol):
    """Arithmetic that makes stored results of sums."""

    def write(self, sums: Array, result: Array) -> None:
        """Write the results [pixels, C] of sums of products, which may change."""


class InBlocks:
    """A conversion that works in another dtype, block by block."""

    __slots__ = ()
    computed: ClassVar[np.dtype[Any]]  # the dtype

    @property
    def longest(self) -> int:
        """Return how many numbers a row may have."""
        return LONG

    def write(self, sums: Array, result: Array) -> None:
        """Write the results [pixels, C] of sums of products."""
        blocks = blocks_of(*sums.shape, self.longest)
        if len(blocks) == 1:
            ((_, shape),) = blocks
            total = scratch("numbers", shape, self.computed)
            total[...] = sums.reshape(shape)
            self.convert(total, result.reshape(shape))
            return
        flat, results = sums.reshape(-1), result.reshape(-1)
        for place, shape in blocks:
            total = scratch("numbers", shape, self.computed)
            total[...] = flat[place].reshape(shape)
            self.convert(total, results[place].reshape(shape))

    def convert(self, sums: Array, result: Array) -> None:
        """Write the results of sums [rows, pixels * C] in the dtype `computed`, which change."""
        raise NotImplementedError


@lru_cache(1 << 12)
def blocks_of(pixels: int, channels: int, longest: int = LONG) -> tuple[tuple[slice, Shape], ...]:
    """Divide sums [pixels, C] into blocks [rows, pixels * C] that stay in the CPU's cache.

    longest: the most numbers in a row of few sums. Returns the place of each block among all elements, and
    its shape.
    """
    found, first = [], 0
    few = pixels * channels <= FEW_SUMS  # so that a second block would take more time than short rows
    shapes = (_even(pixels, channels, longest),) if few else wide_shapes(pixels, channels)
    for rows, width in shapes if channels else ():
        block = ceil_div(rows, ceil_div(rows * width, BLOCK)) if rows else 1  # about as many in each block
        for start in range(0, rows, block):
            shape = (min(block, rows - start), width)
            found.append((slice(first, first + math.prod(shape)), shape))
            first += math.prod(shape)
    return tuple(found)


def _even(pixels: int, channels: int, longest: int) -> tuple[int, int]:
    """Return the shape of pixels in rows of as many as divide them."""
    most = max(1, longest // max(1, channels))
    together = next(k for k in range(most, 0, -1) if pixels % k == 0)
    return pixels // together, together * channels


class _Shift(NamedTuple):
    """The numbers of the formula above, for each channel: `first` is bias m + 2^30, `half` is half 2^31.

    `right` counts the 31 bits as well.
    """

    multiplier: Array
    first: Array
    half: Array
    right: Array
    away: Array

    @classmethod
    def of(cls, call: Call, how: Rescaling, bias: Array) -> _Shift:
        multiplier, right = how.multiplier << np.maximum(how.shift, 0), 31 - np.minimum(how.shift, 0)
        half = (np.int64(1) << (right - 1)) >> 31 << 31  # 0 if right is 31
        away = (np.arange(call.y.shape[-1]) >= how.upwards) & (half > 0)
        return cls(multiplier, bias * multiplier + (1 << 30), half, right, away)


@dataclass(frozen=True, slots=True)
class Line:
    """The conversion as one formula for each channel: the floor of s factor + summand, clamped to `bounds`.

    What is clamped needs no sign: where results below the zero point are clamped, halves below it may go
    either way. `offset` is a part of summand and bounds, so that no result is negative. All products are
    multiples of 2^-right.
    """

    factor: Array
    summand: Array
    bounds: tuple[int, int]
    offset: int
    right: Array
    pixels: int  # of the call
    exactly: tuple[Array, Array, int]  # factor and a part of the summand, times 2^right, and the rest of it

    @classmethod
    def of(cls, call: Call, how: Rescaling, bias: Array) -> Line | None:
        """Return the formula for a bias; None where halves go away from zero."""
        shift, offset = _Shift.of(call, how, bias), -LIMITS[call.y.dtype][0]
        if shift.away.any() and how.bounds[0] < how.zero_y:
            return None
        step = 2.0**-shift.right
        summand = (shift.first + shift.half) * step + (how.zero_y + offset)
        factor, summand = np.broadcast_arrays(shift.multiplier * step, summand)
        low, high = how.bounds
        pixels = math.prod(call.y.shape[:-1])
        whole, exact = np.broadcast_arrays(shift.first + shift.half, shift.multiplier)
        exactly = exact, whole, how.zero_y + offset
        return cls(factor, summand, (low + offset, high + offset), offset, shift.right, pixels, exactly)

    @property
    def exact(self) -> Array:
        """Tell of each channel whether float64 computes it exactly.

        It holds multiples of 2^-right up to 2^(53 - right). Summand and bounds are at most half as much
        together, so a product that is more, and is rounded, leads beyond the bounds, as the exact one does.
        """
        far = np.abs(self.summand) + (self.bounds[1] + 1)
        return np.asarray(far <= 2.0 ** (DIGITS - 1 - self.right))

    def proven(self, channel: int) -> bool:
        """Tell whether float64 has the floor of every sum of 32 bits in a channel, though it rounds.

        A result reaches k at a sum t, and not at t - 1. Rounding is monotonic, so other sums need no look.
        """
        (low, high), right, (multiplier, part, rest) = self.bounds, int(self.right[channel]), self.exactly
        m, whole = int(multiplier[channel]), int(part[channel]) + (rest << right)
        factor, summand = float(self.factor[channel]), float(self.summand[channel])
        if m == 0:
            return min(max(whole >> right, low), high) == math.floor(min(max(summand, low), high))
        for k in range(low + 1, high + 1):
            t = -((whole - (k << right)) // m)
            for sum in (t, t - 1):
                if abs(sum) < 1 << 32 and (sum * factor + summand >= k) != (sum == t):
                    return False
        return True


@dataclass(frozen=True, slots=True)
class RealSteps(InBlocks):
    """The conversion in float64, where it is exact."""

    computed: ClassVar[np.dtype[Any]] = np.dtype(np.float64)
    factor: Array
    summand: Array
    bounds: tuple[float, float]
    offset: int
    longest: int = LONG

    @classmethod
    def of(cls, call: Call, how: Rescaling, bias: Array, proving: bool = False) -> RealSteps | None:
        """Return the steps for a bias; None if they might round in another way.

        proving: it may take the time to look whether they do.
        """
        line = Line.of(call, how, bias)
        if line is None:
            return None
        unsure = np.flatnonzero(~line.exact)
        if len(unsure) and not (proving and all(line.proven(int(k)) for k in unsure)):
            return None
        bounds = float(line.bounds[0]), float(line.bounds[1])
        rows = spread(line.factor, line.pixels), spread(line.summand, line.pixels)
        return cls(*rows, bounds, line.offset, longest(*rows))

    def rows(self, channels: int) -> tuple[Any, ...]:
        """Return what loops.floors() takes."""
        return *dense_rows(channels, self.factor, self.summand), self.bounds, self.offset

    def of_channels(self, channels: Array) -> RealSteps:
        """Return the steps for these channels only."""
        factor, summand = (spread(of_channels(v, channels)) for v in (self.factor, self.summand))
        return RealSteps(factor, summand, self.bounds, self.offset)

    def floors(self, sums: Array, channels: Array) -> Array:
        """Return the results of single sums of channels, `offset` higher, which are within the bounds."""
        floors = sums * of_channels(self.factor, channels) + of_channels(self.summand, channels)
        return np.asarray(floors.astype(np.uint8))

    def convert(self, sums: Array, result: Array) -> None:
        """Write the results of sums."""
        width = sums.shape[1]
        sums *= self.factor[:width]
        sums += self.summand[:width]
        sums.clip(*self.bounds, out=sums)
        unsigned = result.view(UNSIGNED[result.itemsize])
        unsigned[...] = sums  # the floor, of what is not negative
        lower(unsigned, self.offset)


@dataclass(frozen=True, slots=True)
class IntegerSteps(InBlocks):
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
    offset: int

    @classmethod
    def of(cls, call: Call, how: Rescaling, bias: Array) -> IntegerSteps:
        """Return the steps for a bias."""
        shift = _Shift.of(call, how, bias)
        right, away = shift.right, shift.away
        last, zero = shift.half, how.zero_y
        if abs(zero) << int(right.max(initial=0)) <= 1 << 60:
            last, zero = last + (zero << right), 0
        return cls(
            spread(shift.multiplier),
            spread(shift.first if away.any() else shift.first + last),
            spread(np.where(away, np.int64(-(1 << 31)), np.int64(0))) if away.any() else None,
            spread(last),
            spread(right),
            (how.bounds[0] - zero, how.bounds[1] - zero),
            zero,
            -LIMITS[call.y.dtype][0],
        )

    def rows(self, channels: int) -> tuple[Any, ...]:
        """Return what loops.requantize() takes."""
        none = np.zeros(1, np.int64)
        added = (none, none) if self.below is None else (self.below, self.last)
        parts = (self.multiplier, self.first, *added, self.right)
        return *dense_rows(channels, *parts), (*self.bounds, self.zero)

    def of_channels(self, channels: Array) -> IntegerSteps:
        """Return the steps for these channels only."""
        parts = (self.multiplier, self.first, self.last, self.right)
        multiplier, first, last, right = (spread(of_channels(v, channels)) for v in parts)
        below = None if self.below is None else spread(of_channels(self.below, channels))
        return replace(self, multiplier=multiplier, first=first, below=below, last=last, right=right)

    def floors(self, sums: Array, channels: Array) -> Array:
        """Return the results of single sums of channels, `offset` higher, which are within the bounds."""
        found = sums.astype(np.int64)
        self._shift(found, partial(of_channels, channels=channels))
        return (found + (self.zero + self.offset)).astype(np.uint8)

    def convert(self, sums: Array, result: Array) -> None:
        """Write the results of sums."""
        width = sums.shape[1]
        self._shift(sums, lambda row: row[:width])
        sums.clip(*self.bounds, out=sums)
        if self.zero:
            sums += self.zero
        result[...] = sums

    def _shift(self, sums: Array, of: Callable[[Array], Array]) -> None:
        """Replace sums by results without bounds and `zero`; `of` takes their channels from a row."""
        sums *= of(self.multiplier)
        sums += of(self.first)
        if self.below is not None:
            sign = sums >> 63
            sign &= of(self.below)
            sums += sign
            sums += of(self.last)
        sums >>= of(self.right)


def lower(results: Array, offset: int) -> None:
    """Subtract `offset` from unsigned results, of which it is the highest bit, or nothing."""
    if offset:
        np.bitwise_xor(results, HIGHEST[results.itemsize], out=results)


def spread(values: Array, pixels: int = 0) -> Array:
    """Return a number for each channel as a long_row(), equal ones as one.

    pixels: of a result. Where it is small, the row is long enough for all of it, which numpy begins sooner.
    """
    if (values == values[:1]).all():
        return values[:1]
    few = pixels * len(values) <= FEW_RESULTS
    return long_row(values, pixels * len(values) if few else LONG)


def longest(*rows: Array) -> int:
    """Return how many sums are converted as one row by these spread() values."""
    return max(LONG, *map(len, rows))


def dense_rows(channels: int, *values: Array) -> Iterator[Array]:
    """Yield rows of as many channels of spread() values."""
    for row in values:
        yield np.ascontiguousarray(np.broadcast_to(row, channels) if len(row) == 1 else row[:channels])


def of_channels(values: Array, channels: Array) -> Array:
    """Return those of spread() values that belong to channels."""
    return values if len(values) == 1 else np.asarray(values.take(channels))
