"""Functions of tensors of 8 bits and numbers of their channels, as lines for compiled loops.

With a stored value of a channel, the result of a sum or a product is the floor of factor * x + summand.
Halves go away from zero, so negative results may have a summand of their own. As in pair_sums.py, fixed-point
arithmetic rounds on the way there. Of the summands between those with which any result would be too low or
too high, the middle one is taken, and looked at for all 256 values of x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import IntegerLoops, equal_rows
from gpunn.ops.compiled.sharing import rows_divided
from gpunn.ops.fixed_point.affine import LIMITS, activation_bounds
from gpunn.ops.memory import scratch
from gpunn.types import Array, Shape

OF_ROWS = 1 << 10  # numbers that channel_rows() writes in a microsecond, or more

# Factors and summands of an operand for each stored value of the other one, which is the first or the second.
# They give results in steps, without the zero point.
Lines = Callable[[Call, bool], tuple[Array, Array] | None]


class ChannelLines(NamedTuple):
    """Lines by the bits of a stored value, for those values that are `sure`, which may be all.

    first: tells whether the first operand has the numbers of channels. rows: as rows.lines() takes them.
    offset: what x and results have in addition, so that they are not negative: the highest bit, or nothing.
    """

    first: bool
    rows: Array
    sure: Array
    all_sure: bool
    bounds: tuple[np.float32, np.float32]
    offset: int

    @classmethod
    def of(cls, call: Call, lines: Lines, table: Array, first: bool) -> ChannelLines | None:
        """Return the lines that give the results of a pair_table(); None for an op without lines."""
        real = lines(call, first)
        if real is None:
            return None
        low, high = activation_bounds(call, call.y)
        offset = -LIMITS[call.y.dtype][0]
        low, high = low + offset, high + offset
        pairs, bounds = table.reshape(256, 256), (np.float32(low), np.float32(high))
        results = (pairs if first else pairs.T).astype(np.int64)  # for each value of a channel, of all x
        results += offset
        with np.errstate(all="ignore"):  # factors may leave float32
            factor, end = real[0].astype(np.float32), (real[0] * offset - real[1]).astype(np.float32)
            scaled = (np.arange(256) ^ offset).astype(np.float32) * factor[:, None]
            least = np.where(results > low, results - scaled.astype(np.float64), -np.inf)
            most = np.where(results < high, results + 1 - scaled.astype(np.float64), np.inf)
            negative = scaled < end[:, None]
            below, above = (_middle(least, most, part) for part in (negative, ~negative))
            found = (scaled + np.where(negative, below[:, None], above[:, None])).clip(*bounds)
            sure = (np.floor(found) == results).all(axis=1)
        rows = np.stack([factor, end, below, above])
        return cls(first, rows, sure, bool(sure.all()), bounds, offset)

    def write(self, loops: IntegerLoops, a: Array, b: Array, result: Array) -> bool:
        """Write the results of dense operands; tell whether there are lines for all values in them."""
        x, channels = (b, a) if self.first else (a, b)
        values = channels.reshape(-1).view(np.uint8)
        if not self.all_sure and not self.sure.take(values).all():
            return False
        width = x.shape[-1]
        parts, pixels = values.size // width, x.size // values.size
        together = equal_rows(pixels, width)
        shape = pixels // together, together * width
        rows = scratch("lines", (len(self.rows), shape[1]), np.dtype(np.float32))
        sources, targets = (v.view(np.uint8).reshape(parts, *shape) for v in (x, result))
        ends, own = rows_divided(shape[0], math.prod(shape)), rows_divided(shape[1], rows.size, each=OF_ROWS)
        for part, source, target in zip(values.reshape(parts, width), sources, targets, strict=True):
            loops.channel_rows(own, part, self.rows, rows)
            loops.lines(ends, source, rows, self.bounds, self.offset, target)
        return True


def _middle(least: Array, most: Array, part: Array) -> Array:
    """Return the numbers in the middle between the greatest of the least ones and the least of the most.

    part: which of them count. Where one is infinite, all results are at one end of them.
    """
    low = np.where(part, least, -np.inf).max(axis=1)
    high = np.where(part, most, np.inf).min(axis=1)
    low = np.where(np.isinf(low), np.where(np.isinf(high), 0, high - 2), low)
    return ((low + np.where(np.isinf(high), low + 2, high)) / 2).astype(np.float32)


def of_channels(x: Shape, channels: Shape) -> bool:
    """Tell whether the second shape has a number for each channel of the first, or of leading parts of it."""
    channels = (1,) * (len(x) - len(channels)) + channels
    if len(x) != len(channels) or not x or x[-1] != channels[-1] or not math.prod(x):
        return False
    leading = next((k for k, (n, m) in enumerate(zip(x, channels, strict=True)) if n != m), len(x))
    return leading < len(x) and all(n == 1 for n in channels[leading:-1])
