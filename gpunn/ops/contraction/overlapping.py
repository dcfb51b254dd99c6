"""Products of windows that overlap in memory, on the host: what they see is copied once for each row.

For each column of an image, what the KH rows of a window see there is copied side by side. Windows then lie
in one piece each, the one beginning some columns after the other. BLAS multiplies rows that do not overlap,
so every so many windows are a matrix of their own. This copies KH elements for each one of the image, where
patches are KH * KW.
"""

from __future__ import annotations

import math

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.contraction.blocks import BLOCK, SMALL_PRODUCT, Binding, Place
from gpunn.ops.contraction.pieces import remembered
from gpunn.ops.kernels.window import Window, strided
from gpunn.ops.memory import FEW_BYTES, aligned, scratch
from gpunn.types import Array, Shape

FEW = 32  # channels of the result, up to which copies weigh more than products
LEAST = 1 << 17  # elements of patches, for which more than what is around each call of numpy's counts
WASTE = 5 / 4  # columns that are multiplied, times those of the result


def suits(window: Window, shape: Shape, filter: Array) -> bool:
    """Tell whether windows of x [N, H, W, C] take less time so than as copies of all that they see."""
    channels, _, width, depth = filter.shape
    stride, out, pitch = window.stride[1], window.out[1], _pitch(window)
    return (
        shape[3] == depth
        and window.dilation[1] == 1
        and width >= 2 * stride
        and channels <= FEW
        and depth * filter.itemsize <= FEW_BYTES
        and shape[0] * math.prod(window.out) * math.prod(filter.shape[1:]) >= LEAST
        and pitch <= WASTE * out * stride
        and pitch // _period(window) * filter.size <= SMALL_PRODUCT
    )


def pixels_at_once(window: Window, filter: Array) -> int:
    """Return how many pixels a block has: whole rows, in products that BLAS need not pack."""
    _, height, _, depth = filter.shape
    columns: int = min(SMALL_PRODUCT // filter.size * _period(window), BLOCK // (height * depth))
    return max(1, columns // _pitch(window)) * window.out[1]


def _period(window: Window) -> int:
    """Return after how many columns a window begins that does not overlap the first."""
    stride = window.stride[1]
    return ceil_div(window.size[1], stride) * stride


def _pitch(window: Window) -> int:
    """Return the columns from one row of copies to the next: whole periods of windows side by side."""
    columns, period = (window.out[1] - 1) * window.stride[1] + window.size[1], _period(window)
    return ceil_div(columns, period) * period


def binding(filter: Array) -> Binding:
    """Return the sums of a filter [O, KH, KW, I]."""
    channels, height, width, depth = filter.shape
    matrix = aligned(filter.transpose(2, 1, 3, 0).reshape(-1, channels))

    def bind(padded: Array, window: Window) -> Place:
        (images, _, columns, _), (count, across) = padded.shape, window.out
        pitch, stride, (down, _) = _pitch(window), window.stride[1], window.dilation
        apart = _period(window) // stride
        columns, lines = min(columns, pitch), images * count
        whole = np.dtype((np.void, depth * padded.itemsize))
        image, row, column, _ = padded.strides
        steps = image, window.stride[0] * row, column, down * row
        source = strided(padded.view(whole)[..., 0], (images, count, columns, height), steps)
        shape = lines * pitch // (apart * stride), apart, channels

        def target(copies: Array) -> Array:
            pixels = copies[: lines * pitch].view(whole)[..., 0]
            return pixels.reshape(images, count, pitch, height)[:, :, :columns]

        def windows(copies: Array) -> list[Array]:
            begin = copies.itemsize * height * depth * stride
            steps, cells = (apart * begin, copies.itemsize), (shape[0], len(matrix))
            return [strided(copies, cells, steps, phase * begin) for phase in range(apart)]

        made = remembered(lambda copies: (target(copies), windows(copies)))

        def write(out: Array) -> None:
            # The last windows reach behind the last row.
            copies = scratch("overlapping", (lines * pitch + width, height, depth), padded.dtype)
            cells, parts = made(copies)
            for k in range(height):
                cells[..., k] = source[..., k]
            products = scratch("products", shape, out.dtype)
            for phase, part in enumerate(parts):
                np.matmul(part, matrix, out=products[:, phase])
            rows = products.reshape(images, count, math.prod(shape[:2]) // lines, channels)
            out[...] = rows[:, :, :across]

        return write

    return bind
