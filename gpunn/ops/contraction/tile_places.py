"""The places where the pixels of a convolution see an image, for compiled loops that read its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from numpy.lib.stride_tricks import as_strided

from gpunn.ops.kernels.strides import places_along
from gpunn.ops.kernels.window import Window
from gpunn.types import Array


class Places(NamedTuple):
    """The places of numbers in flat x: pixel p sees some from pixels[p] + cells[s] on, for each s."""

    pixels: Array
    cells: Array


def seen_by(
    window: Window, images: Array, read: int, row_is_cell: bool = False, together: int = 1
) -> tuple[Array, Places]:
    """Return images [N, H, W, C] as flat numbers, and where a window that needs no padding sees them.

    images: the first rows of each in their memory. read: how many numbers a loop reads of each cell.
    row_is_cell: all cells in a row of the window are one. together: neighbouring pixels that are one.
    """
    steps = [step // images.itemsize for step in images.strides[:3]]
    places = places_of(window, len(images), steps, row_is_cell, together)
    size = int(places.pixels[-1] + places.cells[-1]) + read
    return as_strided(images, (size,), (images.itemsize,)), places


def places_of(
    window: Window, images: int, steps: Sequence[int], row_is_cell: bool = False, together: int = 1
) -> Places:
    """Return where a window sees images; steps: from one image, row and column to the next."""
    (height, width), (down, across) = window.size, window.dilation
    (image, row, column), (vertical, horizontal), (high, wide) = steps, window.stride, window.out
    cells = places_along((height, down * row), (1 if row_is_cell else width, across * column))
    pixels = wide // together, horizontal * column * together
    return Places(places_along((images, image), (high, vertical * row), pixels), cells)
