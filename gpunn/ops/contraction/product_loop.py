"""Convolutions and fully connected layers of real numbers on the CPU backend, as a compiled loop.

It multiplies numbers where they lie in the image, and adds the bias and clamps the sums in registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import OfReals, RealLoops, real_loops
from gpunn.ops.compiled.tiles import in_lanes, packed
from gpunn.ops.contraction.blocks import Place, Terms, pixels_at_once
from gpunn.ops.contraction.pieces import Piece, point_pieces, ranges, window_pieces
from gpunn.ops.contraction.prepared import InLoop, bound, constants_only
from gpunn.ops.contraction.tile_places import Places, places_of, seen_by
from gpunn.ops.kernels.window import Window, resolve
from gpunn.ops.memory import aligned
from gpunn.types import Array, Shape

MOST_WEIGHTS = 1 << 22  # of a filter: the loop has another copy, in the order of its tiles


class ProductLoop:
    """The loop for a filter [O, KH, KW, C] of float32 and a bias [O], which applies an activation."""

    def __init__(
        self, loop: OfReals, filter: Array, bias: Array, groups: int, activation: InLoop, row_is_cell: bool
    ) -> None:
        channels, _, width, depth = filter.shape
        lanes, pixels = loop.sizes
        length, self._row_is_cell = (width * depth if row_is_cell else depth), row_is_cell
        self._read = groups * length
        weights = aligned(packed(filter.reshape(channels, -1, length), groups, lanes))
        numbers = aligned(in_lanes(bias, groups, lanes))
        self._operands = weights, numbers, (groups, length, lanes, pixels), *activation
        self._loop = loop.products

    def pieces(self, window: Window, shape: Shape, pixels: int) -> list[Piece]:
        """Return the results over the windows of x [N, H, W, C], for about so many pixels at a time."""
        if any((*window.before, *window.after)):
            return window_pieces(window, shape, Terms(np.dtype(np.float32)), pixels, self._bind)
        _, height, width, depth = shape
        steps = height * width * depth, width * depth, depth
        places = places_of(window, shape[0], steps, self._row_is_cell)
        return [self._piece(places, *ends) for ends in ranges(len(places.pixels), pixels)]

    def _piece(self, places: Places, first: int, last: int) -> Piece:
        pixels = places.pixels[first:last]

        def write(x: Array, out: Array) -> None:
            self._loop(x.reshape(-1), pixels, places.cells, *self._operands, out)

        return Piece(first, last, write)

    def _bind(self, padded: Array, window: Window) -> Place:
        """Return what writes the results [N, OH, OW, O] over the windows of an image."""
        numbers, places = seen_by(window, padded, self._read, self._row_is_cell)

        def write(out: Array) -> None:
            self._loop(numbers, *places, *self._operands, out.reshape(-1, out.shape[-1]))

        return write


def product_pieces(
    call: Call, window: Window, loops: RealLoops, filter: Array, bias: Array, activation: InLoop
) -> list[Piece] | None:
    """Return the results of a convolution with a filter [O, KH, KW, C] that is a constant, and a bias [O].

    None for few pixels or many weights.
    """
    loop = _loop_for(call, loops, filter, math.prod(call.y.shape[:-1]))
    if loop is None:
        return None
    depth = call.x.shape[-1]
    groups = depth // filter.shape[3]
    product = ProductLoop(loop, filter, bias, groups, activation, groups == 1 == window.dilation[1])
    at_once = pixels_at_once(max(depth * math.prod(window.stride), len(filter)))
    return product.pieces(window, call.x.shape, at_once)


def bound_rows(call: Call, filter: Array, bias: Array | None) -> Callable[[Array], Array] | None:
    """Return a fully connected layer with a filter [O, C] as a function of x; None without a loop."""
    (channels, depth), rows, loops = filter.shape, math.prod(call.y.shape[:-1]), real_loops()
    loop = None if loops is None else _loop_for(call, loops, filter, rows)
    if loop is None:
        return None
    window = resolve((rows, 1), (1, 1), (1, 1), (1, 1), "valid")

    def in_tiles(_: RealLoops, filter: Array, bias: Array, activation: InLoop) -> list[Piece]:
        product = ProductLoop(loop, filter[:, None, None], bias, 1, activation, row_is_cell=True)
        return product.pieces(window, (1, rows, 1, depth), pixels_at_once(max(depth, channels)))

    pieces = partial(point_pieces, pixels=rows, seen=None, constant=True)
    return bound(call, pieces, filter, bias, in_tiles, threads=True)


def _loop_for(call: Call, loops: RealLoops, filter: Array, pixels: int) -> OfReals | None:
    """Return the loop for a constant filter of reals; None for others, few pixels or many weights."""
    loop = loops.of_tiles
    if loop is None or filter.dtype != np.float32 or not constants_only(call):
        return None
    return loop if pixels >= loop.sizes.pixels and 0 < filter.size <= MOST_WEIGHTS else None
