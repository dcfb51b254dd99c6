"""Sums and products that work on each channel for itself, on the host.

numpy works along the last axis, and a loop over few channels takes little more time than over many. So
several neighbouring pixels count as one of more channels.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gpunn.kernel import ceil_div
from gpunn.ops.memory import empty
from gpunn.types import Array

LONG = 1024  # elements that numpy works on at a time: they stay in the cache


def add_bias(result: Array, bias: Array | None) -> Array:
    """Add a number for each channel to `result` [..., C], which changes; return it."""
    if bias is None or not result.size:
        return result
    if not result.flags.c_contiguous:
        result += bias
        return result
    together = max(1, LONG // bias.size)
    flat = result.reshape(-1)
    even = flat.size - flat.size % (together * bias.size)
    pixels = flat[:even].reshape(-1, together * bias.size)
    pixels += np.tile(bias, together)
    rest = flat[even:].reshape(-1, bias.size)
    rest += bias
    return result


def sums_by_channel(seen: Array, filter: Array) -> Array:
    """Add up, for each channel, what a window sees [N, OH, OW, KH, KW, C] times its weights [KH, KW, C].

    Cells are added row by row. Result [N, OH, OW, C], of the dtype of `seen`.
    """
    batch, height, width, _, _, channels = seen.shape
    result = empty((batch, height, width, channels), seen.dtype)
    beside = seen.strides[2] == channels * seen.itemsize  # windows of neighbouring pixels
    together = ceil_div(width, ceil_div(width * channels, LONG)) if beside and result.size else 1
    even = width - width % together
    _add_up(seen[:, :, :even], filter, together, result[:, :, :even])
    if even < width:
        _add_up(seen[:, :, even:], filter, width - even, result[:, :, even:])
    return result


def _add_up(seen: Array, filter: Array, together: int, result: Array) -> None:
    """Write the sums of sums_by_channel() to `result`, for so many neighbouring pixels at a time."""
    batch, height, width, *size, channels = seen.shape
    shape = (batch, height, width // together)
    steps = (*seen.strides[:2], together * seen.strides[2], *seen.strides[3:])
    wide = as_strided(seen, (*shape, *size, together * channels), steps, writeable=False)
    sums = result.reshape(*shape, together * channels)
    np.einsum("nyxhwc,hwc->nyxc", wide, np.tile(filter, (1, 1, together)), out=sums)
