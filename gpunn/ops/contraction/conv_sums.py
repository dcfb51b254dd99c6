"""The sums of convolutions of images on the host, block by block."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpunn.ops.compiled import current
from gpunn.ops.contraction.blocks import PointSums, StridedSums, Sums, Terms, WindowSums, summed
from gpunn.ops.contraction.channelwise import ChannelSums, add_bias, long_row
from gpunn.ops.contraction.depthwise_loop import DepthwiseLoop
from gpunn.ops.contraction.prepared import UNBOUNDED
from gpunn.ops.kernels.window import Window, seen
from gpunn.ops.memory import scratch
from gpunn.types import Array, Shape

FEW_BYTES = 128  # of cells side by side that numpy copies in less time as one element


def rows_of(filter: Array) -> Array:
    """Return a filter [O, ...] as rows [O, K]."""
    return filter.reshape(len(filter), math.prod(filter.shape[1:]))


def sums_of(window: Window, shape: Shape, filter: Array, matrix: Array, terms: Terms) -> Sums:
    """Return the sums of a filter from x of a shape [N, H, W, C]: products of patches with a matrix."""
    channels, height, width, depth = filter.shape
    cells = height * width * depth
    if (height, width) == (1, 1) and window.before == window.after == (0, 0) and shape[3] == depth:
        sums = PointSums(matrix, terms)
        return sums if window.pointwise else StridedSums(sums, window.stride)

    def of_patches(padded: Array, window: Window, out: Array) -> None:
        groups = padded.shape[3] // depth
        patches = _patches(padded, window)
        if groups == 1:
            pixels = math.prod(out.shape[:3])
            np.matmul(patches.reshape(pixels, cells), matrix, out=out.reshape(pixels, channels))
            return
        grouped = patches.reshape(*patches.shape[:-1], groups, depth)
        filters = filter.reshape(groups, channels // groups, height, width, depth)
        products: Array = np.einsum("nyxhwgi,gohwi->nyxgo", grouped, filters, optimize=True)
        out[...] = products.reshape(out.shape)

    return WindowSums(window, shape, terms, max(cells, channels), of_patches)


def _patches(padded: Array, window: Window) -> Array:
    """List the input cells of each output cell: [N, OH, OW, KH, KW, C]."""
    cells = seen(padded, window)
    patches = scratch("patches", cells.shape, padded.dtype)
    nbytes = math.prod(cells.shape[4:]) * cells.itemsize
    if nbytes <= FEW_BYTES and window.dilation[1] == 1 and padded.flags.c_contiguous and cells.size:
        run, shape = np.dtype(f"V{nbytes}"), cells.shape[:4]
        beside = patches.reshape(*shape, -1).view(run)[..., 0]
        np.copyto(beside, np.ndarray(shape, run, padded, 0, cells.strides[:4]))
    else:
        np.copyto(patches, cells)
    return patches


def sums_by_channel(window: Window, shape: Shape, filter: Array, terms: Terms) -> Sums:
    """Return the sums of a filter from x of a shape [N, H, W, C]."""
    channels, loops = filter.shape[3], current()
    sums: Callable[[Array, Window, Array], None]
    if loops is not None and filter.dtype == np.float32:
        nothing = np.zeros(channels, np.float32)
        sums = DepthwiseLoop(loops.depthwise, window, filter[0], nothing, UNBOUNDED)
    else:
        sums = ChannelSums(filter[0], window)

    def of_rows(padded: Array, window: Window, out: Array) -> None:
        depth = padded.shape[3]
        sums(padded if depth == channels else np.repeat(padded, channels // depth, axis=3), window, out)

    return WindowSums(window, shape, terms, channels * (1 + math.prod(window.stride)), of_rows)


def real(sums: Sums, window: Window, x: Array, channels: int, bias: Array | None) -> Array:
    """Return the sums of x with a bias."""
    result = summed(sums, x, (x.shape[0], *window.out, channels), x.dtype)
    return add_bias(result, None if bias is None else long_row(bias))
