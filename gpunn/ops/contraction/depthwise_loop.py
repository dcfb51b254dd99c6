"""Depthwise convolutions of the CPU backend as a compiled loop."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import RealLoops, Shared
from gpunn.ops.compiled.sharing import divided, threads
from gpunn.ops.contraction.blocks import RowBlock, pixels_at_once, row_blocks
from gpunn.ops.contraction.pieces import Piece, Write
from gpunn.ops.contraction.prepared import PLAIN, InLoop
from gpunn.ops.kernels.window import Window
from gpunn.ops.kernels.window_parts import side_by_side, window_parts
from gpunn.ops.memory import aligned
from gpunn.types import Array, Shape

A_MICROSECOND = 1e4  # products that a loop computes in one, or more


class DepthwiseLoop:
    """The loop for a filter [KH, KW, C] of float32 and a bias [C], which applies an activation."""

    def __init__(
        self, loop: Shared, window: Window, filter: Array, bias: Array, activation: InLoop = PLAIN
    ) -> None:
        self._flat = side_by_side(window, filter.shape[2])
        self._filter = aligned(np.tile(filter, (1, 1, self._flat))).reshape(-1)
        self._bias = np.tile(bias, self._flat)
        self._loop, self._activation = loop, activation

    def write(self, window: Window, shape: Shape) -> Write:
        """Return what writes the results [N, OH, OW, C] of x of a shape [N, H, W, C]."""
        parts, row = window_parts(window, shape, self._flat), window.size[1] * len(self._bias)
        steps = parts.down, parts.beside, parts.apart, row, len(self._bias)
        sizes, rows = (parts.image, parts.across), shape[0] * len(parts.rows)
        ends = divided(rows, rows * parts.across * math.prod(window.size) / A_MICROSECOND)
        operands = self._filter, self._bias, *self._activation, parts.rows, parts.columns, steps, sizes

        def write(x: Array, out: Array) -> None:
            self._loop(ends, x.reshape(-1), *operands, out.reshape(-1))

        return write


def depthwise_pieces(
    call: Call, window: Window, loops: RealLoops, filter: Array, bias: Array, activation: InLoop
) -> list[Piece] | None:
    """Return the results of a call on reals with a bias [C]; None for several channels of one."""
    channels, shape = filter.shape[3], call.x.shape
    if shape[3] != channels:
        return None
    loop = DepthwiseLoop(loops.depthwise, window, filter[0], bias, activation)
    blocks = row_blocks(window, shape, pixels_at_once(channels) * threads())
    return [_piece(block, loop, window, shape) for block in blocks]


def _piece(block: RowBlock, loop: DepthwiseLoop, window: Window, shape: Shape) -> Piece:
    images, rows, columns = block.shape
    above = block.first % math.prod(window.out) // columns * window.stride[0]
    own = replace(window, before=(window.before[0] - above, window.before[1]), out=(rows, columns))
    write = loop.write(own, (images, *shape[1:]))
    return Piece(block.first, block.last, lambda x, out: write(x[block.images], out), of_loops=True)
