"""Copies of what windows see, as the rows of a product of matrices on the host."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpunn.ops.contraction.pieces import remembered
from gpunn.ops.kernels.window import Window, seen
from gpunn.ops.memory import scratch, together
from gpunn.types import Array

MANY_CELLS = 1 << 11  # copies of cells side by side, which numpy makes in less time row by row of the window


def patches_of(padded: Array, window: Window) -> Callable[[], Array]:
    """Return what lists the input cells of each output cell: [N, OH, OW, KH, KW, C]."""
    cells = seen(padded, window)
    run = together(cells.dtype, math.prod(cells.shape[4:]))
    dense = window.dilation[1] == 1 and padded.flags.c_contiguous
    beside, source = dense and run != cells.dtype and cells.size, cells
    if beside:
        source = np.ndarray(cells.shape[:4], run, padded, 0, cells.strides[:4])

    def target(patches: Array) -> Array:
        return patches.reshape(*source.shape, -1).view(source.dtype)[..., 0] if beside else patches

    rows = range(source.shape[3]) if beside and source.size >= MANY_CELLS else (slice(None),)
    sources = [source[:, :, :, row] for row in rows]
    into = remembered(lambda patches: [target(patches)[:, :, :, row] for row in rows])

    def copy() -> Array:
        patches = scratch("patches", cells.shape, padded.dtype)
        for part, of_row in zip(into(patches), sources, strict=True):
            part[...] = of_row
        return patches

    return copy
