"""A logarithmic axis in pixels, with separate places for zero and infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

MAX_DECADES = 16  # what is smaller than 10^-16 of the largest value stands on the lowest line
LABELS = 7  # at most; further decades have lines only
TOP, BOTTOM = 24.0, 34.0  # pixels for what has no logarithm
EDGE = 10.0  # where that stands, from the edge

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Tick:
    """A line across a plot, `y` pixels from its top; labels that would stand too close are left out."""

    y: float
    label: str


@dataclass(frozen=True, slots=True)
class LogAxis:
    """Decades 10^low to 10^high from the bottom to the top of `height` pixels.

    Zero is below them, and infinity above.
    """

    low: int
    high: int
    height: float

    def y(self, value: float) -> float:
        """Return the place of a value; values off the axis are placed on its edge."""
        if value == 0:
            return self.height - EDGE
        if math.isinf(value):
            return EDGE
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return TOP + (1 - min(max(share, 0.0), 1.0)) * (self.height - TOP - BOTTOM)

    def ticks(self) -> list[Tick]:
        """Make a line for each decade."""
        every = math.ceil((self.high - self.low) / LABELS)
        decades = range(self.high, self.low - 1, -1)
        return [Tick(self.y(10.0**k), decade(k) if k % every == 0 else "") for k in decades]


def log_axis(values: Iterable[float], height: float) -> LogAxis:
    """Make an axis for all positive finite values, with 1 to MAX_DECADES decades."""
    logarithms = [math.log10(value) for value in values if 0 < value < math.inf]
    low = math.floor(min(logarithms, default=-1.0))
    high = max(math.ceil(max(logarithms, default=0.0)), low + 1)
    return LogAxis(max(low, high - MAX_DECADES), high, height)


def decade(exponent: int) -> str:
    """Format a power of 10."""
    return "1" if exponent == 0 else "10" + str(exponent).translate(_SUPERSCRIPTS)
