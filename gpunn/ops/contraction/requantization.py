"""Sums of products to stored results on the CPU: product_rescaling.Rescaling, in few steps, block by block.

Without overflow, rescale() is one shift: (s m + 2^30) >> 31 and then (. + half) >> right are the floor of
(s m + 2^30 + half 2^31) / 2^(31 + right). Where halves go away from zero, 2^31 less is added below 0.
RealSteps computes this in float64, IntegerSteps in int64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.contraction.channelwise import long_row, wide
from gpunn.ops.contraction.product_rescaling import Rescaling
from gpunn.ops.fixed_point.affine import LIMITS, store
from gpunn.ops.memory import empty
from gpunn.types import Array

BLOCK = 1 << 15  # sums that are converted at a time
UNIT = 2.0**-53  # the relative error of a sum or product of float64


class Conversion(Protocol):
    """Arithmetic that makes stored results of sums."""

    @property
    def computed(self) -> type[Any]:
        """Return the dtype that it works in."""

    def convert(self, sums: Array, result: Array) -> None:
        """Write the results of sums [rows, pixels * C] in that dtype, which change."""


def by_block(call: Call, sums: Array, conversion: Conversion) -> Array:
    """Convert sums of products [..., C] to stored results, in blocks that stay in the CPU's cache."""
    result = empty(sums.shape, call.y.dtype.numpy)
    if not sums.size:
        return result
    channels = sums.shape[-1]
    for rows, results in zip(wide(sums, channels), wide(result, channels), strict=True):
        if not len(rows):
            continue
        block = max(1, BLOCK // rows.shape[1])
        room = empty((min(block, len(rows)), rows.shape[1]), conversion.computed)
        for start in range(0, len(rows), block):
            part = rows[start : start + block]
            total = room[: len(part)]
            np.copyto(total, part, casting="unsafe")
            conversion.convert(total, results[start : start + block])
    return result


def few_steps(call: Call, how: Rescaling, bias: Array) -> Conversion:
    """Return the conversion of sums that stay within 32 bits with their bias, by factors up to 1."""
    return RealSteps.of(call, how, bias) or IntegerSteps.of(call, how, bias)


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
class RealSteps:
    """The conversion in float64: the floor of s factor + summand, where the summand has half a unit more.

    The exact value is a multiple of 2^-right, so with half of that more it is so far from every integer.
    Errors below that do not change the floor. What is clamped needs no sign: where results below the zero
    point are clamped, halves below it may go either way. `offset` is added so that no result is negative.
    """

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

    @property
    def computed(self) -> type[Any]:
        """Return float64."""
        return np.float64

    def convert(self, sums: Array, result: Array) -> None:
        """Write the results of sums."""
        width = sums.shape[1]
        sums *= self.factor[:width]
        sums += self.summand[:width]
        sums.clip(*self.bounds, out=sums)
        unsigned = result.view(f"u{result.itemsize}")
        np.copyto(unsigned, sums, casting="unsafe")  # the floor, of what is not negative
        if self.offset:
            unsigned ^= unsigned.dtype.type(self.offset)  # subtracts it, as it is the highest bit


@dataclass(frozen=True, slots=True)
class IntegerSteps:
    """The conversion in int64, which asks for the sign where halves go away from zero (`below`).

    The zero point is added before the shift, too, unless that leaves 64 bits; then it is `zero`. If no
    channel asks for the sign in between, `first` is all that is added; else `last` is the rest.
    """

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

    @property
    def computed(self) -> type[Any]:
        """Return int64."""
        return np.int64

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
class ManySteps:
    """The conversion of all other sums: by a function of sums [pixels, C] of int64 to results that may be too
    large.
    """

    call: Call
    how: Rescaling
    rescaled: Callable[[Array], Array]

    @property
    def computed(self) -> type[Any]:
        """Return int64."""
        return np.int64

    def convert(self, sums: Array, result: Array) -> None:
        """Write the results of sums."""
        found = self.rescaled(sums.reshape(-1, self.call.y.shape[-1])) + self.how.zero_y
        result[...] = store(found, self.call.y, self.how.bounds).reshape(result.shape)


def _spread(values: Array) -> Array:
    """Return a number for each channel as a long_row(), equal ones as one."""
    return values[:1] if (values == values[:1]).all() else long_row(values)
