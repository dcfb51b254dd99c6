"""Convolutions as products of what windows see, which is copied into rows before (shaders/unfold.wgsl)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from gpunn.device import SUBGROUPS
from gpunn.kernel import Candidate, Kernel, Read, Scratch, Write, flat_threads, nested, vec_width
from gpunn.ops.call import Call
from gpunn.ops.contraction.broadcast_tile import OF_PRODUCTS, ByTile, pays_off, row_sums
from gpunn.ops.contraction.filter_packing import STEP, block_extents
from gpunn.ops.kernels.tiling import ROWS, WORKGROUP
from gpunn.ops.kernels.window import Window, window_params
from gpunn.ops.op import EIGHT_BITS
from gpunn.rows import Pitch
from gpunn.types import DType, TensorType

_BYTES = 4  # of a word
# Bytes that windows see: they are written in less time than a shader is compiled. The latter: of elements of
# 8 bits in few channels.
_FEW, _FEW_OF_BYTES = 1 << 20, 1 << 21


def with_unfolded(
    call: Call,
    window: Window,
    product: Callable[[Kernel, int], Kernel],
    others: Iterable[Candidate],
    absent: int = 0,
    gain: ByTile = OF_PRODUCTS,
) -> Iterator[Candidate]:
    """Yield ways for one group and a constant filter: rows of all that windows see before others for little.

    The product of these rows has the pipeline of a network's other products, so lavapipe compiles 0.15 s less
    for a first answer (0.6 s with Mesa 25). Where windows see few channels, such a layer takes 1.6 times as
    long in float32, 2 % of MobileNet's time, and less time in 8 bits. Where they see many, it takes as long
    as before, of 8 bits also with four times the elements. SwiftShader compiles either in little time.

    product: completes a kernel of sums of so many products. absent: the element that stands for padding, as
    it is stored. gain: as of with_shared_rows().
    """
    rows, channels = math.prod(call.y.shape[:-1]), call.y.shape[-1]
    depth = block_extents(channels, math.prod(call.input(1).shape[1:]))[1]
    several = not window.pointwise and not call.device.subgroups_of_four
    # A network of float16 tensors wants little memory, and these rows would be its largest tensor.
    small = call.x.dtype is DType.FLOAT16 or call.y.dtype is DType.FLOAT16
    whole = not small and rows >= ROWS
    if several and whole and _little(call, rows * depth) and pays_off(rows, channels, call.device, gain):
        sums = product(row_sums(call, rows, depth, channels, None), depth)
        kernels = _unfolded(call, window, sums, depth, absent)
        yield Candidate(kernels, "rows of what windows see", frozenset({SUBGROUPS}))
    yield from others


def _little(call: Call, elements: int) -> bool:
    """Tell whether so many elements that windows see are soon written."""
    nbytes, per_row = elements * call.x.dtype.numpy.itemsize, elements // math.prod(call.y.shape[:-1])
    if call.x.shape[-1] % STEP == 0:
        return nbytes <= _FEW
    return per_row <= call.y.shape[-1] or (call.x.dtype in EIGHT_BITS and nbytes <= _FEW_OF_BYTES)


def _unfolded(call: Call, window: Window, product: Kernel, depth: int, absent: int) -> tuple[Kernel, Kernel]:
    """Make the kernels that copy what windows see, and multiply it.

    Bytes are copied by words of four, or four words at once: where 16 x 16 pixels see 288 bytes each, these
    take lavapipe 50 us of CPU time instead of 100 to 170 for bytes that are taken apart and put together.
    """
    _, height, width, channels = call.x.shape
    rows, terms = math.prod(call.y.shape[:3]), channels * math.prod(window.size)
    together = _BYTES if call.x.dtype in EIGHT_BITS and channels % _BYTES == 0 else 1
    singly = call.x.dtype in EIGHT_BITS and together == 1
    lanes = vec_width(channels // together)
    at_once = together * lanes
    dtype = DType.INT32 if together > 1 else call.x.dtype
    seen, pixels = Scratch(TensorType(dtype, (rows, depth // together))), Pitch(channels, at_once)
    counts = {"C": channels // at_once, "K": terms // at_once, "DEPTH": depth // at_once}
    params = {**window_params(window, height, width), **pixels.params("x"), **counts}
    word = (absent & 0xFF) * 0x01010101 if together > 1 else absent & 0xFFFFFFFF
    unfold = Kernel(
        body="unfold",
        threads=flat_threads(rows),
        workgroup=WORKGROUP,
        reads=(Read("x", 0, lanes, dtype=dtype, pitch=pixels),),
        writes=(Write(output=seen, width=4 if singly else lanes),),
        params={**params, "count": rows, "absent": word},
        libraries=("seen_bytes" if singly else "seen",),
        lanes=lanes,
        loop_iterations=nested(depth // at_once).iterations,
        index_bound=True,
        reason=f"what the windows of {rows} pixels see: {terms} elements each",
    )
    x, *others = product.reads
    return unfold, replace(product, reads=(replace(x, operand=seen, dtype=call.x.dtype), *others))
