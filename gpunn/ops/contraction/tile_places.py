"""The places where the pixels of a convolution see an image, for compiled loops that read its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gpunn.ops.compiled.sharing import Ends, Range, of_both, threads
from gpunn.ops.kernels.strides import all_sums, places_along
from gpunn.ops.kernels.window import Window
from gpunn.ops.kernels.window_parts import cells_seen
from gpunn.types import Array, Shape

PART = 10  # numbers of a part of the loop of real products


class Places(NamedTuple):
    """The places of numbers in flat x: pixel p sees some from pixels[p] + cells[s] on, for each s."""

    pixels: Array
    cells: Array

    def of_tiles(self, steps: int, channels: int) -> tuple[Array, Array]:
        """Return pixels and cells of a Sight of all that pixels see, which have results of so many channels.

        steps: of a filter in each cell.
        """
        results, first = np.arange(len(self.pixels)) * channels, np.arange(len(self.cells)) * steps
        return _pairs(self.pixels, results), _pairs(self.cells, first)


class Sight(NamedTuple):
    """The numbers of flat x that the pixels of some rows of a result see, without the padding around it.

    pixels [P, 2]: a place in x, and that of the results. cells [S, 2]: the place of a cell after that of a
    pixel, and the first of its steps of the filter. parts [K, 5]: the first pixel of those that see the same
    cells and the one behind the last; the first of these cells and the one behind the last; and the numbers
    of a cell that each group sees.
    """

    pixels: Array
    cells: Array
    parts: Array

    def divided(self, shares: Iterable[tuple[Range, Range]], rows: int) -> tuple[Ends, Array]:
        """Return parts of a loop: of each share about its pixels, in tiles of so many rows, and its lanes."""
        parts: list[tuple[int, ...]] = []
        ends = [0]
        for (begin, end), lanes in shares:
            for first, last, *seen in self.parts.tolist():
                cut = [first + whole_tiles(place - first, last - first, rows) for place in (begin, end)]
                if cut[0] < cut[1]:
                    parts.append((*cut, *seen, *lanes, 0, 0, 0))
            ends.append(len(parts))
        return np.array(ends), np.array(parts, np.int64).reshape(-1, PART)


def tile_shares(
    pixels: tuple[int, int], lanes: tuple[int, int], microseconds: float, by_lanes: bool
) -> list[tuple[Range, Range]]:
    """Divide pixels and lanes, so many in steps, among the threads in use.

    microseconds: what all take one thread. by_lanes: threads have lanes of their own, if there are enough,
    and not pixels, as there are more weights than numbers of pixels.
    """
    count, step = lanes
    by_lanes = by_lanes and count > (threads() - 1) * step
    first, second = (lanes, pixels) if by_lanes else (pixels, lanes)
    pairs = product(*of_both(first, second, microseconds))
    return [(b, a) if by_lanes else (a, b) for a, b in pairs]


def whole_tiles(place: int, count: int, rows: int) -> int:
    """Return where near a place to divide so many pixels, so that both parts have none, or whole tiles."""
    if place >= count:
        return count
    near = max(0, place) // rows * rows
    return near if count - near >= rows or near == 0 else count


def sight_of(window: Window, x: Shape, images: range, rows: range, filter: Shape, in_rows: bool) -> Sight:
    """Return what pixels see of x [N, H, W, C], of images and of rows of each result.

    filter: its shape [O, KH, KW, C / groups]. in_rows: all cells in a row of the window are one.
    """
    (_, height, width, depth), (channels, *_, length) = x, filter
    (down, across), row = window.dilation, width * depth
    above, below = _alike(window, 0, height, rows), _alike(window, 1, width, range(window.out[1]))
    pixels, cells, parts, begin, first = [], [], [], 0, 0
    for places_y, numbers_y, seen_y in above:
        for places_x, numbers_x, seen_x in below:
            of_images = np.arange(len(images))
            axes = (images.start + of_images, height * row), (places_y, row), (places_x, depth)
            line = window.out[1] * channels
            results = (of_images, len(rows) * line), (numbers_y, line), (numbers_x, channels)
            pixels.append(_pairs(all_sums(*axes), all_sums(*results)))
            beside = seen_x[:1] if in_rows else seen_x
            steps = (seen_y, window.size[1] * length), (beside, length)
            of_cells = (seen_y - seen_y[:1], down * row), (beside - seen_x[:1], across * depth)
            cells.append(_pairs(all_sums(*of_cells), all_sums(*steps)))
            end, last = begin + len(pixels[-1]), first + len(cells[-1])
            parts.append((begin, end, first, last, length * (len(seen_x) if in_rows else 1)))
            begin, first = end, last
    return Sight(np.concatenate(pixels), np.concatenate(cells), np.array(parts, np.int64))


def count_parts(window: Window, x: Shape) -> int:
    """Return how many parts the Sight of an image of x [N, H, W, C] has."""
    return math.prod(len(_alike(window, axis, x[1 + axis], range(window.out[axis]))) for axis in range(2))


def _alike(window: Window, axis: int, extent: int, chosen: range) -> list[tuple[Array, Array, Array]]:
    """Return the rows of a result, or columns, that see the same cells: where, which, and these cells."""
    begin, first, last = (of_all[chosen.start : chosen.stop] for of_all in cells_seen(window, axis, extent))
    place = begin + first * window.dilation[axis]
    # As one number: numpy's unique() of pairs raises TypeError when Ctrl-C comes.
    ends = first * (window.size[axis] + 1) + last
    groups = [np.flatnonzero(ends == end) for end in np.unique(ends)]
    return [(place[k], k, np.arange(first[k[0]], last[k[0]])) for k in groups]


def seen_by(
    window: Window, images: Array, read: int, row_is_cell: bool, together: int = 1
) -> tuple[Array, Places]:
    """Return images [N, H, W, C] as flat numbers, and where a window that needs no padding sees them.

    images: the first rows of each in their memory. read: how many numbers a loop reads of each cell.
    row_is_cell: all cells in a row of the window are one. together: neighbouring pixels that are one.
    """
    steps = [step // images.itemsize for step in images.strides[:3]]
    places = _places_of(window, len(images), steps, row_is_cell, together)
    size = int(places.pixels[-1] + places.cells[-1]) + read
    return as_strided(images, (size,), (images.itemsize,)), places


def _places_of(window: Window, images: int, steps: Sequence[int], row_is_cell: bool, together: int) -> Places:
    """Return where a window sees images; steps: from one image, row and column to the next."""
    (height, width), (down, across) = window.size, window.dilation
    (image, row, column), (vertical, horizontal), (high, wide) = steps, window.stride, window.out
    cells = places_along((height, down * row), (1 if row_is_cell else width, across * column))
    pixels = wide // together, horizontal * column * together
    return Places(places_along((images, image), (high, vertical * row), pixels), cells)


def _pairs(first: Array, second: Array) -> Array:
    """Return two lists of numbers side by side, as loops take them."""
    return np.stack([first, second], axis=1).astype(np.int32)
