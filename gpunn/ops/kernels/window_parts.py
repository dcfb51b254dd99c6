"""Places of the numbers that the windows of a result see in images, for compiled loops.

A loop takes a row of the result in parts, whose windows see cells of as many rows and columns. The numbers of
a part lie side by side, and so do those that it sees of each cell, or they do so for each of its pixels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpunn.ops.compiled import TOGETHER
from gpunn.ops.kernels.window import Window
from gpunn.types import Array, Shape

LANES = 16  # of the longest vectors
WASTE = 1.25  # times the numbers of a pixel, that the lanes of its vectors may be


class WindowParts(NamedTuple):
    """The parts of images [H, W, C] and of their results [OH, OW, C], counted in numbers.

    rows: for each row of the result the place of what it sees first in an image, and the first row of the
    window that sees the image, and how many do. columns: the same for each part of a row and the columns of
    the window; the place of the part, its numbers that lie side by side, and how many pixels have so many.
    down, beside, apart: from a cell to the one below it, to the next in its row, and from what a pixel of a
    part sees to the next. image, across: numbers of an image, and of a row of the result.
    """

    rows: Array
    columns: Array
    down: int
    beside: int
    apart: int
    image: int
    across: int


def side_by_side(window: Window, channels: int) -> int:
    """Return how many pixels have numbers side by side: one where the numbers of one fill vectors."""
    vectors = -(-channels // LANES) * LANES
    if window.stride[1] > 1 or not channels or WASTE * channels > vectors:
        return 1
    return max(1, min(window.out[1], TOGETHER // channels))


def window_parts(window: Window, shape: Shape, flat: int) -> WindowParts:
    """Return the parts of x of a shape [N, H, W, C], with so many pixels side by side."""
    _, height, width, channels = shape
    (down, beside), row = window.dilation, width * channels
    rows, columns = _rows(window, height, row), _columns(window, width, channels, flat)
    apart, across = window.stride[1] * channels, window.out[1] * channels
    return WindowParts(rows, columns, down * row, beside * channels, apart, height * row, across)


def _rows(window: Window, height: int, row: int) -> Array:
    above, first, last = cells_seen(window, 0, height)
    return np.stack([(above + first * window.dilation[0]) * row, first, last - first], axis=1)


def _columns(window: Window, width: int, channels: int, flat: int) -> Array:
    before, first, last = cells_seen(window, 1, width)
    whole = np.flatnonzero(last - first == window.size[1])  # these lie side by side
    begin, end = (whole[0], whole[-1] + 1) if whole.size else (len(first), len(first))
    middle = range(begin, end, flat if flat > 1 else max(1, end - begin))
    starts = np.array([*range(begin), *middle, *range(end, len(first))])
    counts = np.diff(starts, append=len(first))
    before, first, last = before[starts], first[starts], last[starts]
    places = (before + first * window.dilation[1]) * channels
    lengths, pixels = (counts, np.ones_like(counts)) if flat > 1 else (np.ones_like(counts), counts)
    return np.stack([places, first, last - first, starts * channels, lengths * channels, pixels], axis=1)


def cells_seen(window: Window, axis: int, extent: int) -> tuple[Array, Array, Array]:
    """Return where the window of each row (axis 0) or column of the result begins, and which cells see x."""
    step, reach = window.dilation[axis], window.size[axis]
    begin = np.arange(window.out[axis]) * window.stride[axis] - window.before[axis]
    first = np.clip((step - 1 - begin) // step, 0, reach)
    return begin, first, np.clip((extent - 1 - begin) // step + 1, first, reach)
