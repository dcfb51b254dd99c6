"""Filters and biases that are computed, packed on the device as constants are when a model is compiled."""

from __future__ import annotations

from dataclasses import replace

from gpunn.kernel import Kernel, Read, Scratch, ceil_div
from gpunn.ops.call import Call
from gpunn.ops.contraction.filter_packing import BLOCK, block_extents, block_reads, channel_reads
from gpunn.ops.kernels.copies import strided_copy
from gpunn.ops.kernels.tiling import COLUMNS
from gpunn.types import Shape

_REASON = "packs what is computed"


def packed_reads(call: Call) -> tuple[list[Kernel], tuple[Read, Read]]:
    """Return the reads of channel_reads() for tensors that may be computed, and the kernels that pack these.

    The kernels leave open what lies behind the last channel; nobody stores the sums there.
    """
    filter, bias = channel_reads(call)
    channels = call.input(1).shape[0]
    padded = ceil_div(channels, COLUMNS) * COLUMNS
    kernels: list[Kernel] = []
    if not call.constant[1]:
        depth = call.input(1).size // max(channels, 1)
        filter = _packed(kernels, call, filter, (depth, channels), (1, depth), (depth, padded))
    if call.has(2) and not call.constant[2]:
        bias = _packed(kernels, call, bias, (channels,), (1,), (padded,))
    return kernels, (filter, bias)


def block_packed(
    call: Call, channels: int, depth: int, steps: tuple[int, int], matrices: int = 1
) -> tuple[list[Kernel], tuple[Read, Read]]:
    """Return the reads of block_reads() for tensors that may be computed, and the kernels that pack these.

    steps: from an output channel of the filter to the next, and along its depth. matrices: how many filters
    lie one behind the other, packed as well.
    """
    filter, bias = block_reads(call)
    kernels: list[Kernel] = []
    packed, deep = block_extents(channels, depth)
    if not call.constant[1]:
        target = Scratch(call.input(1).with_shape((matrices * packed // BLOCK, deep, BLOCK)))
        whole, rest = divmod(channels, BLOCK)
        (across, down), one, to = steps, channels * depth, packed * deep
        if whole:
            walk, place = (one, BLOCK * across, down, across), (to, deep * BLOCK, BLOCK, 1)
            kernels.append(_copy((matrices, whole, depth, BLOCK), walk, place, 0, 0, target))
        if rest:
            x, y = whole * BLOCK * across, whole * deep * BLOCK
            kernels.append(_copy((matrices, depth, rest), (one, down, across), (to, BLOCK, 1), x, y, target))
        if deep > depth:
            behind = matrices * packed // BLOCK, (deep - depth) * BLOCK
            kernels.append(_copy(behind, None, (deep * BLOCK, 1), 0, depth * BLOCK, target))
        filter = replace(filter, operand=target, pack=None, nbytes=0)
    if call.has(2) and not call.constant[2]:
        bias = _packed(kernels, call, bias, (channels,), (1,), (packed,))
    return kernels, (filter, bias)


def _copy(sizes: Shape, x: Shape | None, y: Shape, x_start: int, y_start: int, target: Scratch) -> Kernel:
    """Make the kernel that copies a part of the filter, or zeros if x is None."""
    source, walk = (Read("x", None), (0,) * len(sizes)) if x is None else (Read("x", 1), x)
    return strided_copy(
        source, sizes, walk, y, x_start=x_start, y_start=y_start, output=target, reason=_REASON
    )


def spread_reads(call: Call, constant: Read) -> tuple[list[Kernel], Read]:
    """Return the read of a filter [O, KH, KW, I] as [KH, KW, I, O], and the kernels that pack it so.

    `constant` is the read of a constant one.
    """
    if call.constant[1]:
        return [], constant
    channels = call.input(1).shape[0]
    depth = call.input(1).size // max(channels, 1)
    kernels: list[Kernel] = []
    return kernels, _packed(kernels, call, constant, (depth, channels), (1, depth), (depth, channels))


def _packed(kernels: list[Kernel], call: Call, read: Read, sizes: Shape, walk: Shape, shape: Shape) -> Read:
    """Add the kernel that copies a tensor of `sizes`, walked so, into rows of `shape`; return its read."""
    assert isinstance(read.operand, int)
    target = Scratch(call.input(read.operand).with_shape(shape))
    steps = (shape[-1], 1) if len(shape) > 1 else (1,)
    source = Read("x", read.operand)
    kernels.append(strided_copy(source, sizes, walk, steps, output=target, reason=_REASON))
    return replace(read, operand=target, pack=None, nbytes=0)
