"""Sums and products that work on each channel for itself, on the host.

numpy works along the last axis, and a loop over few channels takes little more time than over many. So
several neighbouring pixels count as one of more channels.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.contraction.blocks import Place
from gpunn.ops.kernels.window import Window, strided, window_steps
from gpunn.ops.memory import BUFFER, aligned
from gpunn.types import Array

LONG = 2 * BUFFER  # elements that numpy works on at a time: they stay in the cache; rows have half or more
FEW_RESULTS = 1 << 13  # for which more than their rows counts: what is around each call of numpy's
# Numbers in a row of a depthwise convolution. Of fewer there are more rows to begin; the sums and the filter
# of more do not stay in the first cache, while numpy adds up the cells of a row of the window.
DEPTHWISE_ROW = 1344
LEAST_ROW = 512  # of which no pixel is left over
ROW_OF_COLUMNS = 1 << 13  # numbers in such a row of columns: numpy goes along all rows before the next cell


def wide(pixels: Array, channels: int) -> tuple[Array, ...]:
    """Return dense pixels [..., C] as rows of several pixels each, and as rows of one those that are left."""
    shapes = wide_shapes(pixels.size // channels, channels)
    if len(shapes) == 1:
        return (pixels.reshape(shapes[0]),)
    flat, found, first = pixels.reshape(-1), [], 0
    for rows, width in shapes:
        found.append(flat[first : first + rows * width].reshape(rows, width))
        first += rows * width
    return tuple(found)


@lru_cache(1 << 12)
def wide_shapes(count: int, channels: int) -> tuple[tuple[int, int], ...]:
    """Return the shapes of what wide() makes of some pixels."""
    together = _together(count, channels)
    rows, rest = divmod(count, together)
    even = (rows, together * channels)
    return (even, (rest, channels)) if rest else (even,)


def _together(count: int, channels: int) -> int:
    """Return how many of some pixels make a row: if possible so many that none is left."""
    most = max(1, LONG // channels)
    least = max(1, ceil_div(LONG, 2 * channels))
    return next((k for k in range(most, least - 1, -1) if count % k == 0), most)


def long_row(numbers: Array, least: int = LONG) -> Array:
    """Return a number for each channel as a row of several pixels, for all rows of wide(): a part of it.

    least: as many numbers in any case.
    """
    return aligned(np.tile(numbers, max(1, max(least, LONG) // max(1, numbers.size))))


def add_bias(result: Array, bias: Array | None) -> Array:
    """Add a number for each channel to `result` [..., C], which changes; return it. bias: a long_row()."""
    if bias is None or not result.size:
        return result
    channels = result.shape[-1]
    if not result.flags.c_contiguous:
        result += bias[:channels]
        return result
    for rows in wide(result, channels):
        rows += bias[: rows.shape[1]]
    return result


class ChannelSums:
    """The sums of a depthwise convolution, made ready for a filter [KH, KW, C] and a window.

    Where windows of neighbouring pixels lie side by side, several pixels count as one of more channels.
    beside: they do so with a stride, too, as bind_columns() gets what they see.
    """

    def __init__(self, filter: Array, window: Window, beside: bool = False) -> None:
        *self._size, channels = filter.shape
        width = window.out[1]
        if beside:
            together = ceil_div(width, max(1, ceil_div(width * channels, ROW_OF_COLUMNS)))
        else:
            together = _pixels_of_row(width, channels) if window.stride[1] == 1 else 1
        rest = width % together
        spans = [(0, width - rest, together), *([(width - rest, width, rest)] if rest else ())]
        self._parts = [(a, b, pixels, np.tile(filter, (1, 1, pixels))) for a, b, pixels in spans]

    def bind(self, padded: Array, window: Window) -> Place:
        """Return what writes the sums of padded x [N, H, W, C], whose memory stays, for some rows."""
        return self._bind(padded, window_steps(padded, window), window.out)

    def bind_columns(self, columns: Array, window: Window) -> Place:
        """Return what writes the sums of what each column of the window sees [N, H, KW, OW, C]."""
        batch, row, column, beside, channel = columns.strides
        (down, _), (between, _) = window.stride, window.dilation
        return self._bind(columns, (batch, down * row, beside, between * row, column, channel), window.out)

    def _bind(self, padded: Array, steps: tuple[int, ...], size: tuple[int, int]) -> Place:
        """Return what writes sums of a size; steps: as window_steps() of the cells in memory."""
        (batch, *_, channels), (height, width) = padded.shape, size
        if not padded.size or not width:  # nor has the result any
            return lambda out: None
        batch_step, row, column, *cells = steps
        parts = []
        for first, last, pixels, filter in self._parts:
            shape = (batch, height, (last - first) // pixels, pixels * channels)
            wide = (*shape[:3], *self._size, pixels * channels)
            strides = (batch_step, row, pixels * column, *cells)
            parts.append((slice(first, last), shape, strided(padded, wide, strides, first * column), filter))

        def write(out: Array) -> None:
            for columns, shape, part, filter in parts:
                sums = out if len(parts) == 1 else out[:, :, columns]
                np.einsum("nyxhwc,hwc->nyxc", part, filter, out=sums.reshape(shape))

        return write


def _pixels_of_row(width: int, channels: int) -> int:
    """Return how many of some pixels side by side are a row: if possible so many that none is left."""
    most = max(1, min(width, DEPTHWISE_ROW // max(1, channels)))
    least = min(most, ceil_div(LEAST_ROW, max(1, channels)))
    even = (k for k in range(most, least - 1, -1) if width % k == 0)
    return next(even, ceil_div(width, max(1, ceil_div(width, most))))
