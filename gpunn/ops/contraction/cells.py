"""Convolutions to few channels: a product for each cell of the window, then sums of shifted pixels.

Tiles of products are made for more channels than the three of a picture: most of such a tile is computed in
vain. So the cells of a window become channels of one product. Where the window has many, only those of its
rows do, and the product goes along its columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from gpunn.device import SUBGROUPS
from gpunn.kernel import (
    Candidate,
    Kernel,
    Pack,
    Read,
    Scratch,
    Write,
    ceil_div,
    fits_i32,
    flat_threads,
    nested,
)
from gpunn.ops.call import Call
from gpunn.ops.contraction.broadcast_tile import ByTile, channels_together, completed, measured, shared_sums
from gpunn.ops.contraction.filter_packing import block_extents, pack_blocks
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.kernels.tiling import COLUMNS, WORKGROUP
from gpunn.ops.kernels.window import Window, window_params
from gpunn.types import Array, DType, TensorType

_MOST_BYTES = 64 << 20  # of the products
_LOAD = ByTile(35, 35, 90)  # products in shared rows that take as long as one that is loaded and added
_IN_REGISTERS = ByTile(2, 2, 4.2)  # products in shared rows that take as long as one in register tiles
_MOST_LOADS = 25  # that are written out
# Of what is estimated, over tiles of all channels: less does not make up for a pipeline, or is not tried.
_GAIN, _LEAST_GAIN = 1.5, 1


def with_cells(call: Call, window: Window, others: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield ways for one group and a constant filter: products of cells first where they are quicker.

    Where they may be, they come last.
    """
    ways = [_Way(call, window, rows) for rows in (1, window.size[0])]
    best = min(ways, key=lambda way: way.cost)
    real = call.x.dtype is call.y.dtype is DType.FLOAT32 and call.y.size > 0
    possible = real and measured(call.device) and best.fits
    if not possible or _LEAST_GAIN * best.cost >= best.cost_in_tiles:
        yield from others
        return
    name = "products of cells, and sums of shifted pixels"
    own = [Candidate(_kernels(best, name), name, frozenset({SUBGROUPS}))]
    yield from chain(own, others) if _GAIN * best.cost < best.cost_in_tiles else chain(others, own)


class _Way(NamedTuple):
    """rows: those of the window that one product goes along, 1 or all. The others are channels of it."""

    call: Call
    window: Window
    rows: int

    @property
    def along(self) -> Window:
        """Return the window of the products."""
        height, width = self.call.x.shape[1], self.call.x.shape[2]
        if self.rows == 1:
            return Window((1, 1), (1, 1), (1, 1), (0, 0), (0, 0), (height, width))
        w = self.window
        down = (w.before[0], 0), (w.after[0], 0), (w.out[0], width)
        return Window((self.rows, 1), (w.stride[0], 1), (w.dilation[0], 1), *down)

    @property
    def across(self) -> Window:
        """Return the window of the sums."""
        if self.rows == 1:
            return self.window
        w = self.window
        right = (0, w.before[1]), (0, w.after[1]), w.out
        return Window((1, w.size[1]), (1, w.stride[1]), (1, w.dilation[1]), *right)

    @property
    def channels(self) -> int:
        """Count the channels of the products: of all cells, one cell behind the other."""
        return math.prod(self.across.size) * self.call.y.shape[3]

    @property
    def products(self) -> TensorType:
        """Return the type of the products."""
        return TensorType(DType.FLOAT32, (self.call.x.shape[0], *self.along.out, self.channels))

    @property
    def fits(self) -> bool:
        """Tell whether there is room for the products."""
        return self.products.nbytes <= _MOST_BYTES and fits_i32(self.call.x.size, self.products.size)

    @property
    def cost(self) -> float:
        """Estimate products in shared rows that take as long."""
        pixels, depth = math.prod(self.products.shape[:3]), self.rows * self.call.x.shape[3]
        sums = self.call.y.size * math.prod(self.across.size)
        channels = ceil_div(self.channels, self._together) * self._together
        return pixels * depth * channels + _LOAD.on(self.call.device) * sums

    @property
    def cost_in_tiles(self) -> float:
        """Estimate the same for shared rows, or for register tiles, which take at least twice as long."""
        channels, terms = self.call.y.shape[3], math.prod(self.call.input(1).shape[1:])
        full = ceil_div(channels, self._together) * self._together
        computed = min(full, _IN_REGISTERS.on(self.call.device) * ceil_div(channels, COLUMNS) * COLUMNS)
        return math.prod(self.call.y.shape[:3]) * terms * computed

    @property
    def _together(self) -> int:
        return channels_together(self.call.device)


def pack_cells(filter: Array, rows: int) -> Array:
    """Pack [O, KH, KW, I] by blocks, as a filter of channels (KH / rows, KW, O) and depth (rows, I)."""
    channels, height, width, depth = filter.shape
    cells = filter.reshape(channels, height // rows, rows, width, depth).transpose(1, 3, 0, 2, 4)
    return pack_blocks(cells.reshape(-1, rows * depth))


def _kernels(way: _Way, name: str) -> tuple[Kernel, Kernel]:
    """Make the kernel of the products, and the one of their sums."""
    call, depth, window = way.call, way.call.x.shape[3], way.across
    products = Scratch(way.products)
    channels, terms = block_extents(way.channels, way.rows * depth)
    w = Read("w", 1, 4, Pack(pack_cells, (way.rows,)), nbytes=4 * channels * terms)
    alone = replace(call, outputs=(products.type,), attrs={})
    multiply = completed(alone, shared_sums(alone, way.along, depth, (w, Read("bias", None))))
    multiply = replace(multiply, writes=(replace(multiply.writes[0], output=products),))
    down = window.dilation[0] * way.products.shape[2] * way.channels + window.size[1] * call.y.shape[3]
    add = Kernel(
        body="add_cells",
        threads=flat_threads(call.y.size),
        workgroup=WORKGROUP,
        reads=(Read("products", products), Read("bias", 2 if call.has(2) else None)),
        writes=(Write(),),
        params={
            **window_params(window, *way.along.out),
            "N": call.y.shape[3],
            "CELLS": way.channels,
            "down": down,
            "right": window.dilation[1] * way.channels + call.y.shape[3],
            "count": call.y.size,
        },
        functions=activation_function(call),
        generated="\n".join(_all_added(window.size)),
        loop_iterations=nested(*window.size).iterations,
        reason=f"{name}: {math.prod(window.size)} products for each result",
    )
    return multiply, add


def _all_added(size: tuple[int, int]) -> Iterator[str]:
    """Write with_all() of add_cells.wgsl for windows of a size.

    The loads of a row are written out, and those of all rows where they are no more than _MOST_LOADS.
    """
    yield "fn with_all(start: T, place: u32) -> T {"
    yield "var sum = start;"
    if math.prod(size) <= _MOST_LOADS:
        yield from (f"sum += {_product(ky, kx)};" for ky in range(size[0]) for kx in range(size[1]))
    else:
        yield "let rows = end_of_loop(p.KH, place != OUTSIDE);"
        yield "for (var ky = 0u; ky < rows; ky++) {"
        yield from (f"sum += {_product('ky', kx)};" for kx in range(size[1]))
        yield "}"
    yield "return sum; }"


def _product(row: int | str, column: int) -> str:
    """Write the load of the product of a cell, whose row is a number or a variable."""
    y = f"{row}u" if isinstance(row, int) else row
    return f"load_products(place + {y} * p.down + {column}u * p.right)"
