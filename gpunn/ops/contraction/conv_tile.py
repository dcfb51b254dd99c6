"""The kernel of convolutions over two or three dimensions with constants: register tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from gpunn.kernel import Kernel, Param, Read, Write, ceil_div, nested, vec_width
from gpunn.ops.call import Call
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.kernels.register_tile import TILE, RegisterTile
from gpunn.ops.kernels.tiling import COLUMNS, WORKGROUP, row_library, tiles
from gpunn.ops.kernels.window import Pair
from gpunn.rows import Pitch


def tile_kernel(
    call: Call,
    size: Pair,
    params: Mapping[str, Param],
    reads: tuple[Read, Read],
    library: str,
    constants: Mapping[str, int],
    tile: RegisterTile = TILE,
    groups: int = 1,
) -> Kernel:
    """Make the kernel of a convolution of x [batch, ..., C] to y [batch, ..., N].

    size: rows and columns of the window. `library` says where the window lies, by `params` and `constants`:
    shaders/lib/window.wgsl or volume.wgsl. `reads`: the packed filter, and the bias. tile: where four
    channels of a group of x lie together; else it loads one at a time. Its channels divide those of each of
    `groups`, rounded up to a multiple of 4.
    """
    depth, channels = call.x.shape[-1] // groups, call.y.shape[-1]
    rows, of_group = math.prod(call.y.shape[:-1]), channels // groups
    padded = ceil_div(of_group, 4) * 4
    packed = padded * groups if groups > 1 else ceil_div(channels, COLUMNS) * COLUMNS
    if depth % 4:
        tile = replace(tile, step=1)
    steps = depth // tile.step
    pixels = Pitch(call.x.shape[-1], tile.step)
    grid = tiles(rows, packed if groups > 1 else channels, steps, call.device, tile)
    return Kernel(
        body="conv_direct" if tile.step == 1 else "conv_tile",
        threads=grid.threads,
        workgroup=WORKGROUP,
        reads=(Read("x", 0, tile.step, pitch=pixels), *reads),
        writes=(Write(width=vec_width(channels)),),
        params={
            **params,
            "KH": size[0],
            "KW": size[1],
            "M": rows,
            "N": channels,
            "N4": packed // 4,
            "W4": packed // 4,
            **grid.params,
            **pixels.params("x"),
            "C": steps,
            "GN": padded if groups > 1 else max(packed, 1),
            "OG": of_group,
            "absent": 0,
        },
        constants={"SPLITS": grid.splits, **tile.constants, **constants},
        libraries=(library, "real_sums", *_stores(rows, channels, groups), *tile.libraries),
        generated=tile.of_windows(grid.splits, call.device),
        functions=activation_function(call),
        loop_iterations=nested(*size, ceil_div(steps, grid.splits)).iterations,
        reason=f"{tile.rows} pixels x {tile.channels} channels in registers; {depth} input channels "
        + (f"of each of {groups} groups are " if groups > 1 else "are ")
        + ("read one at a time" if tile.step == 1 else "read four at a time")
        + grid.reason,
    )


def _stores(rows: int, channels: int, groups: int) -> tuple[str]:
    """Return the lib/ file whose put_channels() stores the results."""
    return row_library(rows, channels) if groups == 1 or channels // groups % 4 == 0 else ("rows_of_groups",)
