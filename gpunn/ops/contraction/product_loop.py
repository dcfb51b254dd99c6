"""Convolutions and fully connected layers of real numbers on the CPU backend, as a compiled loop.

It multiplies numbers where they lie in the image, without padding, adds the bias and applies an activation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from gpunn.kernel import ceil_div, fits_i32
from gpunn.ops.call import Call
from gpunn.ops.compiled import RealLoops, real_loops
from gpunn.ops.compiled.sharing import Ends, threads
from gpunn.ops.compiled.tiles import VECTORS, in_lanes, packed
from gpunn.ops.contraction.blocks import Place, RowBlock, Terms, pixels_at_once, row_blocks
from gpunn.ops.contraction.pieces import Margin, Piece, looped_pieces, point_pieces
from gpunn.ops.contraction.prepared import InLoop, bound, constants_only
from gpunn.ops.contraction.tile_places import Sight, count_parts, seen_by, sight_of, tile_shares
from gpunn.ops.kernels.window import Window, resolve
from gpunn.ops.memory import aligned
from gpunn.types import Array, Shape

MOST_PACKED = 1 << 22  # weights of a filter: the loop has another copy, in the order of its tiles
MOST_READ_ANEW = 1 << 20  # weights, for pixels that see less of x than others
A_MICROSECOND = 4e4  # products that the loop computes in one, or more
MOST_PARTS = 1 << 6  # of pixels that see the same cells
# Of a tile of one pixel, relative to a pixel of others; and of a copied number, to a step of 32 channels
SINGLE, COPIED, CHANNELS = 4, 0.4, 32


class ProductLoop:
    """The loop for a filter [O, KH, KW, C] of float32 and a bias [O], which applies an activation."""

    def __init__(
        self,
        loops: RealLoops,
        filter: Array,
        bias: Array,
        groups: int,
        activation: InLoop,
        row_is_cell: bool,
    ) -> None:
        loop = loops.of_tiles
        assert loop is not None
        self._shape, self._groups, self._row_is_cell = filter.shape, groups, row_is_cell
        (lanes, pixels), steps = loop.sizes, filter.size // len(filter)
        weights = aligned(packed(filter.reshape(-1, 1, steps), groups, lanes))
        numbers = aligned(in_lanes(bias, groups, lanes))
        self._operands = weights, numbers, (groups, filter.shape[3], steps, lanes, pixels, 0), *activation
        self._loop, self._place_rows = loop.products, loops.place_rows

    def pieces(self, window: Window, shape: Shape, pixels: int) -> list[Piece]:
        """Return the results over the windows of x [N, H, W, C], for about so many pixels at a time."""
        if any((*window.before, *window.after)) and self._copies(window, shape):
            blocks = [*row_blocks(window, shape, pixels)]
            margin = Margin.of(window, shape, Terms(np.dtype(np.float32)), blocks)
            return looped_pieces(margin, blocks, self._bind, self._place_rows)
        return [self._piece(window, shape, block) for block in row_blocks(window, shape, pixels)]

    def _copies(self, window: Window, shape: Shape) -> bool:
        """Tell whether a copy amid padding takes less time than products without padding.

        Pixels that see the same cells have tiles of their own, which read all weights of these, and of few
        pixels each is a tile.
        """
        weights, (channels, *_), rows = math.prod(self._shape), self._shape, self._operands[2][-2]
        if weights > MOST_READ_ANEW or count_parts(window, shape) > MOST_PARTS:
            return True

        def cost(pixels: int, steps: int) -> int:
            tiles = ceil_div(pixels, rows) * rows if pixels >= rows else SINGLE * pixels
            return tiles * steps * ceil_div(channels, CHANNELS)

        parts = sight_of(window, shape, range(1), range(window.out[0]), self._shape, self._row_is_cell).parts
        own = sum(cost(end - begin, (last - first) * length) for begin, end, first, last, length in parts)
        copied = cost(math.prod(window.out), weights // channels) + COPIED * math.prod(shape[1:])
        return own > copied

    def _piece(self, window: Window, shape: Shape, block: RowBlock) -> Piece:
        count, high, wide = block.shape
        begin, row = block.images.start, block.first // wide % window.out[0]
        images, rows = range(begin, begin + count), range(row, row + high)
        sight = sight_of(window, shape, images, rows, self._shape, self._row_is_cell)

        ends, *seen = self._divided(sight)

        def write(x: Array, out: Array) -> None:
            self._loop(ends, x.reshape(-1), *seen, *self._operands, out)

        return Piece(block.first, block.last, write, of_loops=True)

    def _bind(self, padded: Array, window: Window) -> Place:
        """Return what writes the results [N, OH, OW, O] over the windows of an image amid its padding."""
        channels, _, width, depth = self._shape
        length = width * depth if self._row_is_cell else depth
        numbers, places = seen_by(window, padded, self._groups * length, self._row_is_cell)
        pixels, cells = places.of_tiles(length, channels)
        sight = Sight(pixels, cells, np.array([(0, len(pixels), 0, len(cells), length)]))
        ends, *seen = self._divided(sight)

        def write(out: Array) -> None:
            self._loop(ends, numbers, *seen, *self._operands, out.reshape(-1, channels))

        return write

    def _divided(self, sight: Sight) -> tuple[Ends, Array, Array, Array]:
        """Return the parts of the loop for the threads in use, and its operands that say what is seen."""
        weights, numbers, (*_, vector, rows, _), *_ = self._operands
        pixels, lanes = len(sight.pixels), len(numbers)
        kinds, read = ((pixels, rows), (lanes, VECTORS * vector)), self._groups * self._shape[3] * pixels
        shares = tile_shares(*kinds, weights.size * pixels / A_MICROSECOND, read < weights.size)
        ends, parts = sight.divided(shares, rows)
        return ends, sight.pixels, sight.cells, parts


def product_pieces(
    call: Call, window: Window, loops: RealLoops, filter: Array, bias: Array, activation: InLoop
) -> list[Piece] | None:
    """Return the results of a convolution with a filter [O, KH, KW, C] that is a constant, and a bias [O].

    None for very many weights.
    """
    if not _suits(call, loops, filter):
        return None
    depth = call.x.shape[-1]
    groups = depth // filter.shape[3]
    product = ProductLoop(loops, filter, bias, groups, activation, groups == 1 == window.dilation[1])
    at_once = pixels_at_once(max(depth * math.prod(window.stride), len(filter)))
    return product.pieces(window, call.x.shape, at_once * threads())


def bound_rows(call: Call, filter: Array, bias: Array | None) -> Callable[[Array], Array] | None:
    """Return a fully connected layer with a filter [O, C] as a function of x; None without a loop."""
    (channels, depth), rows, loops = filter.shape, math.prod(call.y.shape[:-1]), real_loops()
    if loops is None or not _suits(call, loops, filter):
        return None
    window = resolve((rows, 1), (1, 1), (1, 1), (1, 1), "valid")

    def in_tiles(loops: RealLoops, filter: Array, bias: Array, activation: InLoop) -> list[Piece]:
        product = ProductLoop(loops, filter[:, None, None], bias, 1, activation, row_is_cell=True)
        return product.pieces(window, (1, rows, 1, depth), pixels_at_once(max(depth, channels)))

    pieces = partial(point_pieces, pixels=rows, seen=None, constant=True)
    return bound(call, pieces, filter, bias, in_tiles)


def _suits(call: Call, loops: RealLoops, filter: Array) -> bool:
    """Tell whether there is a loop for a constant filter of reals; not for what is very large."""
    if loops.of_tiles is None or filter.dtype != np.float32 or not constants_only(call):
        return False
    return fits_i32(call.x.size, call.y.size) and 0 < filter.size <= MOST_PACKED
