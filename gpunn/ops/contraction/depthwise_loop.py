"""Depthwise convolutions of the CPU backend as a compiled loop."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import TOGETHER, Loop, RealLoops
from gpunn.ops.contraction.blocks import RowBlock, pixels_at_once, row_blocks
from gpunn.ops.contraction.pieces import Piece, Write
from gpunn.ops.contraction.prepared import Ends
from gpunn.ops.kernels.window import Window
from gpunn.types import Array, Shape


class DepthwiseLoop:
    """The loop for a filter [KH, KW, C] of float32 and a bias [C], which clamps its results to `ends`."""

    def __init__(self, loop: Loop, window: Window, filter: Array, bias: Array, ends: Ends) -> None:
        self._channels = filter.shape[2]
        beside = window.stride[1] == 1  # then the windows of neighbouring pixels lie side by side
        self._together = max(1, min(window.out[1], TOGETHER // max(1, self._channels))) if beside else 1
        self._filter = np.tile(filter, (1, 1, self._together)).reshape(-1)
        self._bias = np.tile(bias, self._together)
        self._loop, self._ends = loop, ends

    def write(self, window: Window, shape: Shape) -> Write:
        """Return what writes the results [N, OH, OW, C] of x of a shape [N, H, W, C]."""
        images, height, width, channels = shape
        (_, across), (down, beside) = window.size, window.dilation
        size, row = self._together * channels, width * channels
        rows, columns = self._rows(window, height, row), self._columns(window, width)
        steps = down * row, beside * channels, across * size, size
        sizes = images, height * row, window.out[1] * channels

        def write(x: Array, out: Array) -> None:
            numbers, results = x.reshape(-1), out.reshape(-1)
            self._loop(numbers, self._filter, self._bias, self._ends, rows, columns, steps, sizes, results)

        return write

    def _rows(self, window: Window, height: int, row: int) -> Array:
        """Return what the loop takes for each row of the result."""
        above, first, last = _cells(window, 0, height)
        weights = first * (window.size[1] * self._together * self._channels)
        return np.stack([(above + first * window.dilation[0]) * row, weights, last - first], axis=1)

    def _columns(self, window: Window, width: int) -> Array:
        """Return what the loop takes for each part of a row: pixels that see all of their window, or one."""
        before, first, last = _cells(window, 1, width)
        whole = np.flatnonzero(last - first == window.size[1])  # these lie side by side
        begin, end = (whole[0], whole[-1] + 1) if whole.size else (len(first), len(first))
        starts = np.array([*range(begin), *range(begin, end, self._together), *range(end, len(first))])
        pixels = np.where((begin <= starts) & (starts < end), np.minimum(self._together, end - starts), 1)
        before, first, last = before[starts], first[starts], last[starts]
        places = before + first * window.dilation[1]
        found = [places, first * self._together, last - first, starts, pixels]
        channels: Array = np.array([self._channels, self._channels, 1, self._channels, self._channels])
        stacked: Array = np.stack(found, axis=1)
        return np.multiply(stacked, channels)


def _cells(window: Window, axis: int, extent: int) -> tuple[Array, Array, Array]:
    """Return where the window of each row (axis 0) or column of the result begins, and which cells see x."""
    step, reach = window.dilation[axis], window.size[axis]
    begin = np.arange(window.out[axis]) * window.stride[axis] - window.before[axis]
    first = np.clip((step - 1 - begin) // step, 0, reach)
    return begin, first, np.clip((extent - 1 - begin) // step + 1, first, reach)


def depthwise_pieces(
    call: Call, window: Window, loops: RealLoops, filter: Array, bias: Array, ends: Ends
) -> list[Piece] | None:
    """Return the results of a call on reals with a bias [C]; None for several channels of one."""
    channels, shape = filter.shape[3], call.x.shape
    if shape[3] != channels:
        return None
    loop = DepthwiseLoop(loops.depthwise, window, filter[0], bias, ends)
    blocks = row_blocks(window, shape, pixels_at_once(channels))
    return [_piece(block, loop, window, shape) for block in blocks]


def _piece(block: RowBlock, loop: DepthwiseLoop, window: Window, shape: Shape) -> Piece:
    images, rows, columns = block.shape
    above = block.first % math.prod(window.out) // columns * window.stride[0]
    own = replace(window, before=(window.before[0] - above, window.before[1]), out=(rows, columns))
    write = loop.write(own, (images, *shape[1:]))
    return Piece(block.first, block.last, lambda x, out: write(x[block.images], out))
