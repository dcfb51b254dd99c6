"""Convolutions of real numbers on the host, piece by piece.

A piece is some pixels of the result. Its bias and its activation follow its sums at once, while these are in
the CPU's cache. What a piece needs is made ready once: views of memory that a run uses again and again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.compiled import Shared
from gpunn.ops.compiled.sharing import OF_COPIES, rows_divided
from gpunn.ops.contraction.blocks import (
    HIGHEST_BIT,
    KEPT_BYTES,
    SMALL_PRODUCT,
    AtOnce,
    Binding,
    Block,
    Place,
    Room,
    RowBlock,
    Terms,
    early_product,
    in_halves,
    pixels_at_once,
    row_blocks,
)
from gpunn.ops.kernels.window import Window
from gpunn.ops.memory import aligned, scratch
from gpunn.types import Array, Shape

MOST_WEIGHTS = 1 << 20  # of a filter for which another copy is worth its memory
FEWEST_OF_PIECE = 96  # of such a product, of which several are worth what is around each call
# Numbers in a row of biases, as many as numpy's buffers have: shorter ones would be copied there before a sum
BIAS_ROW = 1 << 13

Write = Callable[[Array, Array], None]  # computes from x, into some pixels [P, C] of the result
_Made = TypeVar("_Made")


class Piece(NamedTuple):
    """The pixels of the result from `first` to `last`, and what writes their sums.

    of_loops: it does nothing but call shared loops.
    """

    first: int
    last: int
    write: Write
    of_loops: bool = False


def point_pieces(rows: Array, pixels: int, seen: tuple[slice, ...] | None, constant: bool) -> list[Piece]:
    """Return products of pixels with a filter [O, K].

    seen: which pixels of x these are, None for all. constant: the filter is the same in each run.
    """
    channels, depth = rows.shape
    matrix, shape = filter_matrix(rows, constant, pixels), (pixels, depth)
    half = ceil_div(pixels, 2) if in_halves(pixels, rows.size) else 0
    multiply = early_product(depth)

    def write(x: Array, out: Array) -> None:
        terms = (np.ascontiguousarray(x[seen]) if seen else x).reshape(shape)
        if half:
            multiply(terms[:half], matrix, out=out[:half])
            multiply(terms[half:], matrix, out=out[half:])
        else:
            multiply(terms, matrix, out=out)

    def write_part(first: int, last: int) -> Write:
        def write(x: Array, out: Array) -> None:
            multiply(x.reshape(shape)[first:last], matrix, out=out)

        return write

    step = pixels if seen else product_rows(pixels, depth, channels)
    if step == pixels:
        return [Piece(0, pixels, write)]
    return [Piece(first, last, write_part(first, last)) for first, last in ranges(pixels, step)]


def filter_matrix(rows: Array, constant: bool, pixels: int) -> Array:
    """Return a filter [O, K] as a matrix [K, O]; a constant one becomes dense, which BLAS reads sooner.

    For a single pixel it does so unless O is small.
    """
    if not constant or rows.size > MOST_WEIGHTS:
        return rows.T
    faster = pixels > 1 or 2 * len(rows) >= rows.shape[1]
    return aligned(rows.T) if faster else aligned(rows).T


def product_rows(pixels: int, depth: int, channels: int) -> int:
    """Return how many rows of a product [pixels, depth] x [depth, channels] are computed at a time."""
    small = SMALL_PRODUCT // max(1, depth * channels)
    most = small if small >= FEWEST_OF_PIECE else pixels_at_once(max(depth, channels))
    return ceil_div(pixels, ceil_div(pixels, most) or 1)


def ranges(count: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield the ends of parts of a count, of so many each."""
    for first in range(0, count, max(1, step)):
        yield first, min(count, first + step)


class PieceSums:
    """The sums of pieces."""

    def __init__(self, pieces: list[Piece], finished: bool = False) -> None:
        self._pieces, self.finished = pieces, finished
        self.of_loops = all(piece.of_loops for piece in pieces)

    def __call__(self, x: Array, room: Room) -> Iterator[Block]:
        """Write the sums of x where `room` says."""
        for piece in self._pieces:
            found = room(piece.first, piece.last)
            piece.write(x, found)
            yield piece.first, piece.last, found

    def at_once(self, pixels: int) -> AtOnce | None:
        """Return what writes all sums, if they are one piece."""
        return self._pieces[0].write if len(self._pieces) == 1 else None


def window_pieces(window: Window, shape: Shape, terms: Terms, pixels: int, sums: Binding) -> list[Piece]:
    """Return sums over the windows of x [N, H, W, C], for about so many pixels of the result at a time."""
    blocks = list(row_blocks(window, shape, pixels))
    if not terms.exact and not any((*window.before, *window.after)):
        return [Piece(b.first, b.last, _without_padding(b, sums)) for b in blocks]
    return pieces_in(Margin.of(window, shape, terms, blocks), blocks, sums)


def _without_padding(block: RowBlock, sums: Binding) -> Write:
    def write(x: Array, out: Array) -> None:
        part = x[block.images, block.known.start :]  # dense, as several images have all their rows
        sums(part, block.window)(out.reshape(block.shape + out.shape[1:]))

    return write


class Layout(Protocol):
    """The way in which the terms of blocks of images lie in memory, with padding around them."""

    @property
    def shape(self) -> Shape:
        """Return the shape of memory for every block: images, rows and more."""

    @property
    def terms(self) -> Terms:
        """Return the way from elements to terms."""

    def bind(self, memory: Array, block: RowBlock) -> tuple[list[Array], Callable[[Array], None]]:
        """Return the padding in the memory of a block, and what writes the terms of dense x [N, H, W, C]."""


class Margin(NamedTuple):
    """Images of so many rows as they are; their `columns` lie between the padding."""

    shape: Shape
    columns: slice
    terms: Terms
    height: int

    @classmethod
    def of(cls, window: Window, shape: Shape, terms: Terms, blocks: Sequence[RowBlock]) -> Margin:
        """Return the layout of blocks of x [N, H, W, C]."""
        left, width = window.before[1], shape[2]
        columns = left + width + window.after[1]
        return cls((*most_rows(blocks), columns, shape[3]), slice(left, left + width), terms, shape[1])

    def rows(self, block: RowBlock, each: int = 1) -> tuple[Array, tuple[int, int, int]]:
        """Return where rows of the memory of a block begin in x, and sizes, as place_rows() takes them.

        each: bytes of an element; 1 to count elements.
        """
        (_, rows, columns, depth), (above, below) = self.shape, block.inside
        ends = self.columns.start, self.columns.stop - self.columns.start, columns
        before, width, whole = (end * depth * each for end in ends)
        known = np.arange(rows) - above
        places = (np.arange(block.images.start, block.images.stop)[:, None] * self.height + known) * width
        inside = (known >= 0) & (known < below - above)
        return np.where(inside, places + block.known.start * width, -1).reshape(-1), (before, width, whole)

    def bind(self, memory: Array, block: RowBlock) -> tuple[list[Array], Callable[[Array], None]]:
        (above, below), columns, write = block.inside, self.columns, self.terms.write
        sides = (
            memory[:, :above],
            memory[:, below:],
            memory[:, :, : columns.start],
            memory[:, :, columns.stop :],
        )
        middle = memory[:, above:below, columns]

        def write_terms(x: Array) -> None:
            write(x if middle.shape == x.shape else x[block.images, block.known], middle)

        return [part for part in sides if part.size], write_terms


def most_rows(blocks: Sequence[RowBlock]) -> tuple[int, int]:
    """Return the images and rows of memory that blocks need, one after the other."""
    images, rows = (max((b.memory[k] for b in blocks), default=0) for k in range(2))
    return images, rows


def pieces_in(layout: Layout, blocks: Sequence[RowBlock], sums: Binding) -> list[Piece]:
    """Return the sums of blocks whose terms are written in a layout; `sums` reads them there."""
    alone = len(blocks) == 1
    return [Piece(b.first, b.last, _padding(b, layout, alone, sums)) for b in blocks]


def _padding(block: RowBlock, layout: Layout, alone: bool, sums: Binding) -> Write:
    """Return what writes the terms of a block of x amid padding, and their sums.

    alone: no other block of the operation writes into the memory. Then that of a small image belongs to all
    operations with the same padding, so this stays. Large ones share what is in the cache, and fill it.
    """
    (images, reach), terms = block.memory, layout.terms
    shape, dtype, value = layout.shape, terms.dtype, terms.around
    stays = alone and math.prod(shape) * dtype.itemsize <= KEPT_BYTES
    name = f"padded {value} {dtype} {layout} {block.inside}" if stays else "padded"

    def bind(memory: Array) -> tuple[Callable[[Array], None], Sequence[Array], Place]:
        padded = memory[:images, :reach]
        around, write_terms = layout.bind(padded, block)
        if stays:
            for part in around:
                part.fill(value)
            around = []
        return write_terms, around, sums(padded, block.window)

    bound = remembered(bind)

    def write(x: Array, out: Array) -> None:
        write_terms, around, place = bound(scratch(name, shape, dtype))
        for part in around:
            part.fill(value)
        write_terms(x)
        place(out.reshape(block.shape + out.shape[1:]))

    return write


def looped_pieces(margin: Margin, blocks: Sequence[RowBlock], sums: Binding, loop: Shared) -> list[Piece]:
    """Return pieces_in() by shared loops alone: `loop` places rows, and `sums` calls other ones.

    loop: place_numbers() where float32 is made of stored integers, else place_rows(). Elements are terms
    then, or int8 that becomes uint8, and padding of reals is 0.
    """
    return [Piece(b.first, b.last, _placed(b, margin, sums, loop), of_loops=True) for b in blocks]


def _placed(block: RowBlock, margin: Margin, sums: Binding, loop: Shared) -> Write:
    (images, reach), terms = block.memory, margin.terms
    numbers = terms.exact and terms.dtype == np.float32
    places, sizes = margin.rows(block, 1 if numbers else terms.dtype.itemsize)
    ends = rows_divided(len(places), len(places) * sizes[-1], each=OF_COPIES)
    operands: tuple[Any, ...] = places, sizes, terms.around, int(HIGHEST_BIT) if terms.turned else 0
    if numbers:
        operands = places, sizes, np.float32(terms.around)

    def bind(memory: Array) -> tuple[Array, Place]:
        flat = memory.reshape(-1)
        return flat if numbers else flat.view(np.uint8), sums(memory[:images, :reach], block.window)

    bound = remembered(bind)

    def write(x: Array, out: Array) -> None:
        flat, place = bound(scratch("padded", margin.shape, terms.dtype))
        loop(ends, x.reshape(-1) if numbers else x.reshape(-1).view(np.uint8), *operands, flat)
        place(out.reshape(block.shape + out.shape[1:]))

    return write


def remembered(make: Callable[[Array], _Made]) -> Callable[[Array], _Made]:
    """Return a function that makes something of an array, and keeps it until another array comes."""
    known: list[tuple[Array, _Made]] = []

    def get(array: Array) -> _Made:
        for before, made in known:
            if before is array:
                return made
        found = make(array)
        known[:] = [(array, found)]
        return found

    return get


def bias_adder(bias: Array, pixels: int) -> Callable[[Array], None]:
    """Return what adds a bias [C] to dense sums [pixels, C]."""
    channels = len(bias)
    together = min(pixels, ceil_div(BIAS_ROW, max(1, channels)))
    row = np.tile(bias, together)
    if together == pixels:
        whole = row.reshape(pixels, channels)

        def add_at_once(part: Array) -> None:
            np.add(part, whole, out=part)

        return add_at_once
    shape = pixels // together, together * channels
    rest = row[: pixels * channels - shape[0] * shape[1]]

    def add(part: Array) -> None:
        numbers = part.reshape(-1)
        rows = numbers[: shape[0] * shape[1]].reshape(shape)
        np.add(rows, row, out=rows)
        if rest.size:
            behind = numbers[-rest.size :]
            np.add(behind, rest, out=behind)

    return add
