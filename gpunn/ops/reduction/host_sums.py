"""Sums along axes on the host, for many runs: of float32 as products with ones where numpy adds slowly.

numpy adds rows of a few numbers in a loop for each, and a few channels of each pixel likewise. BLAS takes a
fraction of the time for them. Several pixels count as one of more channels, so that sums are divided into
parts: they are nearer to the exact ones than those of pixel after pixel. Those of 8 bits have a compiled
loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import TOGETHER, equal_rows, integer_loops
from gpunn.ops.op import EIGHT_BITS
from gpunn.types import Array, DType

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
    if sizes is None:
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


def by_loop(call: Call, axes: Sequence[int], otherwise: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return the sum of 8 bits along axes, in order, in a compiled loop; `otherwise` where there is none.

    That is so as well where the axes lie apart, for few numbers, and where sums do not fit 32 bits.
    """
    sizes, result = _around(call, axes), call.y.shape
    if sizes is None or call.x.dtype not in EIGHT_BITS or sizes[1] > MOST_BYTES:
        return otherwise
    batch, count, channels = sizes
    together = equal_rows(count, channels)
    pixels = batch, count // together, together * channels

    def sums(x: Array) -> Array:
        loops = integer_loops()
        if loops is None:
            return otherwise(x)
        total = np.zeros((batch, together * channels), np.int32)
        loops.sums(x.reshape(pixels), total)
        return np.asarray(_add(total.reshape(batch, together, channels), 1).reshape(result))

    return sums


def _around(call: Call, axes: Sequence[int]) -> tuple[int, int, int] | None:
    """Return how many numbers of a call's x lie before axes, along them and behind them; None where they lie
    apart, or for few numbers in all.
    """
    shape, size = call.x.shape, call.x.size
    if size < LEAST or not axes or axes[-1] - axes[0] >= len(axes):
        return None
    batch, channels = math.prod(shape[: axes[0]]), math.prod(shape[axes[-1] + 1 :])
    return batch, size // (batch * channels), channels


def _of_rows(rows: int, length: int, result: tuple[int, ...]) -> Callable[[Array], Array]:
    ones = np.ones(length, np.float32)
    return lambda x: np.asarray(x.reshape(rows, length).dot(ones).reshape(result))
