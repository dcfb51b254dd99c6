"""Products of matrices in registers: tiles of rows and channels, and single rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpunn.kernel import Candidate, Kernel, Read, Write, ceil_div, vec_width
from gpunn.ops.call import Call
from gpunn.ops.contraction.filter_packing import (
    BLOCK,
    block_extents,
    block_reads,
    channel_reads,
    pack_deep_filter,
)
from gpunn.ops.contraction.shared_operands import step_library, step_pitch
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.kernels.register_tile import PAIR_TILE, SMALL_TILE, TILE, RegisterTile, other_tiles
from gpunn.ops.kernels.tiling import (
    COLUMNS,
    ROWS,
    ProductGrid,
    row_library,
    row_tiles,
    tiles,
)
from gpunn.rows import RowLoads


class _Layout(NamedTuple):
    """A filter and a bias as kernels of products read them (shaders/lib/column_blocks.wgsl).

    columns: vec4 columns in all; of_block, depth: those of a block, and its rows.
    """

    reads: tuple[Read, Read]
    columns: int
    of_block: int
    depth: int


def _blocks(call: Call, depth: int) -> _Layout:
    """Lay out constants by blocks: CPUs load what lies together much sooner than rows that are far apart."""
    channels, deep = block_extents(call.y.shape[-1], depth)
    return _Layout(block_reads(call), channels // 4, BLOCK // 4, deep)


def _one_block(call: Call, depth: int, reads: tuple[Read, Read] | None) -> _Layout:
    """Lay out constants, or what `reads` have, in one block of all columns."""
    columns = ceil_div(call.y.shape[-1], COLUMNS) * COLUMNS // 4
    return _Layout(reads or channel_reads(call, pack_deep_filter), columns, columns, ceil_div(depth, 4) * 4)


def product(
    call: Call, rows: int, depth: int, channels: int, reads: tuple[Read, Read] | None = None
) -> Kernel:
    """Compute y[rows, channels] = apply(x[rows, depth] . w + bias).

    reads: the packed filter, and the bias, if these are not constants; then 4 divides the depth.
    """
    sizes, of_few = (rows, depth, channels), call.device.software and not reads
    if rows >= ROWS or (of_few and rows > SMALL_TILE.rows):
        return _in_tiles(call, sizes, TILE, _one_block(call, depth, reads))
    if of_few and rows > 1:
        tile = PAIR_TILE if rows == PAIR_TILE.rows else SMALL_TILE
        return _in_tiles(call, sizes, tile, _blocks(call, depth))
    layout = _blocks(call, depth) if of_few else _one_block(call, depth, reads)
    return _by_rows(call, sizes, layout)


def _by_rows(call: Call, sizes: tuple[int, int, int], layout: _Layout) -> Kernel:
    """Compute one row x 4 channels in an invocation."""
    rows, depth, _ = sizes
    grid = row_tiles(rows, 4 * layout.columns, ceil_div(depth, 4), call.device)
    kernel = _product(call, sizes, grid, 4, layout)
    return replace(
        kernel,
        any_width=grid.splits == 1,
        reason=f"{kernel.reason}: few rows: one row x 4 channels{grid.reason}",
    )


def products(
    call: Call,
    sizes: tuple[int, int, int],
    reason: str,
    reads: tuple[Read, Read] | None = None,
    packs: Sequence[Kernel] = (),
) -> Iterator[Candidate]:
    """Yield product() and ways in other register tiles, behind kernels that pack what is computed.

    sizes: rows, depth and channels.
    """
    rows, depth, channels = sizes
    layout, before = _one_block(call, depth, reads), ", of a filter that is packed before" if packs else ""

    def in_other_tiles() -> Iterator[Candidate]:
        for tile in other_tiles(rows, channels, depth, call.device):
            yield Candidate([*packs, _in_tiles(call, sizes, tile, layout)], f"{tile.reason}{before}")

    first = Candidate([*packs, product(call, rows, depth, channels, reads)], reason)
    if rows >= ROWS and SMALL_TILE in other_tiles(rows, channels, depth, call.device):
        yield from in_other_tiles()  # more invocations, which wait less: see docs/kernels.md
        yield first
        return
    yield first
    if rows < ROWS and not (reads or call.device.software):
        yield Candidate([_by_rows(call, sizes, _blocks(call, depth))], f"{reason}, packed by blocks")
    yield from in_other_tiles()


def _in_tiles(call: Call, sizes: tuple[int, int, int], tile: RegisterTile, layout: _Layout) -> Kernel:
    rows, depth, channels = sizes
    grid = tiles(rows, channels, ceil_div(depth, tile.step), call.device, tile)
    kernel = _product(call, sizes, grid, tile.step, layout)
    x, *others = kernel.reads
    if tile.step == 4 and depth % 4 == 0:
        x = replace(x, by_rows=RowLoads(depth, tile.across(channels)))
    return replace(
        kernel,
        body="matmul_tile",
        reads=(x, *others),
        constants={**kernel.constants, **tile.constants},
        libraries=(*kernel.libraries, *tile.libraries),
        generated=tile.of_rows(grid.splits, call.device),
        reason=f"{kernel.reason}: {tile.reason}{grid.reason}",
    )


def _product(
    call: Call, sizes: tuple[int, int, int], grid: ProductGrid, step: int, layout: _Layout
) -> Kernel:
    """Make the kernel of one row x 4 channels in an invocation, in steps of so many elements of the depth."""
    rows, depth, channels = sizes
    steps, pitch = ceil_div(depth, step), step_pitch(depth, step)
    return Kernel(
        body="matmul_row",
        threads=grid.threads,
        workgroup=grid.workgroup,
        reads=(Read("x", 0, pitch.unit, pitch=pitch), *layout.reads),
        writes=(Write(width=vec_width(channels)),),
        params={
            **pitch.params("x"),
            "M": rows,
            "K": depth,
            "K4": steps,
            "N": channels,
            "N4": layout.columns,
            "W4": layout.of_block,
            "DEPTH": layout.depth,
            **grid.params,
        },
        constants={"SPLITS": grid.splits},
        libraries=(*row_library(rows, channels), step_library(depth, step)),
        functions=activation_function(call),
        loop_iterations=ceil_div(steps, grid.splits),
        reason=f"{rows} rows x depth {depth} x {channels} channels",
    )
