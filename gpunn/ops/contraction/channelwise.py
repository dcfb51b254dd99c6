"""Sums and products that work on each channel for itself, on the host.

numpy works along the last axis, and a loop over few channels takes little more time than over many. So
several neighbouring pixels count as one of more channels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.contraction.pieces import remembered
from gpunn.ops.kernels.window import Window, strided, window_steps
from gpunn.ops.memory import BUFFER, aligned, scratch, together
from gpunn.types import Array

LONG = 2 * BUFFER  # elements that numpy works on at a time: they stay in the cache; rows have half or more
FEW_RESULTS = 1 << 13  # for which more than their rows counts: what is around each call of numpy's
FEW = 112  # channels, up to which pixels that are copied side by side take less time than one by one


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

    Cells are added row by row. Where windows of neighbouring pixels lie side by side, several pixels count as
    one of more channels. With a stride they do so if each column of the window has a copy of what it sees.
    """

    def __init__(self, filter: Array, window: Window) -> None:
        *self._size, channels = filter.shape
        width, right = window.out[1], window.stride[1]
        self._copied = right > 1 and channels <= FEW
        beside = width > 1 and (self._copied or right == 1)
        together = ceil_div(width, ceil_div(width * channels, LONG)) if beside else 1
        rest = width % together
        spans = [(0, width - rest, together), *([(width - rest, width, rest)] if rest else ())]
        self._parts = [(a, b, pixels, np.tile(filter, (1, 1, pixels))) for a, b, pixels in spans]

    def __call__(self, padded: Array, window: Window, out: Array) -> None:
        """Write the sums of padded x [N, H, W, C] to `out` [N, OH, OW, C], for some rows of the window."""
        self.bind(padded, window)(out)

    def bind(self, padded: Array, window: Window) -> Callable[[Array], None]:
        """Return what writes the sums of padded x [N, H, W, C], whose memory stays, for some rows."""
        if not padded.size or not window.out[1]:  # nor has the result any
            return lambda out: None
        if self._copied:
            return self._bind_columns(padded, window)
        return self._bind(padded, window_steps(padded, window), window.out[0])

    def _bind_columns(self, padded: Array, window: Window) -> Callable[[Array], None]:
        """Return what copies what each column of the window sees, and writes the sums of the copies."""
        batch, _, right, _, beside, channel = window_steps(padded, window)
        shape = (*padded.shape[:2], self._size[1], window.out[1], padded.shape[3])
        pixel = together(padded.dtype, shape[4])
        steps = batch, padded.strides[1], beside, right, channel
        seen = strided(padded, shape, steps).view(pixel)

        def bind(columns: Array) -> tuple[Array, Callable[[Array], None]]:
            n, row, column, side, channel = columns.strides
            (down, _), (between, _) = window.stride, window.dilation
            steps = n, down * row, side, between * row, column, channel
            return columns.view(pixel), self._bind(columns, steps, window.out[0])

        bound = remembered(bind)

        def write(out: Array) -> None:
            cells, sums = bound(scratch("columns", shape, padded.dtype))
            cells[...] = seen
            sums(out)

        return write

    def _bind(self, padded: Array, steps: tuple[int, ...], height: int) -> Callable[[Array], None]:
        """Return what writes the sums of `height` rows; steps: as window_steps() of the cells in memory."""
        batch, channels = len(padded), padded.shape[-1]
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
