"""Dense copies of transposed arrays on the host.

numpy walks along the last dimension of the result. Where neighbours there lie far apart in the operand, a
cache line is fetched for one element, and is gone when the next one of it is due. So strips of the last
dimension are copied, the dimension along which elements lie side by side next to it.
"""

from __future__ import annotations

import math

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.kernels.strides import merge
from gpunn.ops.kernels.window import strided
from gpunn.ops.memory import LEAST_BYTES, empty
from gpunn.types import Array

LINE = 64  # bytes that the CPU fetches at once
PAGE = 1 << 12  # bytes; lines that lie so far apart have the same place in the nearest cache
NEAR = 3 << 16  # bytes of lines that are fetched between two elements side by side, and are still near then
STRIP = 64  # elements
LEAST = 1 << 10  # elements of a copy, which is worth a call of numpy's


def turned(base: Array, view: Array) -> Array:
    """Return a transposed view of `base` as a dense array; the view where numpy copies it as quickly."""
    if view.nbytes < LEAST_BYTES or view.dtype.hasobject or not base.flags.c_contiguous:
        return view
    shape, steps = merge(view.shape, view.strides)
    if steps[-1] == view.itemsize:
        return view
    beside = steps.index(min(steps))
    between, last = shape[beside + 1 : -1], shape[-1]
    same_place = max(1, math.gcd(steps[-1], PAGE) // LINE)
    count = math.prod(between) * ceil_div(last, STRIP)
    if math.prod(between) * last * LINE * same_place < NEAR or view.size < LEAST * count:
        return view
    result = empty(view.shape, view.dtype)
    source, target = strided(base, shape, steps), result.reshape(shape)
    outer = (slice(None),) * (beside + 1)
    for place in np.ndindex(between):
        for first in range(0, last, STRIP):
            part = *outer, *place, slice(first, first + STRIP)
            target[part] = source[part]
    return result
