"""The sums of convolutions of images on the host, block by block."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpunn.ops.compiled import Loops, current
from gpunn.ops.contraction.blocks import (
    Binding,
    Multiply,
    Place,
    PointSums,
    StridedSums,
    Sums,
    Terms,
    pixels_at_once,
    product,
    summed,
)
from gpunn.ops.contraction.channelwise import ChannelSums, add_bias, long_row
from gpunn.ops.contraction.columns import column_pieces
from gpunn.ops.contraction.depthwise_loop import DepthwiseLoop
from gpunn.ops.contraction.pieces import (
    Piece,
    PieceSums,
    filter_matrix,
    point_pieces,
    product_rows,
    remembered,
    window_pieces,
)
from gpunn.ops.contraction.prepared import UNBOUNDED
from gpunn.ops.kernels.window import Window, seen
from gpunn.ops.memory import scratch, together
from gpunn.types import Array, Shape

FEW_PIXELS = 256  # for which reading the filter counts more than multiplying
FEW = 144  # channels, up to which pixels that are copied side by side take less time than one by one
MANY_CELLS = 1 << 11  # copies of cells side by side, which numpy makes in less time row by row of the window


def rows_of(filter: Array) -> Array:
    """Return a filter [O, ...] as rows [O, K]."""
    return filter.reshape(len(filter), math.prod(filter.shape[1:]))


def sums_of(window: Window, shape: Shape, filter: Array, matrix: Array, terms: Terms) -> Sums:
    """Return the sums of a filter from x of a shape [N, H, W, C]: products of patches with a matrix."""
    channels, height, width, depth = filter.shape
    if (height, width) == (1, 1) and window.before == window.after == (0, 0) and shape[3] == depth:
        sums = PointSums(matrix, terms, 1 < shape[0] * math.prod(window.out) <= FEW_PIXELS)
        return sums if window.pointwise else StridedSums(sums, window.stride)
    pixels = pixels_at_once(max(height * width * depth, channels))
    by_patches = _by_patches(filter, matrix, terms.multiply)
    return PieceSums(window_pieces(window, shape, terms, pixels, by_patches))


def pieces_of(window: Window, shape: Shape, constant: bool, filter: Array) -> list[Piece]:
    """Return the pieces of a convolution of x of a shape [N, H, W, C]. constant: the filter never changes."""
    channels, height, width, depth = filter.shape
    pixels, cells, rows = shape[0] * math.prod(window.out), height * width * depth, rows_of(filter)
    if (height, width) == (1, 1) and window.before == window.after == (0, 0) and shape[3] == depth:
        sy, sx = window.stride
        seen = None if window.pointwise else (slice(None), slice(None, None, sy), slice(None, None, sx))
        return point_pieces(rows, pixels, seen, constant)
    binding = _by_patches(filter, filter_matrix(rows, constant, pixels))
    rows_at_once = product_rows(pixels, cells, channels)
    return window_pieces(window, shape, Terms(filter.dtype), rows_at_once, binding)


def _by_patches(filter: Array, matrix: Array, multiply: Multiply = product) -> Binding:
    """Return the sums of a filter [O, KH, KW, I], by products of patches with a matrix [KH * KW * I, O]."""
    channels, height, width, depth = filter.shape
    cells = height * width * depth

    def bind(padded: Array, window: Window) -> Place:
        copy = _patches(padded, window)
        groups = padded.shape[3] // depth

        def write(out: Array) -> None:
            patches = copy()
            if groups == 1:
                pixels = math.prod(out.shape[:3])
                multiply(matrix, patches.reshape(pixels, cells), out.reshape(pixels, channels))
                return
            grouped = patches.reshape(*patches.shape[:-1], groups, depth)
            filters = filter.reshape(groups, channels // groups, height, width, depth)
            products: Array = np.einsum("nyxhwgi,gohwi->nyxgo", grouped, filters, optimize=True)
            out[...] = products.reshape(out.shape)

        return write

    return bind


def _patches(padded: Array, window: Window) -> Callable[[], Array]:
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


def sums_by_channel(window: Window, shape: Shape, filter: Array, terms: Terms) -> Sums:
    """Return the sums of a filter from x of a shape [N, H, W, C]."""
    channels = filter.shape[3]
    if terms.exact and shape[3] == 1 < channels:  # many filters of one channel are one product
        rows = filter.transpose(3, 1, 2, 0)
        return sums_of(window, shape, rows, np.ascontiguousarray(rows_of(rows).T), terms)
    return PieceSums(pieces_by_channel(window, shape, filter, terms))


def pieces_by_channel(window: Window, shape: Shape, filter: Array, terms: Terms) -> list[Piece]:
    """Return the pieces of a depthwise convolution of x of a shape [N, H, W, C]."""
    channels, loops = filter.shape[3], current() if filter.dtype == np.float32 else None
    pixels = pixels_at_once(channels * (1 + math.prod(window.stride)))
    if loops is None and window.stride[1] > 1 and channels <= FEW and math.prod(shape):
        columns = ChannelSums(filter[0], window, beside=True).bind_columns
        return column_pieces(window, shape, terms, pixels, _repeating(channels, columns))
    binding = _by_channel(window, filter, loops)
    return window_pieces(window, shape, terms, pixels, _repeating(channels, binding))


def _by_channel(window: Window, filter: Array, loops: Loops | None) -> Binding:
    """Return the sums of a filter [1, KH, KW, C] from images of as many channels."""
    if loops is not None:
        channels = filter.shape[3]
        loop = DepthwiseLoop(loops.depthwise, window, filter[0], np.zeros(channels, np.float32), UNBOUNDED)

        def compiled(padded: Array, window: Window) -> Place:
            return lambda out: loop(padded, window, out)

        return compiled
    return ChannelSums(filter[0], window).bind


def _repeating(channels: int, binding: Binding) -> Binding:
    """Return the sums from images of fewer channels, each of which is there several times in a row."""

    def bind(padded: Array, window: Window) -> Place:
        times = channels // padded.shape[-1]
        if times == 1:
            return binding(padded, window)
        return lambda out: binding(np.repeat(padded, times, axis=-1), window)(out)

    return bind


def real(sums: Sums, window: Window, x: Array, channels: int, bias: Array | None) -> Array:
    """Return the sums of x with a bias."""
    result = summed(sums, x, (x.shape[0], *window.out, channels), x.dtype)
    return add_bias(result, None if bias is None else long_row(bias))
