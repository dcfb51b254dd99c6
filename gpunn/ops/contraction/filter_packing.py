"""Constant filters and biases as the kernels of products want them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpunn.kernel import Pack, Read, ceil_div
from gpunn.ops.call import Call
from gpunn.ops.kernels.tiling import COLUMNS
from gpunn.types import Array

BLOCK = 32  # output channels that lie together where filters are packed by blocks
STEP = 8  # elements of the depth in a step over such a filter


def pack_filter(filter: Array) -> Array:
    """Pack [O, ..., I] as [..., I, O padded to a multiple of COLUMNS]: output channels are the fast axis."""
    matrix = filter.reshape(filter.shape[0], -1).T
    return np.pad(matrix, [(0, 0), (0, -matrix.shape[1] % COLUMNS)])


def pack_groups(filter: Array, groups: int) -> Array:
    """Pack [O, ..., I] as [..., I, groups x channels of a group, padded to a multiple of 4]."""
    of_group = filter.reshape(groups, filter.shape[0] // groups, -1)
    padded = np.pad(of_group, [(0, 0), (0, -of_group.shape[1] % 4), (0, 0)])
    return np.ascontiguousarray(padded.reshape(-1, of_group.shape[2]).T)


def pack_deep_filter(filter: Array) -> Array:
    """Pack as pack_filter() does, with zeros behind the depth up to a multiple of 4."""
    packed = pack_filter(filter)
    return np.pad(packed, [(0, -packed.shape[0] % 4), (0, 0)])


def pack_blocks(filter: Array, zero: int = 0) -> Array:
    """Pack [O, ..., I] as [blocks, depth, BLOCK]: each block of output channels lies together.

    Zeros fill the depth up to a multiple of STEP and the channels up to one of BLOCK.
    """
    matrix = filter.reshape(filter.shape[0], math.prod(filter.shape[1:]))
    behind = [(0, -matrix.shape[0] % BLOCK), (0, -matrix.shape[1] % STEP)]
    matrix = np.pad(matrix, behind, constant_values=zero)
    return np.ascontiguousarray(
        matrix.reshape(len(matrix) // BLOCK, BLOCK, matrix.shape[1]).transpose(0, 2, 1)
    )


def pack_bias(bias: Array, multiple: int = COLUMNS) -> Array:
    """Pad [O] to a multiple."""
    return np.pad(bias, (0, -bias.size % multiple))


def block_reads(call: Call) -> tuple[Read, Read]:
    """Return the filter (input 1), packed by blocks, and bias (input 2, may be absent) of a call."""
    filter = call.input(1)
    channels, depth = block_extents(filter.shape[0], math.prod(filter.shape[1:]))
    bias = Read("bias", 2, 4, Pack(pack_bias, (BLOCK,))) if call.has(2) else Read("bias", None)
    return Read("w", 1, 4, Pack(pack_blocks), nbytes=channels * depth * filter.dtype.numpy.itemsize), bias


def block_extents(channels: int, depth: int) -> tuple[int, int]:
    """Return the output channels and the depth of a filter that is packed by blocks."""
    return ceil_div(channels, BLOCK) * BLOCK, ceil_div(depth, STEP) * STEP


def group_reads(call: Call, groups: int) -> tuple[Read, Read]:
    """Return the filter (input 1) and bias (input 2, may be absent) of a call, packed by pack_groups()."""
    filter, pack = call.input(1), Pack(pack_groups, (groups,))
    packed = groups * ceil_div(filter.shape[0] // groups, 4) * 4
    nbytes = packed * math.prod(filter.shape[1:]) * filter.dtype.numpy.itemsize
    return Read("w", 1, 4, pack, nbytes=nbytes), Read("bias", 2, 4, pack) if call.has(2) else Read(
        "bias", None
    )


def channel_reads(call: Call, pack: Callable[[Array], Array] = pack_filter) -> tuple[Read, Read]:
    """Return the packed filter (input 1) and bias (input 2, may be absent) of a call."""
    bias = Read("bias", 2, 4, Pack(pack_bias)) if call.has(2) else Read("bias", None)
    filter = call.input(1)
    row = math.prod(filter.shape[1:])
    depth = ceil_div(row, 4) * 4 if pack is pack_deep_filter else row
    nbytes = ceil_div(filter.shape[0], COLUMNS) * COLUMNS * depth * filter.dtype.numpy.itemsize
    return Read("w", 1, 4, Pack(pack), nbytes=nbytes), bias
