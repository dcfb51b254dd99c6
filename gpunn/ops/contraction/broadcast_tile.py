"""Products whose rows a subgroup shares (shaders/lib/broadcast_tile.wgsl), and when they come first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpunn.device import SUBGROUPS, DeviceProperties
from gpunn.kernel import (
    Candidate,
    Kernel,
    Param,
    Read,
    Write,
    ceil_div,
    nested,
    tile_grid,
    vec_width,
)
from gpunn.ops.call import Call
from gpunn.ops.contraction.filter_packing import BLOCK, STEP, block_extents, block_reads
from gpunn.ops.elementwise.clipping import clipping, with_activation
from gpunn.ops.kernels.register_tile import SMALL_TILE
from gpunn.ops.kernels.tiling import COLUMNS, ROWS, WORKGROUP, row_library
from gpunn.ops.kernels.window import Window, window_params
from gpunn.rows import Pitch, RowLoads

Reads = tuple[Read, Read]  # of the filter and the bias

SHARED_ROWS = 16  # rows or pixels of one tile of a subgroup, the most of any
_FOUR = 4  # the smallest subgroups that share rows
_ROWS_OF_FOUR = 8  # of one of their tiles
_LEAST_ROWS = SMALL_TILE.rows + 1  # of one product: fewer are quicker in one small register tile
# Tiles that compute appended operations in a loop.
_LOOPS = frozenset({"broadcast_tile", "broadcast_wide_tile"})
_DEPTH = 4  # elements of the depth in a step of a tile


class ByTile(NamedTuple):
    """A number for each kind of tiles: those of subgroups of eight, and of four, and wide ones."""

    eight: float
    four: float
    wide: float

    def on(self, device: DeviceProperties) -> float:
        """Return that of a device's tiles."""
        if has_wide_tiles(device):
            return self.wide
        return self.four if device.subgroups_of_four else self.eight


# How many times as quick as full register tiles full tiles are.
# On lavapipe 2 with Mesa 22.3, 2.4 with Mesa 25. Tiles of which half is not needed take about as long with
# both (docs/kernels.md), and share a pipeline with other layers, which would take longer to compile than the
# layer to compute. A little more: for rows behind the last. On SwiftShader 1 to 1.1, and 1.2 to 1.3 for
# windows of several cells. Wide tiles are 3.8 to 5 times as quick.
OF_PRODUCTS, OF_WINDOWS = ByTile(2.1, 1.1, 4.2), ByTile(2.1, 1.25, 4.2)
# Of full tiles, packing included, over one row x 4 channels: 5 or more with both, 11 or more of wide ones.
_GAIN_OF_STACKS = ByTile(4, 4, 8)
# Multiplications, idle ones included, that take lavapipe less time than it takes to compile other tiles.
_LITTLE = 1 << 25
_DEEPEST = 1 << 21  # conv_direct_broadcast divides numbers below 2^22 in f32 without an error


def with_shared_rows(
    call: Call,
    depth: int,
    kernels: Callable[[], Sequence[Kernel]],
    others: Iterable[Candidate],
    matrices: int = 0,
    gain: ByTile = OF_PRODUCTS,
    alike: bool = False,
) -> Iterator[Candidate]:
    """Yield ways to compute y [..., N], and that of shared rows: before them where it is quicker.

    depth: of the filter as it is packed by blocks. matrices: how many products of a stack there are, if the
    other ways compute these one by one; 0: one product, which others compute in register tiles. gain: of full
    tiles over full register tiles. alike: other layers of networks mostly have the same pipeline, so it also
    comes first for little work.
    """
    rows, channels = math.prod(call.y.shape[:-1]) // max(matrices, 1), call.y.shape[-1]
    enough = depth <= _DEEPEST and rows >= (ROWS if matrices else _LEAST_ROWS)
    first = enough and pays_off(rows, channels, call.device, gain, matrices)
    if alike and rows >= SHARED_ROWS and measured(call.device) and not call.device.subgroups_of_four:
        first = first or _computed(rows, channels, call.device) * depth <= _LITTLE
    reason = f"{_tile(call.device).rows} rows that a subgroup shares"
    if first:
        yield Candidate(kernels(), reason, frozenset({SUBGROUPS}))
    yield from others
    if not first and enough and subgroup(call.device):
        yield Candidate(kernels(), reason, frozenset({SUBGROUPS}))


def subgroup(device: DeviceProperties) -> int:
    """Return the invocations of a device's largest subgroups; 0 if rows cannot be shared in all of them."""
    least, most = device.subgroup_sizes or (0, 0)
    return most if (least >= STEP or most == _FOUR) and most <= WORKGROUP[0] else 0


def has_wide_tiles(device: DeviceProperties) -> bool:
    """Tell whether tiles of a device are of twice as many channels.

    Where loads of rows stall and weights lie in textures, MobileNet v1 takes 0.74 of the time with these.
    """
    return device.texels and subgroup(device) == STEP


def channels_together(device: DeviceProperties) -> int:
    """Return the channels that a subgroup computes together, at least those of a block of the filter."""
    return max(_tile(device).across, BLOCK)


def measured(device: DeviceProperties) -> bool:
    """Tell whether a device is of those where products of shared rows were measured: software."""
    return device.software and subgroup(device) in (_FOUR, STEP)


class _Tile(NamedTuple):
    """The part of a result that a subgroup computes: `rows`, which it shares, `channels` of each invocation.

    library: the one in shaders/lib.
    """

    invocations: int
    rows: int
    channels: int
    library: str

    @property
    def across(self) -> int:
        """Return the channels of all invocations."""
        return self.channels * self.invocations


def _tile(device: DeviceProperties) -> _Tile:
    """Return the tile of a device's subgroups, or one of eight where it has none."""
    if device.subgroups_of_four:
        return _Tile(_FOUR, _ROWS_OF_FOUR, 8, "broadcast_tile_4")
    if has_wide_tiles(device):
        return _Tile(STEP, SHARED_ROWS, 8, "broadcast_wide_tile")
    return _Tile(max(subgroup(device), STEP), SHARED_ROWS, 4, "broadcast_tile")


def _steps(depth: int) -> int:
    """Count the steps over a depth."""
    return ceil_div(depth, _DEPTH)


def pays_off(rows: int, channels: int, device: DeviceProperties, gain: ByTile, matrices: int = 0) -> bool:
    """Tell whether products are quicker than in register tiles, which are smaller, or those of a stack than
    in single rows.

    It was measured where the CPU does the device's work. There must be tiles for the whole device, for sums
    are not divided.
    """
    if not measured(device):
        return False

    results = _computed(rows, channels, device)
    invocations = max(matrices, 1) * results // (4 * SHARED_ROWS)
    if matrices:
        most = _GAIN_OF_STACKS.on(device) * rows * channels
    else:
        most = gain.on(device) * _rounded_up(rows, ROWS) * _rounded_up(channels, COLUMNS)
    return invocations >= device.parallel_invocations and results <= most


def _computed(rows: int, channels: int, device: DeviceProperties) -> int:
    """Count the results that tiles compute, with those that nobody needs."""
    return _rounded_up(rows, _tile(device).rows) * _rounded_up(channels, channels_together(device))


def _rounded_up(extent: int, side: int) -> int:
    return ceil_div(extent, side) * side


def shared_rows(call: Call, window: Window, depth: int, reads: Reads | None = None) -> Kernel:
    """Compute a convolution with one group over `depth` input channels, or a product if it is pointwise.

    reads: as of shared_product().
    """
    return completed(call, shared_sums(call, window, depth, reads))


def completed(call: Call, sums: Kernel) -> Kernel:
    """Return a kernel of sums of reals with a bias and the activation."""
    return with_loop(with_activation(_with_bias(sums, call.y.shape[-1]), call))


def shared_sums(call: Call, window: Window, depth: int, reads: Reads | None = None) -> Kernel:
    """Compute the same without an activation. reads: as of shared_product()."""
    if not window.pointwise:
        return _window(call, window, reads)
    return row_sums(call, math.prod(call.y.shape[:-1]), depth, call.y.shape[-1], reads)


def shared_product(call: Call, rows: int, depth: int, channels: int, reads: Reads | None = None) -> Kernel:
    """Compute y[rows, channels] = apply(x[rows, depth] . w + bias).

    reads: filter and bias packed by blocks, if these are not constants.
    """
    return completed(call, row_sums(call, rows, depth, channels, reads))


def row_sums(call: Call, rows: int, depth: int, channels: int, reads: Reads | None) -> Kernel:
    """Compute shared_product() without a bias of zeros for an absent one, and without an activation."""
    width, across = vec_width(depth), ceil_div(channels, _tile(call.device).across)
    by_rows, pitch = RowLoads(depth, across) if width == 4 else None, Pitch(depth)
    return _kernel(
        call,
        (Read("x", 0, width, by_rows=by_rows, pitch=pitch), *(reads or block_reads(call))),
        depth,
        "matmul_broadcast",
        {"K": depth, **pitch.params("x")},
        {"FOURS": int(width == 4)},
        _steps(depth),
        f"{rows} rows x depth {depth} x {channels} channels",
    )


def _window(call: Call, window: Window, reads: Reads | None) -> Kernel:
    _, height, width, depth = call.x.shape
    pixels = Pitch(depth)
    params: dict[str, Param] = {**window_params(window, height, width), **pixels.params("x"), "C": depth}
    terms, packed = depth * math.prod(window.size), reads or block_reads(call)
    if depth % STEP == 0:
        loops = nested(*window.size, depth // _DEPTH).iterations
        operands = (Read("x", 0, 4, pitch=pixels), *packed)
        reason = "window cells one after the other"
        return _kernel(call, operands, terms, "conv_broadcast", params, {}, loops, reason)
    params |= {"K": terms, "inverse_c": 1 / depth, "inverse_kw": 1 / window.size[1]}
    reason, operands = "window cells and input channels in one row", (Read("x", 0, pitch=pixels), *packed)
    loops = _steps(terms)
    return _kernel(call, operands, terms, "conv_direct_broadcast", params, {}, loops, reason)


def shared_stack(call: Call, sizes: tuple[int, int, int, int], x: Read, w: Read, y: Write) -> Kernel:
    """Compute y[k] = x[k] . w[k] for a stack of matrices.

    sizes: matrices, and of each rows, depth, and channels. w: packed by blocks, one matrix behind the other.
    """
    return with_loop(clipping(_with_bias(stack(call, sizes, x, w, y), sizes[3])))


def stack(call: Call, sizes: tuple[int, int, int, int], x: Read, w: Read, y: Write) -> Kernel:
    """Make what shared_stack() and its kind have in common."""
    count, rows, depth, channels = sizes
    name = f"{count} products of {rows} rows x depth {depth} x {channels} channels"
    kernel = _tiles(call.device, "matmul_broadcast", (rows, channels, depth), name, count)
    width = vec_width(depth)
    return replace(
        kernel,
        reads=(replace(x, width=width), w, Read("bias", None)),
        writes=(replace(y, width=vec_width(channels)),),
        params={**kernel.params, "K": depth, **Pitch(depth).params("x")},
        constants={**kernel.constants, "FOURS": int(width == 4)},
        loop_iterations=_steps(depth),
    )


def _kernel(
    call: Call,
    reads: tuple[Read, ...],
    depth: int,
    body: str,
    params: Mapping[str, Param],
    constants: Mapping[str, int],
    loop_iterations: int,
    reason: str,
) -> Kernel:
    rows, channels = math.prod(call.y.shape[:-1]), call.y.shape[-1]
    kernel = _tiles(call.device, body, (rows, channels, depth), reason)
    return replace(
        kernel,
        reads=reads,
        writes=(Write(width=vec_width(channels)),),
        params={**kernel.params, **params},
        constants={**kernel.constants, **constants},
        loop_iterations=loop_iterations,
    )


def _with_bias(kernel: Kernel, channels: int) -> Kernel:
    """Return a kernel of reals that has a bias, of zeros if need be: it needs no pipeline of its own then."""
    x, w, bias = kernel.reads
    if not bias.present:
        bias = Read("bias", None, 4, value=np.zeros(block_extents(channels, 0)[0], np.float32))
    return replace(kernel, reads=(x, w, bias))


def with_loop(kernel: Kernel) -> Kernel:
    """Return a kernel that computes optional appended operations in a loop, if it can.

    It needs no pipeline of its own then where others have a sum or the like behind them.
    """
    (y,) = kernel.writes
    known = "apply" not in kernel.functions and not _LOOPS.isdisjoint(kernel.libraries)
    return replace(kernel, writes=(replace(y, in_loop=known and y.width == 4),))


def _tiles(
    device: DeviceProperties, body: str, sizes: tuple[int, int, int], reason: str, count: int = 1
) -> Kernel:
    """Make what all these kernels share. sizes: rows, channels, and depth of each of `count` products."""
    rows, channels, depth = sizes
    packed, tile = block_extents(channels, depth)[0], _tile(device)
    size, down, deep = tile.invocations, ceil_div(rows, tile.rows), _steps(depth) * _DEPTH
    threads, grid = tile_grid(ceil_div(packed, tile.across) * size, count * down, size, size)
    return Kernel(
        body=body,
        threads=threads,
        workgroup=(size, 1, 1),
        reads=(),
        params={**grid, "DEPTH": deep, "M": rows, "N": channels, "N4": packed // 4, "DOWN": down},
        constants={"SPLITS": 1},
        narrow="w" if device.narrow_weights else "",
        libraries=(tile.library, "broadcast_reals", *row_library(count * rows, channels)),
        reason=f"{reason}: {tile.rows} rows x {tile.channels} channels in registers, rows shared by {size} "
        "invocations",
    )
