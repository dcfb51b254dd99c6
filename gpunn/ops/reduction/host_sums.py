"""Sums along axes on the host, for many runs: of float32 as products with ones where numpy adds slowly.

numpy adds rows of a few numbers in a loop for each, and a few channels of each pixel likewise. BLAS takes a
fraction of the time for them. Several pixels count as one of more channels, so that sums are divided into
parts: they are nearer to the exact ones than those of pixel after pixel. Means of channels, and sums of 8
bits, have compiled loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.call import Call
from gpunn.ops.compiled import TOGETHER, equal_rows, integer_loops, real_loops
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.compiled.sharing import rows_divided
from gpunn.ops.compiled.sums import BLOCK
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.ops.memory import empty, scratch
from gpunn.ops.op import EIGHT_BITS
from gpunn.types import Array, DType

EXACT = 2**24  # up to which float32 has all integers
SHORT = 128  # numbers in a row, up to which numpy takes longer to add it up
MOST_BYTES = 1 << 23  # whose sum fits 32 bits
LEAST = 1 << 11  # numbers in all, for which more counts than what is around each call

_add: Any = np.add.reduce


def prepare_sum(call: Call) -> Callable[[Array], Any]:
    """Return the sum along attribute `axes`, kept as 1 if `keep_dims` says so, as a function of dense x."""
    axes, keep_dims = tuple({axis % call.x.rank for axis in call["axes"]}), call["keep_dims"]
    dtype = call.x.dtype.numpy
    product = by_product(call, sorted(axes)) if call.x.dtype is DType.FLOAT32 else None
    return product or (lambda x: _add(x, axes, dtype, None, keep_dims))


def by_product(call: Call, axes: Sequence[int]) -> Callable[[Array], Array] | None:
    """Return the sum of float32 in the shape of a call's x along axes, in order, as a product.

    None where numpy takes less time, or where the axes lie apart.
    """
    sizes, result = _around(call, axes), call.y.shape
    if sizes is None or call.x.size < LEAST:
        return None
    batch, count, channels = sizes
    if channels == 1:
        return _of_rows(batch, count, result) if 1 < count <= SHORT < batch else None
    if channels > TOGETHER or count < SHORT:  # numpy is as quick with more
        return None
    together = equal_rows(count, channels)
    pixels, ones = (
        (batch, count // together, together * channels),
        np.ones((1, count // together), np.float32),
    )

    def of_pixels(x: Array) -> Array:
        total = np.matmul(ones, x.reshape(pixels))
        return np.asarray(_add(total.reshape(batch, together, channels), 1).reshape(result))

    return of_pixels


def stored_total(call: Call, axes: tuple[int, ...]) -> Callable[[Array], Array]:
    """Return what adds up stored values along axes, in order, to int64."""
    keep, single = call["keep_dims"], np.dtype(np.float32)
    count = math.prod(call.x.shape[axis] for axis in axes)
    if count * max(map(abs, LIMITS[call.x.dtype])) > EXACT:
        return lambda x: np.asarray(np.sum(x, axis=axes, keepdims=keep, dtype=np.int64))
    add = by_product(call, axes) or (lambda numbers: numbers.sum(axes, keepdims=keep))

    def total(x: Array) -> Array:
        numbers = scratch("numbers", x.shape, single)
        numbers[...] = x
        return np.asarray(add(numbers).astype(np.int64))

    return total


def means_in_loop(call: Call, otherwise: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return the mean of a call's float32 x along attribute `axes` in a loop.

    `otherwise` where there is none, where the axes lie apart, and where a mean is of numbers side by side.
    """
    axes, result = sorted({axis % call.x.rank for axis in call["axes"]}), call.y.shape
    sizes = _around(call, axes)
    if sizes is None or sizes[2] == 1:
        return otherwise
    batch, _, channels = sizes
    count = np.float32(sizes[1])

    def mean(x: Array) -> Array:
        loops = real_loops()
        if loops is None:
            return otherwise(x)
        found = empty(result, np.float32)
        parts = rows_divided(batch * ceil_div(channels, BLOCK), x.size)
        loops.channel_means(parts, x.reshape(sizes), count, found.reshape(batch, channels))
        return of_loops(found)

    return mean


def least_sums(results: Callable[[Array], Array], dtype: DType, ends: tuple[int, int]) -> Array:
    """Return for each stored result of a dtype but the lowest the least sum that gives it.

    results: what never falls as a sum grows. ends: of sums; where none is high enough, it is beyond them.
    """
    low, high = LIMITS[dtype]
    wanted = np.arange(low + 1, high + 1)
    below, least = (np.full(wanted.shape, end) for end in (ends[0] - 1, ends[1] + 1))
    while (least - below > 1).any():
        middle = (below + least) >> 1
        reached = results(middle) >= wanted
        below, least = np.where(reached, below, middle), np.where(reached, middle, least)
    return least


class OfSums(NamedTuple):
    """Stored results of sums of stored integers, which never fall as a sum grows.

    of: makes them of sums, and of `first`: whether these are of the first `upwards` channels. factor,
    summand: with these a sum is about the result.
    """

    of: Callable[..., Array]
    upwards: int
    factor: float
    summand: float

    def least(self, dtype: DType, ends: tuple[int, int]) -> Array:
        """Return the least sum for each result of a dtype but the lowest, of both kinds of channels.

        ends: those that there can be; where no sum is high enough, it is beyond them.
        """
        kinds = (partial(self.of, first=first) for first in (True, False))
        return np.stack([least_sums(kind, dtype, ends) for kind in kinds]).astype(np.int32)


def sums_in_loop(
    call: Call, axes: Sequence[int], results: OfSums, otherwise: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """Return stored results of the sums of 8 bits along axes, in order, in a loop.

    `otherwise` where there is none, where the axes lie apart, and where sums do not fit 32 bits.
    """
    sizes, shape = _around(call, axes), call.y.shape
    if sizes is None or call.x.dtype not in EIGHT_BITS or call.y.dtype is not call.x.dtype:
        return otherwise
    batch, count, channels = sizes
    if not 0 < count <= MOST_BYTES:
        return otherwise
    (low, high), dtype = LIMITS[call.y.dtype], call.y.dtype
    guess = results.factor, results.summand - low
    least = cache(lambda: results.least(dtype, (count * low, count * high)))

    def compute(x: Array) -> Array:
        loops = integer_loops()
        if loops is None:
            return otherwise(x)
        found = empty(shape, dtype.numpy)
        parts, rows = rows_divided(batch * ceil_div(channels, BLOCK), x.size), found.reshape(batch, channels)
        loops.stored_means(parts, x.reshape(sizes), least(), results.upwards, guess, low, rows)
        return of_loops(found)

    return compute


def _around(call: Call, axes: Sequence[int]) -> tuple[int, int, int] | None:
    """Return how many numbers of a call's x lie before axes, along them and behind them.

    None where they lie apart, and for no numbers.
    """
    shape, size = call.x.shape, call.x.size
    axes = [axis for axis in axes if shape[axis] != 1]
    if not size or not axes or call.y.size * math.prod(shape[axes[0] : axes[-1] + 1]) != size:
        return None
    batch, channels = math.prod(shape[: axes[0]]), math.prod(shape[axes[-1] + 1 :])
    return batch, size // (batch * channels), channels


def _of_rows(rows: int, length: int, result: tuple[int, ...]) -> Callable[[Array], Array]:
    ones = np.ones(length, np.float32)
    return lambda x: np.asarray(x.reshape(rows, length).dot(ones).reshape(result))
