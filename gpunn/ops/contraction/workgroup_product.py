"""Products whose operands a workgroup shares (shaders/lib/workgroup_tile.wgsl), in f32 or f16.

word_products.py describes those of quantised tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpunn.device import DEFAULT_LIMITS, HALF_PRECISION
from gpunn.kernel import (
    Candidate,
    Kernel,
    Pack,
    Read,
    Write,
    ceil_div,
    flat_threads,
    vec_width,
)
from gpunn.ops.call import Call
from gpunn.ops.contraction.filter_packing import channel_reads, pack_deep_filter
from gpunn.ops.contraction.half_products import (
    FAR,
    in_halves,
    matrices_in_halves,
    pack_scaled,
    pack_scales,
)
from gpunn.ops.contraction.shared_operands import Product, matrix_product
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.kernels.added_parts import added_parts
from gpunn.ops.kernels.tiling import COLUMNS, ROWS, row_library, splits
from gpunn.ops.kernels.workgroup_tile import LARGE_TILE, SLICED_TILE, TILE, WIDTH, WorkgroupTile
from gpunn.rows import RowLoads
from gpunn.types import DType, TensorType

_OVERLAPPING = 4  # invocations that one of LARGE_TILE stands for, where it may be quicker
_OF_LARGE = 4 / 3  # the same, where it is
# Parts of the depth from which on tiles of them are quicker than register tiles, which wait for weights: an
# NVIDIA H200 takes half of the time for 3 x 3 on 7 x 7 x 512 if these are not in its cache.
_PARTS_OF_WINDOWS, _PARTS_OF_ROWS = 8, 16
# Elements of a row up to which fewer and larger tiles do not come first: they store, and add other tensors,
# for longer than they multiply. ResNet-50 with 32 samples takes an NVIDIA H200 0.98 of the time with this.
_SHALLOW = 128
_DEEP_PART = 128  # elements of a row in a part: less does not make up for the second pass
_MEMORY = "max-compute-workgroup-storage-size"  # a limit of a device, in bytes
_FLAGS = 12  # bytes of the workgroup's memory that lib/workgroup_halves.wgsl takes for itself
_DEEPEST = 1 << 21  # lib/window_row.wgsl divides numbers below 2^22 in f32 without an error


def with_workgroup_tiles(call: Call, product: Product, others: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield ways to compute y [..., N], and those of tiles that a workgroup shares: first if these are many.

    If they are few, there are also ways that divide the sums: in slices of a workgroup, and in parts.
    """
    if not _suits(call, product):
        yield from others
        return
    other, parts = _other_first(call, product), _parts_first(call, product)
    if other:
        yield from _ways_of_other_size(call, product)
    shallow = product.integers is not None and product.depth < 4 * TILE.fours  # a step is idle in part
    if _occupies(call, product, TILE, idle=product.idle) and not shallow:
        yield from _ways(call, product, TILE)
        yield from others
    else:
        if parts:
            yield from _in_parts(call, product)
        yield from others
        yield from _ways(call, product, TILE)
    if not other:
        yield from _ways_of_other_size(call, product)
    if not parts:
        yield from _in_parts(call, product)


def _in_parts(call: Call, product: Product) -> Iterator[Candidate]:
    """Yield the way in tiles of parts of the sums, if these are to be divided.

    Products are in f32: an NVIDIA H200 takes 1.1 times as long for parts in f16 (3 x 3 on 14 x 14 x 256).
    """
    parts = _parts(call, product)
    if parts > 1:
        reason = f"{TILE.reason}, split-K by {parts} with a second pass"
        yield Candidate(_kernels_of_parts(call, product, parts), reason)


def _parts_first(call: Call, product: Product) -> bool:
    """Tell whether the rule takes tiles of parts of the sums."""
    parts, least, deep, idle = _parts(call, product), _PARTS_OF_ROWS, _DEEP_PART, 1 / 2
    if product.windows:
        least, deep, idle = _PARTS_OF_WINDOWS, 0, 2 / 3
    return parts >= least and product.depth >= parts * deep and _idle(call, product, TILE) <= idle


def _parts(call: Call, product: Product) -> int:
    """Return how many tiles share each sum, so that they occupy a device; 1 for those of integers."""
    if product.integers is not None:
        return 1
    return splits(WIDTH * _tiles(call, product), ceil_div(product.depth, 4 * TILE.fours), call.device)


def _suits(call: Call, product: Product) -> bool:
    """Tell whether a device and a product have these tiles.

    Devices that are software have no memory of workgroups, and take several times as long as by other ways.
    """
    rows, _ = product.sizes(call)
    return not call.device.software and rows >= ROWS and 0 < product.depth < _DEEPEST


def _tiles(call: Call, product: Product, tile: WorkgroupTile = TILE) -> int:
    return product.matrices * tile.count(*product.sizes(call))


def _occupies(
    call: Call, product: Product, tile: WorkgroupTile, overlapping: float = 1, idle: float = 1 / 2
) -> bool:
    """Tell whether tiles occupy a device, and at most the share `idle` of what they compute is in vain.

    overlapping: invocations that one of a tile stands for, as so many of its products do not wait for others.
    """
    invocations = overlapping * WIDTH * _tiles(call, product, tile)
    return invocations >= call.device.parallel_invocations and _idle(call, product, tile) <= idle


def _idle(call: Call, product: Product, tile: WorkgroupTile) -> float:
    """Return the share of what tiles compute that is no part of the result."""
    computed = _tiles(call, product, tile) * tile.side**2
    return 1 - product.matrices * math.prod(product.sizes(call)) / max(computed, 1)


def _other_first(call: Call, product: Product) -> bool:
    """Tell whether the rule takes _other_size(): many large tiles, or for a stack small ones."""
    if _other_size(call, product) is SLICED_TILE:
        deep = product.depth >= 4 * SLICED_TILE.fours
        return product.stacked and deep and _idle(call, product, SLICED_TILE) <= 1 / 4
    halves = HALF_PRECISION in call.device.features and (in_halves(call) or matrices_in_halves(call))
    suits = _occupies(call, product, LARGE_TILE, _OF_LARGE, idle=1 / 4)
    deep = product.windows or product.depth > _SHALLOW
    return suits and deep and product.integers is None and not halves


def workgroup_tiles(call: Call, product: Product) -> Iterator[Candidate]:
    """Yield the ways in tiles that compute whole sums, if these suit a device: those of 64 x 64 first."""
    if _suits(call, product):
        yield from _ways(call, product, TILE)
        yield from _ways_of_other_size(call, product)


def _other_size(call: Call, product: Product) -> WorkgroupTile | None:
    """Return the smaller or the larger tile that may suit a result better than that of 64 x 64."""
    if not _occupies(call, product, TILE):
        return SLICED_TILE
    return LARGE_TILE if _occupies(call, product, LARGE_TILE, _OVERLAPPING) else None


def _ways_of_other_size(call: Call, product: Product) -> Iterator[Candidate]:
    other = _other_size(call, product)
    if other is not None:
        yield from _ways(call, product, other)


def _ways(call: Call, product: Product, tile: WorkgroupTile) -> Iterator[Candidate]:
    """Yield the ways in tiles of a size that the device has the memory for, with products in f16 first."""
    most, halves = call.device.limit(_MEMORY), None
    if product.computed and tile is TILE and matrices_in_halves(call):
        halves = _of_scaled_halves(call, product)
    elif product.reads is None and tile.slices == 1 and in_halves(call):
        halves = _of_packed_halves(call, product, tile)
    if halves is not None and halves.workgroup_bytes <= most:
        yield Candidate([halves], f"{tile.reason}, products in f16", frozenset({HALF_PRECISION}))
    if tile.nbytes <= most:
        kernel = _kernel(call, product, tile)
        yield Candidate([kernel if product.integers is None else product.integers(kernel)], tile.reason)


def workgroup_stack(call: Call, sizes: tuple[int, int, int, int], x: Read, w: Read, y: Write) -> Kernel:
    """Compute y[k] = x[k] . w[k] for a stack of matrices, in the tiles that suit their sizes.

    sizes: matrices, and of each rows, depth, and channels, of which 4 divides the last two. w: float32
    [matrices, depth, channels].
    """
    count, rows, depth, channels = sizes
    stack = replace(call, outputs=(TensorType(DType.FLOAT32, (count, rows, channels)),), attrs={})
    product = replace(matrix_product(depth, (w, Read("bias", None))), matrices=count, row=0)
    tile = _other_size(stack, product) or TILE
    kernel = _kernel(stack, product, tile if tile.nbytes <= call.device.limit(_MEMORY) else TILE)
    rows_read, *others = kernel.reads
    reads = (replace(rows_read, operand=x.operand), *others)
    return replace(kernel, reads=reads, writes=(replace(kernel.writes[0], output=y.output),))


def _kernels_of_parts(call: Call, product: Product, parts: int) -> list[Kernel]:
    """Make the kernel that computes parts of each sum, and the one that adds these up."""
    kernel, depth = _kernel(call, product, TILE), 4 * TILE.fours
    steps = ceil_div(product.depth, depth * parts)
    parts = ceil_div(product.depth, depth * steps)
    of_parts = replace(
        kernel,
        threads=flat_threads(parts * _tiles(call, product) * WIDTH, WIDTH),
        params={**kernel.params, "PARTS": parts, "PART": steps * TILE.fours},
        loop_iterations=steps,
        reason=f"{kernel.reason}, {parts} parts of the depth",
    )
    return added_parts(call, of_parts, parts)


def _kernel(
    call: Call,
    product: Product,
    tile: WorkgroupTile,
    arithmetic: str = "workgroup_reals",
    halves: bool = False,
) -> Kernel:
    """Make the kernel, with products in f32 if the library for their arithmetic does not say otherwise."""
    rows, channels = product.sizes(call)
    packed = channels if product.computed else ceil_div(channels, COLUMNS) * COLUMNS
    across, down = ceil_div(channels, tile.side), ceil_div(rows, tile.side)
    nbytes = tile.nbytes // 2 + _FLAGS if halves else tile.nbytes
    steps = ceil_div(product.depth, 4)
    several = f"{product.matrices} products of " if product.matrices > 1 else ""
    by_rows = RowLoads(product.row, across) if product.row else None
    return Kernel(
        body=product.body,
        threads=flat_threads(product.matrices * down * across * WIDTH, WIDTH),
        workgroup=(WIDTH, 1, 1),
        reads=(
            Read("x", 0, product.width, by_rows=by_rows, pitch=product.pitch),
            *(product.reads or channel_reads(call, pack_deep_filter)),
        ),
        writes=(Write(width=vec_width(channels)),),
        params={
            **product.params,
            **({} if product.pitch is None else product.pitch.params("x")),
            "MATRICES": product.matrices,
            "M": rows,
            "N": channels,
            "N4": ceil_div(packed, 4),
            "K4": steps,
            "ACROSS": across,
            "DOWN": down,
            "PARTS": 1,
            "PART": steps,
        },
        constants=tile.constants,
        functions=activation_function(call),
        libraries=(arithmetic, *product.libraries, *row_library(product.matrices * rows, channels)),
        loop_iterations=ceil_div(steps, tile.fours),
        workgroup_bytes=nbytes if nbytes > DEFAULT_LIMITS[_MEMORY] else 0,
        generated=tile.written(halves),
        halves=halves,
        reason=f"{several}{rows} rows x depth {product.depth} x {channels} channels: {tile.kept}",
    )


def _of_packed_halves(call: Call, product: Product, tile: WorkgroupTile) -> Kernel:
    """Make the kernel with products in f16, of a filter that is scaled when it is packed."""
    kernel = _halves(call, product, tile, "workgroup_packed_halves")
    x, w, bias = kernel.reads
    nbytes = 4 * ceil_div(call.y.shape[-1], COLUMNS) * COLUMNS
    scales = Read("scales", 1, 4, Pack(pack_scales), dtype=DType.FLOAT32, nbytes=nbytes)
    return replace(kernel, reads=(x, replace(w, pack=Pack(pack_scaled)), bias, scales))


def _of_scaled_halves(call: Call, product: Product) -> Kernel:
    """Make the kernel with products in f16, of two matrices that it scales itself."""
    kernel = _halves(call, product, TILE, "workgroup_scaled_halves")
    twice = 2 * kernel.loop_iterations + 1  # it looks for what is largest before
    return replace(kernel, loop_iterations=twice)


def _halves(call: Call, product: Product, tile: WorkgroupTile, arithmetic: str) -> Kernel:
    kernel = _kernel(call, product, tile, arithmetic, halves=True)
    constants, reason = {**kernel.constants, "FAR": FAR}, f"{kernel.reason}; sums of 8 products in f16"
    return replace(kernel, constants=constants, reason=reason)
