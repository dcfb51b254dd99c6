"""The sums of convolutions of images on the host, block by block."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from gpunn.ops.compiled import Shared, depthwise_loop, integer_loops
from gpunn.ops.contraction import overlapping
from gpunn.ops.contraction.blocks import (
    Binding,
    Multiply,
    Place,
    PointSums,
    StridedSums,
    Sums,
    Terms,
    equal_parts,
    in_parts,
    pixels_at_once,
    product,
    row_blocks,
    summed,
)
from gpunn.ops.contraction.byte_sums import channel_filter, dot_filter
from gpunn.ops.contraction.channelwise import ChannelSums, add_bias, long_row
from gpunn.ops.contraction.columns import column_pieces
from gpunn.ops.contraction.depthwise_loop import DepthwiseLoop
from gpunn.ops.contraction.patches import patches_of
from gpunn.ops.contraction.pieces import (
    Margin,
    Piece,
    PieceSums,
    filter_matrix,
    looped_pieces,
    point_pieces,
    product_rows,
    remembered,
    window_pieces,
)
from gpunn.ops.contraction.row_pairs import row_pair_pieces
from gpunn.ops.kernels.window import Window, strided
from gpunn.ops.memory import scratch, together
from gpunn.types import Array, Shape

FEWEST_CELLS = 32  # that a row of a window sees, for a product of its own
FEW_PIXELS = 256  # for which reading the filter counts more than multiplying
FEW = 144  # channels, up to which pixels that are copied side by side take less time than one by one


def rows_of(filter: Array) -> Array:
    """Return a filter [O, ...] as rows [O, K]."""
    return filter.reshape(len(filter), math.prod(filter.shape[1:]))


def sums_of(window: Window, shape: Shape, filter: Array, matrix: Array, terms: Terms) -> Sums:
    """Return the sums of a filter from x of a shape [N, H, W, C]: products of patches with a matrix."""
    channels, height, width, depth = filter.shape
    groups = shape[3] // depth
    beside = width if groups == 1 == window.dilation[1] else 1  # cells of which all bytes lie side by side
    dots = dot_filter(filter.reshape(channels, -1, beside * depth), terms, groups)
    if (height, width) == (1, 1) and window.before == window.after == (0, 0) and shape[3] == depth:
        few = 1 < shape[0] * math.prod(window.out) <= FEW_PIXELS
        if dots is not None and window.pointwise:
            return dots.of_pixels(depth)
        if dots is None:
            sums = PointSums.of(matrix, terms, few)
            return sums if window.pointwise else StridedSums(sums, window.stride)
    if dots is not None:
        return PieceSums(dots.pieces(window, shape, beside == width), finished=True)
    pixels = pixels_at_once(max(height * width * depth, channels))
    pieces = row_pair_pieces(window, shape, filter.shape, matrix, terms, pixels)
    if pieces is not None:
        return PieceSums(pieces)
    apart = terms.exact and window.stride == (1, 1) and shape[3] == depth and height > 1
    by_rows = apart and FEWEST_CELLS <= width * depth >= channels
    binding = _by_rows(filter, matrix) if by_rows else _by_patches(filter, matrix, terms.multiply)
    return PieceSums(window_pieces(window, shape, terms, pixels, binding))


def pieces_of(window: Window, shape: Shape, constant: bool, filter: Array) -> list[Piece]:
    """Return the pieces of a convolution of x of a shape [N, H, W, C]. constant: the filter never changes."""
    channels, height, width, depth = filter.shape
    pixels, cells, rows = shape[0] * math.prod(window.out), height * width * depth, rows_of(filter)
    if (height, width) == (1, 1) and window.before == window.after == (0, 0) and shape[3] == depth:
        sy, sx = window.stride
        seen = None if window.pointwise else (slice(None), slice(None, None, sy), slice(None, None, sx))
        return point_pieces(rows, pixels, seen, constant)
    if overlapping.suits(window, shape, filter):
        rows_at_once, binding = overlapping.pixels_at_once(window, filter), overlapping.binding(filter)
    else:
        rows_at_once = product_rows(pixels, cells, channels)
        binding = _by_patches(filter, filter_matrix(rows, constant, pixels))
    return window_pieces(window, shape, Terms(filter.dtype), rows_at_once, binding)


def _by_patches(filter: Array, matrix: Array, multiply: Multiply = product) -> Binding:
    """Return the sums of a filter [O, KH, KW, I], by products of patches with a matrix [KH * KW * I, O]."""
    channels, height, width, depth = filter.shape
    cells = height * width * depth

    def bind(padded: Array, window: Window) -> Place:
        copy = patches_of(padded, window)
        groups = padded.shape[3] // depth
        if groups > 1:
            return _by_groups(copy, filter, groups)

        def write(out: Array) -> None:
            pixels = math.prod(out.shape[:3])
            multiply(matrix, copy().reshape(pixels, cells), out.reshape(pixels, channels))

        return write

    return bind


def _by_groups(copy: Callable[[], Array], filter: Array, groups: int) -> Place:
    """Return the sums of patches with a filter [O, KH, KW, I]: a product of matrices for each group."""
    channels, height, width, depth = filter.shape
    of_group, cells = channels // groups, height * width
    matrices = filter.reshape(groups, of_group, cells * depth).transpose(0, 2, 1)

    def write(out: Array) -> None:
        patches, pixels = copy(), math.prod(out.shape[:3])
        apart = scratch("groups", (groups, pixels, cells, depth), patches.dtype)
        kind = together(patches.dtype, depth)
        seen = patches.reshape(pixels, cells, groups, depth).view(kind)
        apart.view(kind)[...] = seen.transpose(2, 0, 1, 3)
        products = scratch("products", (groups, pixels, of_group), out.dtype)
        np.matmul(apart.reshape(groups, pixels, cells * depth), matrices, out=products)
        out.reshape(pixels, groups, of_group)[...] = products.transpose(1, 0, 2)

    return write


def _by_rows(filter: Array, matrix: Array) -> Binding:
    """Return the sums of _by_patches() without a stride and groups, in any order of summation.

    Each row of the window has a product of its own, of the same copies: of what a row of the window sees.
    """
    channels, height, width, depth = filter.shape
    cells = width * depth
    matrices = matrix.reshape(height, 1, 1, cells, channels)

    def bind(padded: Array, window: Window) -> Place:
        (images, extent), (count, across), down = padded.shape[:2], window.out, window.dilation[0]
        copy = patches_of(padded, replace(window, size=(1, width), out=(extent, across)))
        shape = height, images, count * across
        parts = equal_parts(count * across, cells * channels)

        def of_rows(patches: Array) -> Array:
            image, row, column = patches.strides[:3]
            return in_parts(
                strided(patches, (*shape, cells), (down * row, image, column, patches.itemsize)), parts
            )

        seen = remembered(of_rows)
        made = remembered(lambda products: (in_parts(products, parts), *products))

        def write(out: Array) -> None:
            patches, products = seen(copy()), scratch("products", (*shape, channels), out.dtype)
            together, first, second, *others = made(products)
            np.matmul(patches, matrices, out=together)
            total = out.reshape(products.shape[1:])
            np.add(first, second, out=total)
            for more in others:
                np.add(total, more, out=total)

        return write

    return bind


def sums_by_channel(window: Window, shape: Shape, filter: Array, terms: Terms) -> Sums:
    """Return the sums of a filter from x of a shape [N, H, W, C]."""
    channels = filter.shape[3]
    if terms.exact and shape[3] == 1 < channels:  # many filters of one channel are one product
        rows = filter.transpose(3, 1, 2, 0)
        return sums_of(window, shape, rows, np.ascontiguousarray(rows_of(rows).T), terms)
    bytes = channel_filter(filter[0], window, terms) if shape[3] == channels else None
    if bytes is not None:
        return PieceSums(bytes.pieces(window, shape, rows_of_cells=False), finished=True)
    return PieceSums(pieces_by_channel(window, shape, filter, terms))


def pieces_by_channel(window: Window, shape: Shape, filter: Array, terms: Terms) -> list[Piece]:
    """Return the pieces of a depthwise convolution of x of a shape [N, H, W, C]."""
    channels, loop = filter.shape[3], depthwise_loop() if filter.dtype == np.float32 else None
    pixels = pixels_at_once(channels * (1 + math.prod(window.stride)))
    if loop is None and window.stride[1] > 1 and channels <= FEW and math.prod(shape):
        columns = ChannelSums(filter[0], window, beside=True).bind_columns
        return column_pieces(window, shape, terms, pixels, _repeating(channels, columns))
    binding, loops = _by_channel(window, filter, loop), integer_loops()
    if loops is not None and loop is not None and terms.raw and shape[3] == channels:
        blocks = [*row_blocks(window, shape, pixels)]
        return looped_pieces(Margin.of(window, shape, terms, blocks), blocks, binding, loops.place_numbers)
    return window_pieces(window, shape, terms, pixels, _repeating(channels, binding))


def _by_channel(window: Window, filter: Array, loop: Shared | None) -> Binding:
    """Return the sums of a filter [1, KH, KW, C] from images of as many channels."""
    if loop is not None:
        channels = filter.shape[3]
        sums = DepthwiseLoop(loop, window, filter[0], np.zeros(channels, np.float32))
        writing = lru_cache(sums.write)  # of a block, or of blocks that are alike

        def compiled(padded: Array, window: Window) -> Place:
            write = writing(window, padded.shape)
            return lambda out: write(padded, out)

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
    """Return the sums of x, which may be a view, with a bias."""
    result = summed(sums, np.asarray(x, order="C"), (x.shape[0], *window.out, channels), x.dtype)
    return add_bias(result, None if bias is None else long_row(bias))
