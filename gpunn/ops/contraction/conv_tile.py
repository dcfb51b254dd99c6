"""The kernel of convolutions over two or three dimensions with constants and one group: register tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gpunn.kernel import Kernel, Param, Read, Write, ceil_div, nested, vec_width
from gpunn.ops.call import Call
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.kernels.tiling import COLUMNS, ROWS, WORKGROUP, row_library, tiles
from gpunn.ops.kernels.window import Pair
from gpunn.rows import Pitch


def tile_kernel(
    call: Call,
    size: Pair,
    params: Mapping[str, Param],
    reads: tuple[Read, Read],
    library: str,
    constants: Mapping[str, int],
) -> Kernel:
    """Make the kernel of a convolution of x [batch, ..., C] to y [batch, ..., N].

    size: rows and columns of the window. `library` says where the window lies, by `params` and `constants`:
    shaders/lib/window.wgsl or volume.wgsl. `reads`: the packed filter, and the bias.
    """
    depth, channels = call.x.shape[-1], call.y.shape[-1]
    rows, packed = math.prod(call.y.shape[:-1]), ceil_div(channels, COLUMNS) * COLUMNS
    vectors = depth % 4 == 0
    steps = depth // 4 if vectors else depth
    pixels = Pitch(depth, vec_width(depth))
    grid = tiles(rows, packed, steps, call.device)
    return Kernel(
        body="conv_tile" if vectors else "conv_direct",
        threads=grid.threads,
        workgroup=WORKGROUP,
        reads=(Read("x", 0, vec_width(depth), pitch=pixels), *reads),
        writes=(Write(width=vec_width(channels)),),
        params={
            **params,
            "KH": size[0],
            "KW": size[1],
            "M": rows,
            "N": channels,
            "N4": packed // 4,
            **grid.params,
            **pixels.params("x"),
            "C": steps,
        },
        constants={"SPLITS": grid.splits, **constants},
        libraries=(library, *row_library(rows, channels)),
        functions=activation_function(call),
        loop_iterations=nested(*size, ceil_div(steps, grid.splits)).iterations,
        reason=f"{ROWS} pixels x {COLUMNS} channels in registers; {depth} input channels are "
        + ("read four at a time" if vectors else "not divisible by 4")
        + grid.reason,
    )
