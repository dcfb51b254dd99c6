"""Separable convolutions of few pixels: a workgroup has whole rows of its product in its memory."""

from __future__ import annotations

from collections.abc import Iterator

from gpunn.device import DeviceProperties
from gpunn.kernel import Candidate, Kernel, Read, Write, ceil_div, flat_threads, vec_width
from gpunn.ops.call import Call
from gpunn.ops.contraction.shared_operands import Product
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.kernels.tiling import COLUMNS, row_library
from gpunn.ops.kernels.workgroup_tile import WIDTH

WHOLE_ROWS = "separable_rows"  # the body
_ROWS = 4  # of an invocation
_LEAST_COLUMNS, _MOST_COLUMNS = 4, 32  # vec4s of channels that a workgroup computes
_LEAST_SPLITS = 4  # invocations that share a sum
FAST_SPLITS = 8  # from which on an NVIDIA H200 takes less time than for two kernels
# Invocations, as multiples of those that occupy a device: up to the first number more and narrower workgroups
# are quicker, up to the second one smaller ones.
_NARROW, _SMALL = 1.1, 3.1


def whole_rows(call: Call, product: Product) -> Iterator[Candidate]:
    """Yield the way in which a workgroup has whole rows, if these are few enough.

    Software has no memory of workgroups, and takes several times as long.
    """
    rows, channels = product.sizes(call)
    depth, columns = ceil_div(product.depth, 4), ceil_div(channels, 4)
    if call.device.software or not min(rows, depth, columns):
        return
    side, splits = _division(rows, depth, columns, call.device)
    if splits < _LEAST_SPLITS:
        return
    across = ceil_div(columns, side)
    pixels = _ROWS * WIDTH // (side * splits)
    count, parts = across * ceil_div(rows, pixels), ceil_div(depth * pixels, _ROWS * WIDTH)
    steps = ceil_div(ceil_div(depth, parts), 2 * splits) + 1
    assert product.reads is not None and product.pitch is not None
    kernel = Kernel(
        body=WHOLE_ROWS,
        threads=flat_threads(count * WIDTH, WIDTH),
        workgroup=(WIDTH, 1, 1),
        reads=(Read("x", 0, product.width, pitch=product.pitch), *product.reads),
        writes=(Write(width=vec_width(channels)),),
        params={
            **product.params,
            **product.pitch.params("x"),
            "M": rows,
            "N": channels,
            "N4": ceil_div(channels, COLUMNS) * COLUMNS // 4,
            "K4": depth,
            "ACROSS": across,
        },
        constants={"COLUMNS": side, "SPLITS": splits},
        functions=activation_function(call),
        libraries=(product.libraries[0], *row_library(rows, channels)),
        loop_iterations=parts * (4 + steps) + splits,
        reason=f"{rows} rows x depth {product.depth} x {channels} channels: {pixels} rows in the memory of a"
        f" workgroup, split-K by {splits}",
    )
    yield Candidate([kernel], f"{pixels} whole rows that a workgroup shares")


def _division(rows: int, depth: int, columns: int, device: DeviceProperties) -> tuple[int, int]:
    """Return the columns of a workgroup, and how many of its invocations share a sum; 0 for too much work.

    depth, columns: in vec4s.
    """

    def room(side: int, splits: int, times: float) -> bool:
        tiles = ceil_div(columns, side) * ceil_div(rows, _ROWS * WIDTH // (side * splits))
        return tiles * WIDTH <= times * device.parallel_invocations

    side = _LEAST_COLUMNS
    while side < min(columns, _MOST_COLUMNS) and not room(side, WIDTH // side, _NARROW):
        side *= 2
    splits = WIDTH // side
    while splits and (splits > depth or not room(side, splits, _SMALL)):
        splits //= 2
    return side, splits
