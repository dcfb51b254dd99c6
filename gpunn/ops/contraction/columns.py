"""Copies of what each column of a window sees, side by side: sums over windows with a stride, on the host.

numpy works on long rows in less time, and without a stride the windows of neighbouring pixels lie side by
side. So each column of the window gets a copy of every so many pixels of the image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.contraction.blocks import Binding, RowBlock, Terms, row_blocks
from gpunn.ops.contraction.pieces import Piece, most_rows, pieces_in, remembered
from gpunn.ops.kernels.window import Window
from gpunn.ops.memory import scratch, together
from gpunn.types import Array, Shape

FEW_CAST = 48  # channels of stored integers, whose short rows numpy casts slowly
SMALL_CAST = 1 << 16  # integers, for which one cast takes less time than one for each copy

# A copy, the same with pixels as elements, and the pixel of the image that it begins at.
Target = tuple[Array, Array, int]


class _Known(NamedTuple):
    """Columns of a window that see pixels of the image, and no padding, for the same pixels of the result.

    columns: of the window. pixels: of the result; for the first of them the first column sees pixel `first`.
    """

    columns: slice
    pixels: slice
    first: int


class _Columns(NamedTuple):
    """Images as copies [N, H, KW, OW, C] for each column of a window. width: of an image."""

    shape: Shape
    terms: Terms
    width: int
    stride: int
    dilation: int
    known: tuple[_Known, ...]

    @classmethod
    def of(cls, window: Window, shape: Shape, terms: Terms, blocks: Sequence[RowBlock]) -> _Columns:
        """Return the layout of blocks of x [N, H, W, C]."""
        size, stride, dilation, out = (
            n[1] for n in (window.size, window.stride, window.dilation, window.out)
        )
        width, channels = shape[2:]
        starts = [column * dilation - window.before[1] for column in range(size)]

        def reaching(start: int, pixel: int) -> int:
            return min(max(0, ceil_div(pixel - start, stride)), out)

        spans = [(reaching(start, 0), reaching(start, width)) for start in starts]
        known = []
        for (first, last), found in groupby(range(size), spans.__getitem__):
            columns = [*found]
            at = starts[columns[0]] + first * stride
            known.append(_Known(slice(columns[0], columns[-1] + 1), slice(first, last), at))
        memory = (*most_rows(blocks), size, out, channels)
        return cls(memory, terms, width, stride, dilation, tuple(known))

    def bind(self, memory: Array, block: RowBlock) -> tuple[list[Array], Callable[[Array], None]]:
        """Return the padding in the memory of a block, and what writes the terms of dense x [N, H, W, C]."""
        (above, below), pixel = block.inside, together(memory.dtype, self.shape[4])
        around, targets = [memory[:, :above], memory[:, below:]], []
        for known in self.known:
            part, pixels = memory[:, :, known.columns], known.pixels
            around += [part[:, :, :, : pixels.start], part[:, :, :, pixels.stop :]]
            target = part[:, above:below, :, pixels]
            if target.size:
                targets.append((target, target.view(pixel), known.first))
        return [part for part in around if part.size], self._writer(targets, block)

    def _writer(self, targets: list[Target], block: RowBlock) -> Callable[[Array], None]:
        """Return what writes the terms of x to copies."""
        terms, images, rows = self.terms, block.images, block.known
        shape = (block.memory[0], rows.stop - rows.start, self.width, self.shape[4])
        first = shape[3] < FEW_CAST or math.prod(shape) <= SMALL_CAST
        seen = remembered(lambda dense: [*self._seen(targets, dense, 0, 0)])

        def write(x: Array) -> None:
            if x.dtype == terms.dtype:
                for target, part in self._seen(targets, x, images.start, rows.start):
                    target[...] = part
            elif first:
                dense = scratch("terms", shape, terms.dtype)
                terms.write(x if x.shape == shape else x[images, rows], dense)
                for target, part in seen(dense):
                    target[...] = part
            else:
                for target, part in self._seen(targets, x, images.start, rows.start):
                    terms.write(part, target)

        return write

    def _seen(self, targets: list[Target], x: Array, image: int, row: int) -> Iterator[tuple[Array, Array]]:
        """Yield copies, and what they see of dense x from an image and a row on; terms as whole pixels."""
        same, (batch, down, right, _) = x.dtype == self.terms.dtype, x.strides
        start = image * batch + row * down
        for numbers, pixels, first in targets:
            target = pixels if same else numbers
            dtype = target.dtype if same else x.dtype
            steps = batch, down, self.dilation * right, self.stride * right, dtype.itemsize
            yield target, np.ndarray(target.shape, dtype, x, start + first * right, steps)


def column_pieces(window: Window, shape: Shape, terms: Terms, pixels: int, sums: Binding) -> list[Piece]:
    """Return sums over the windows of x [N, H, W, C], for about so many pixels of the result at a time.

    sums: reads copies for each column of the window [N, H, KW, OW, C].
    """
    blocks = list(row_blocks(window, shape, pixels))
    return pieces_in(_Columns.of(window, shape, terms, blocks), blocks, sums)
