"""Depthwise convolutions of the CPU backend as a compiled loop."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import TOGETHER, Loop, Loops
from gpunn.ops.compiled.loops import Geometry
from gpunn.ops.contraction.blocks import RowBlock, pixels_at_once, row_blocks
from gpunn.ops.contraction.pieces import Piece
from gpunn.ops.contraction.prepared import Ends
from gpunn.ops.kernels.window import Window
from gpunn.types import Array, Shape


class DepthwiseLoop:
    """The loop for a filter [KH, KW, C] of float32 and a bias [C], which clamps its results to `ends`."""

    def __init__(self, loop: Loop, window: Window, filter: Array, bias: Array, ends: Ends) -> None:
        channels = filter.shape[2]
        beside = window.stride[1] == 1  # then the windows of neighbouring pixels lie side by side
        self._together = max(1, min(window.out[1], TOGETHER // max(1, channels))) if beside else 1
        self._filter = np.tile(filter, (1, 1, self._together)).reshape(-1)
        self._bias = np.tile(bias, self._together)
        self._loop, self._ends = loop, ends

    def __call__(self, x: Array, window: Window, out: Array) -> None:
        """Write the results [N, OH, OW, C] of x [N, H, W, C]."""
        geometry = self._geometry(x.shape, window)
        self._loop(x.reshape(-1), self._filter, self._bias, *self._ends, geometry, out.reshape(-1))

    def piece(self, block: RowBlock, window: Window) -> Piece:
        """Return the results of a block."""
        _, rows, columns = block.shape
        above = block.first % math.prod(window.out) // columns * window.stride[0]
        own = replace(window, before=(window.before[0] - above, window.before[1]), out=(rows, columns))

        def write(x: Array, out: Array) -> None:
            self(x[block.images], own, out)

        return Piece(block.first, block.last, write)

    def _geometry(self, shape: Shape, window: Window) -> Geometry:
        batch, height, width, channels = shape
        before, size, stride, dilation = window.before, window.size, window.stride, window.dilation
        return (
            *(batch, height, width, channels),
            *window.out,
            *size,
            *stride,
            *dilation,
            *before,
            self._together,
        )


def depthwise_pieces(
    call: Call, window: Window, loops: Loops, filter: Array, bias: Array, ends: Ends
) -> list[Piece] | None:
    """Return the results of a call on reals with a bias [C]; None for several channels of one."""
    channels, shape = filter.shape[3], call.x.shape
    if shape[3] != channels:
        return None
    loop = DepthwiseLoop(loops.depthwise, window, filter[0], bias, ends)
    return [loop.piece(block, window) for block in row_blocks(window, shape, pixels_at_once(channels))]
