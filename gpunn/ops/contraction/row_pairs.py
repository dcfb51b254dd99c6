"""Exact convolutions of integers on the host in two thirds of the multiplications: Winograd's F(2, 3).

Two neighbouring rows of the result see four rows d of the image. Where g are the three rows of the filter,
the first one is m0 + m1 + m2, and the second one is m1 - m2 - m3, of

    m0 = (d0 - d2) g0
    m1 = (d1 + d2) (g0 + g1 + g2) / 2
    m2 = (d2 - d1) (g0 - g1 + g2) / 2
    m3 = (d1 - d3) g2

Along the columns these are sums over windows as always. All numbers are multiples of 1/2, so float32 has them
as they are up to 2^23. m1 + m2 and m1 - m2 are sums of products of d1 and d2 with g1 and g0 + g2: integers,
no larger than the largest sums of the convolution. Lavin and Gray, Fast Algorithms for Convolutional Neural
Networks, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.contraction.blocks import Binding, Place, RowBlock, Terms, equal_parts, in_parts, row_blocks
from gpunn.ops.contraction.patches import patches_of
from gpunn.ops.contraction.pieces import MOST_WEIGHTS, Margin, Piece, pieces_in, remembered
from gpunn.ops.kernels.window import Window
from gpunn.ops.memory import aligned, scratch
from gpunn.types import Array, Shape

EXACT = 2**23  # up to which float32 has all multiples of 1/2
FEWEST_CHANNELS = 24  # of image and result, with which copies and sums take less time than multiplications
_ROWS = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], np.float32)


def row_pair_pieces(
    window: Window, shape: Shape, size: Shape, matrix: Array, terms: Terms, pixels: int
) -> list[Piece] | None:
    """Return sums of a filter of integers over the windows of x [N, H, W, I].

    size: of the filter, [O, 3, KW, I]. matrix: its weights [3 * KW * I, O]. None where the window or the
    filter is another one, where float32 might round, for an odd number of rows, and for so many weights that
    another copy is not worth its memory.
    """
    channels, height, width, depth = size
    if height != 3 or window.stride != (1, 1) or window.dilation[0] != 1 or not terms.exact:
        return None
    if min(channels, depth) < FEWEST_CHANNELS or shape[3] != depth or terms.dtype != np.float32:
        return None
    if matrix.size > MOST_WEIGHTS:
        return None
    rows = (_ROWS @ matrix.reshape(height, width * depth * channels)).reshape(4, width * depth, channels)
    largest = 2 * terms.most * float(np.abs(rows).sum(axis=1, dtype=np.float64).max())  # in any order
    if not 0 < largest < EXACT:
        return None
    for count in (pixels, pixels + window.out[1]):  # a row more
        blocks = list(row_blocks(window, shape, count))
        if not any(block.window.out[0] % 2 for block in blocks):
            layout = _Parities.of(window, shape, terms, blocks)
            return pieces_in(layout, blocks, _row_pairs(aligned(rows), width))
    return None


class _Parities(NamedTuple):
    """Images whose even rows come first, then the odd ones; their `columns` lie between the padding."""

    shape: Shape
    columns: slice
    terms: Terms

    @classmethod
    def of(cls, window: Window, shape: Shape, terms: Terms, blocks: Sequence[RowBlock]) -> _Parities:
        """Return the layout of blocks of x [N, H, W, C]."""
        margin = Margin.of(window, shape, terms, blocks)
        return cls(margin.shape, margin.columns, terms)

    def bind(self, memory: Array, block: RowBlock) -> tuple[list[Array], Callable[[Array], None]]:
        """Return the padding in the memory of a block, and what writes the terms of dense x [N, H, W, C]."""
        columns, write, middle = self.columns, self.terms.write, memory.shape[1] // 2
        around, targets = [memory[:, :, : columns.start], memory[:, :, columns.stop :]], []
        for odd, rows in enumerate((memory[:, :middle], memory[:, middle:])):
            first, last = (ceil_div(row - odd, 2) for row in block.inside)
            around += [rows[:, :first], rows[:, last:]]
            targets.append((rows[:, first:last, columns], 2 * first + odd - block.inside[0]))

        def write_terms(x: Array) -> None:
            part = x[block.images, block.known]
            for target, start in targets:
                write(part[:, start::2], target)

        return [part for part in around if part.size], write_terms


def _row_pairs(rows: Array, width: int) -> Binding:
    """Return the sums over windows of so many columns, by products with rows [4, KW * I, O]."""
    _, cells, channels = rows.shape
    depth = cells // width
    matrices = rows[:, None, None]

    def bind(memory: Array, window: Window) -> Place:
        images, extent, wide, _ = memory.shape
        (count, across), middle = window.out, extent // 2
        pairs, pixels = count // 2, count // 2 * across
        lines = memory.reshape(images, extent, wide * depth)
        even, odd = lines[:, :middle], lines[:, middle:]
        first, second, third, fourth = even[:, :pairs], odd[:, :pairs], even[:, 1:], odd[:, 1:]
        of_row = replace(window, size=(1, width), out=(pairs, across))
        parts = equal_parts(pixels, cells * channels)

        def copies(seen: Array) -> tuple[Array, Array, Array, Array, Callable[[], Array]]:
            copy = patches_of(seen.reshape(4 * images, pairs, wide, depth), of_row)
            return seen[0], seen[1], seen[2], seen[3], copy

        def split(products: Array) -> tuple[Array, ...]:
            shape = 5, images, pairs, across * channels
            return in_parts(products[:4], parts), *products.reshape(shape)

        made, sums = remembered(copies), remembered(split)
        taken = remembered(lambda patches: in_parts(patches.reshape(4, images, pixels, cells), parts))

        def write(out: Array) -> None:
            dtype = memory.dtype
            one, two, three, four, copy = made(scratch("row pairs", (4, *first.shape), dtype))
            np.subtract(first, third, out=one)
            np.add(second, third, out=two)
            np.subtract(third, second, out=three)
            np.subtract(second, fourth, out=four)
            patches = taken(copy())
            room = scratch("products", (5, images, pixels, channels), dtype)
            products, one, two, three, four, total = sums(room)
            np.matmul(patches, matrices, out=products)
            results = out.reshape(images, pairs, 2, across * channels)
            np.add(two, three, out=total)
            np.add(one, total, out=results[:, :, 0])
            np.subtract(two, three, out=total)
            np.subtract(total, four, out=results[:, :, 1])

        return write

    return bind
