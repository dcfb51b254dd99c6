"""Sums and products that work on each channel for itself, on the host.

numpy works along the last axis, and a loop over few channels takes little more time than over many. So
several neighbouring pixels count as one of more channels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.kernels.window import Window, pad_input, strided, window_steps
from gpunn.ops.memory import empty
from gpunn.types import Array

LONG = 1024  # elements that numpy works on at a time: they stay in the cache
FEW = 128  # channels, up to which several pixels together take less time than one of them


def wide(pixels: Array, channels: int) -> tuple[Array, Array]:
    """Return dense pixels [..., C] as rows of several pixels each, and as rows of one those that are left."""
    together = max(1, LONG // channels)
    flat = pixels.reshape(-1)
    even = flat.size - flat.size % (together * channels)
    return flat[:even].reshape(-1, together * channels), flat[even:].reshape(-1, channels)


def long_row(numbers: Array) -> Array:
    """Return a number for each channel as a row of several pixels, for all rows of wide(): a part of it."""
    return np.tile(numbers, max(1, LONG // max(1, numbers.size)))


def add_bias(result: Array, bias: Array | None) -> Array:
    """Add a number for each channel to `result` [..., C], which changes; return it. bias: a long_row()."""
    if bias is None or not result.size:
        return result
    channels = result.shape[-1]
    if not result.flags.c_contiguous:
        result += bias[:channels]
        return result
    for rows in wide(result, channels):
        if len(rows):
            rows += bias[: rows.shape[1]]
    return result


class ChannelSums:
    """The sums of a depthwise convolution, made ready for a filter [KH, KW, C] and a window.

    Cells are added row by row. Where windows of neighbouring pixels lie side by side, several pixels count as
    one of more channels.
    """

    def __init__(self, filter: Array, window: Window) -> None:
        *self._size, channels = filter.shape
        down, right = window.stride
        self._step = right if channels * right <= FEW else 1
        width = max(0, (window.out[1] - 1) * self._step + 1)
        if self._step > 1:  # then the sums between are computed, too, and left out
            window = replace(window, stride=(down, 1), out=(window.out[0], width))
        self._window = window
        together = ceil_div(width, ceil_div(width * channels, LONG)) if window.stride[1] == 1 < width else 1
        rest = width % together
        spans = [(0, width - rest, together), *([(width - rest, width, rest)] if rest else ())]
        self._parts = [(a, b, pixels, np.tile(filter, (1, 1, pixels))) for a, b, pixels in spans]

    def __call__(self, x: Array) -> Array:
        """Return the sums [N, OH, OW, C] of x [N, H, W, C], of its dtype."""
        sums = self._sums(x)
        return sums if self._step == 1 else np.ascontiguousarray(sums[:, :, :: self._step])

    def _sums(self, x: Array) -> Array:
        batch, *_, channels = x.shape
        height, width = self._window.out
        result = empty((batch, height, width, channels), x.dtype)
        if not result.size:
            return result
        padded = np.ascontiguousarray(pad_input(x, self._window))
        batch_step, row, column, *cells = window_steps(padded, self._window)
        for first, last, pixels, filter in self._parts:
            shape = (batch, height, (last - first) // pixels)
            wide = (*shape, *self._size, pixels * channels)
            steps = (batch_step, row, pixels * column, *cells)
            part = strided(padded, wide, steps, first * column)
            sums = result[:, :, first:last].reshape(*shape, pixels * channels)
            np.einsum("nyxhwc,hwc->nyxc", part, filter, out=sums)
        return result
