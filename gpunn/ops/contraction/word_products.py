"""Quantised products of words of four input channels, packed as they are: dot4U8Packed and dot4I8Packed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpunn.kernel import Candidate, Function, Kernel, Pack, Param, Read, ceil_div, vec_width
from gpunn.ops.call import Call
from gpunn.ops.contraction.integer_product import MIXED
from gpunn.ops.contraction.product_rescaling import Rescaling
from gpunn.ops.contraction.shared_operands import Product
from gpunn.ops.contraction.wide_sums import most_iterations
from gpunn.ops.fixed_point.affine import wrap32
from gpunn.ops.kernels.chain import Box, boxes
from gpunn.ops.kernels.register_tile import SMALL_TILE, TILE, RegisterTile, other_tiles
from gpunn.ops.kernels.tiling import (
    COLUMNS,
    ROWS,
    ProductGrid,
    leaves_idle,
    row_library,
    row_tiles,
    tiles,
)
from gpunn.ops.kernels.window import Pair, Window, window_iterations, window_params
from gpunn.types import Array, DType

WORD = 4  # channels
_REASON = f"words of {WORD} input channels"
_COLUMNS = {4: "word_column", 8: "word_columns"}  # files of shaders/lib/, by the channels of a tile
_STEPS = {1: "single_words", 4: "four_words"}  # the same, by the words of a step
DOT_PRODUCTS = {
    DType.UINT8: Function(("w", "x"), "i32(dot4U8Packed(u32(w), u32(x)))"),
    DType.INT8: Function(("w", "x"), "dot4I8Packed(u32(w), u32(x))"),
}


def pack_words(filter: Array, zero: int, offset: int) -> Array:
    """Pack [O, KH, KW, I] or [O, I] as int32 [cells * I / 4, O]: words of four input channels.

    O is padded to a multiple of COLUMNS and I to one of 4, with the zero point, which adds nothing to a sum;
    `offset` turns int8 into the uint8 of its input.
    """
    channels, depth = filter.shape[0], filter.shape[-1]
    cells = filter.reshape(channels, -1, depth)
    pads = [(0, -channels % COLUMNS), (0, 0), (0, -depth % 4)]
    cells = np.pad(cells, pads, constant_values=zero)
    cells = (cells.astype(np.int16) + offset).astype(np.uint8)
    words = np.ascontiguousarray(cells).view("<i4")
    return np.ascontiguousarray(words.reshape(words.shape[0], -1).T)


def fold_bias(filter: Array, bias: Array | None, zero_x: int, zero_w: int) -> Array:
    """Compute bias - zero of x * sum of (w - zero of w) for each output channel, padded to a multiple of
    COLUMNS.
    """
    sums = (filter.astype(np.int64) - zero_w).reshape(filter.shape[0], -1).sum(axis=1)
    folded = (0 if bias is None else bias.astype(np.int64)) - zero_x * sums
    return np.pad(wrap32(folded).astype(np.int32), (0, -folded.size % COLUMNS))


def fold_zero(filter: Array, zero_x: int, zero_w: int) -> Array:
    """Compute fold_bias() without a bias."""
    return fold_bias(filter, None, zero_x, zero_w)


class Form(NamedTuple):
    """An op as a convolution with groups; `axis` is that of the filter's output channels."""

    window: Window
    spatial: Pair
    depth: int
    groups: int = 1
    axis: int = 0

    def boxes(self, call: Call) -> list[Box]:
        """Return the parts of the sums of one_by_one()."""
        return boxes((*self.window.size, self.depth), most_iterations(call))


def _offset(call: Call) -> int:
    """Return what makes a filter of int8 one of uint8, as its input is."""
    return 128 if (call.x.dtype, call.input(1).dtype) == MIXED else 0


def _dot_product(call: Call) -> Function:
    return DOT_PRODUCTS.get(call.x.dtype, DOT_PRODUCTS[DType.INT8])


def ways_of_words(call: Call, form: Form, how: Rescaling) -> Iterator[Candidate]:
    """Yield by_words(), and where reals have them, small register tiles: first for products of matrices of
    ROWS rows or more, and for windows of which others would leave much of the device idle.
    """
    first = Candidate([by_words(call, form, how)], _REASON)
    rows, channels = _rows(call), call.y.shape[-1]
    if form.groups > 1 or SMALL_TILE not in other_tiles(rows, channels, form.depth, call.device):
        yield first
        return
    small = Candidate([_in_tiles(call, form, how, SMALL_TILE)], f"{_REASON}, {SMALL_TILE.reason}")
    # More invocations wait less: see docs/kernels.md.
    idle = rows >= ROWS if form.window.pointwise else leaves_idle(first.kernels[-1], call.device)
    yield from (small, first) if idle else (first, small)


def by_words(call: Call, form: Form, how: Rescaling) -> Kernel:
    """Make the kernel of words: register tiles, or one row x 4 channels for few rows."""
    rows, product = _rows(call), form.window.pointwise and form.groups == 1
    few = rows < ROWS if form.depth % WORD == 0 else rows == 1
    return _by_rows(call, form, how) if product and few else _in_tiles(call, form, how, TILE)


def _rows(call: Call) -> int:
    return call.y.size // max(1, call.y.shape[-1])


def _by_rows(call: Call, form: Form, how: Rescaling) -> Kernel:
    """Compute one row x 4 channels in an invocation, a word in a step."""
    rows, steps = _rows(call), ceil_div(form.depth, WORD)
    grid = row_tiles(rows, _packed(call), steps, call.device)
    kernel = _words(call, form, how, grid, steps)
    kernel = replace(
        kernel,
        body="integer_row",
        any_width=grid.splits == 1,
        reason=f"{kernel.reason}: few rows: one row x 4 channels{grid.reason}",
    )
    return how.finish.of(kernel)


def _in_tiles(call: Call, form: Form, how: Rescaling, tile: RegisterTile) -> Kernel:
    """Compute register tiles of pixels and channels, in steps of four words where the depth has these."""
    # Software would compile pipelines of their own for these, and run them no sooner.
    step = 4 if form.depth % (4 * WORD) == 0 and not call.device.software else 1  # words
    pixels = form.window.pointwise and form.groups == 1 and not call.device.software
    steps = ceil_div(form.depth, WORD * step)
    grid = tiles(_rows(call), call.y.shape[-1], steps, call.device, tile)
    kernel = _words(call, form, how, grid, steps)
    kernel = replace(
        kernel,
        constants={
            **kernel.constants,
            "ALIGNED": int(form.depth % WORD == 0),
            "POINTWISE": int(pixels),
            **tile.constants,
        },
        libraries=(
            *kernel.libraries,
            _COLUMNS[tile.channels],
            _STEPS[step],
            *(("pixel_tile",) if pixels else ("window_tile", "window")),
        ),
        generated=(tile.of_rows if pixels else tile.of_windows)(grid.splits, call.device),
        reason=f"{kernel.reason}: {tile.rows} pixels x {tile.channels} channels in registers{grid.reason}",
    )
    return how.finish.of(kernel)


def _words(call: Call, form: Form, how: Rescaling, grid: ProductGrid, steps: int) -> Kernel:
    """Make the kernel of register tiles but for what depends on the tile. steps: of the depth, by words."""
    channels, packed, offset = call.y.shape[-1], _packed(call), _offset(call)
    zero_w, cells = how.zero_w + offset, math.prod(form.window.size)
    return Kernel(
        body="integer_product",
        threads=grid.threads,
        workgroup=grid.workgroup,
        reads=_reads(how, offset, cells * ceil_div(form.depth, WORD), packed),
        params={
            **window_params(form.window, *form.spatial),
            **how.params(zero_w, 4),
            **grid.params,
            "SCALES": packed // 4,
            "M": _rows(call),
            "N": channels,
            "N4": packed // 4,
            "W4": packed // 4,
            "C": form.depth * form.groups,
            "GC": form.depth,
            "GN": channels // form.groups,
            "PAD": _padding(how),
        },
        constants={"CENTRED": int(zero_w == 0), "SPLITS": grid.splits},
        functions={"products": _dot_product(call)},
        libraries=row_library(_rows(call), channels),
        lanes=4,
        loop_iterations=window_iterations(form.window, ceil_div(steps, grid.splits)),
        reason=f"integers, {_REASON}",
    )


def _packed(call: Call) -> int:
    """Count the channels of packed filters: whole tiles of the rule."""
    return ceil_div(call.y.shape[-1], COLUMNS) * COLUMNS


def _reads(how: Rescaling, offset: int, words: int, packed: int) -> tuple[Read, ...]:
    """Return the operands: `words` of the filter for each of `packed` channels."""
    filter = Pack(pack_words, (how.zero_w, offset))
    w = Read("w", 1, 4, filter, dtype=DType.INT32, nbytes=4 * words * packed)
    return Read("x", 0), w, *endings(how, packed)


def endings(how: Rescaling, packed: int) -> tuple[Read, Read]:
    """Return the operands bias and scales for `packed` channels."""
    bias = Pack(fold_bias, (how.zero_x, how.zero_w))
    scales = Read("scales", None, 4, value=how.table(COLUMNS))
    return Read("bias", 1, 4, bias, (2,), DType.INT32, nbytes=4 * packed), scales


def workgroup_words(call: Call, form: Form, how: Rescaling) -> Product:
    """Describe the product of words for tiles that a workgroup shares (shaders/lib/workgroup_words.wgsl).

    There is one group, and pixels have whole words.
    """
    offset, packed = _offset(call), _packed(call)
    zero_w, words, cells = how.zero_w + offset, form.depth // WORD, math.prod(form.window.size)
    reads, lanes = _reads(how, offset, cells * words, packed), vec_width(words)
    params: dict[str, Param] = {
        **window_params(form.window, *form.spatial),
        **how.params(zero_w, 4),
        "C": words // lanes,
        "K": cells * words // lanes,
        "inverse_c": lanes / words,
        "inverse_kw": 1 / form.window.size[1],
        "x_pitch": words // lanes,
        "x_first": 0,
        "SCALES": packed // 4,
        "PAD": _padding(how),
    }

    def of_words(real: Kernel) -> Kernel:
        """Return the kernel of integers for that of reals."""
        kernel = replace(
            real,
            reads=reads,
            constants={**real.constants, "CENTRED": int(zero_w == 0), "TOGETHER": int(lanes > 1)},
            functions={"products": _dot_product(call)},
            libraries=tuple("workgroup_words" if n == "workgroup_reals" else n for n in real.libraries),
            lanes=4,
            reason=f"integers, {_REASON}: {real.reason}",
        )
        return how.finish.of(kernel)

    return Product("integer_workgroup", cells * words, 1, params, ("packed_columns",), integers=of_words)


def _padding(how: Rescaling) -> int:
    """Return a word of the input's zero point."""
    return (how.zero_x & 255) * 0x01010101
