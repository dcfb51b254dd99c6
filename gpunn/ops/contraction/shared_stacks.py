"""Products of stacks of computed matrices whose rows a subgroup shares: matrices are packed before."""

from __future__ import annotations

import math
from dataclasses import replace

from gpunn.kernel import Kernel, Read, Scratch, Write, fits_i32, size_of
from gpunn.ops.call import Call
from gpunn.ops.contraction.broadcast_tile import shared_stack, stack
from gpunn.ops.contraction.computed_filter import block_packed
from gpunn.ops.contraction.filter_packing import block_extents
from gpunn.ops.contraction.product_rescaling import Rescaling
from gpunn.ops.contraction.shared_integers import of_shared_sums
from gpunn.ops.elementwise.unary_kernel import elementwise
from gpunn.ops.kernels.strides import matrix_steps
from gpunn.rows import Pitch
from gpunn.types import DType, TensorType

_LEAST_OF_STACKS = 1 << 16  # products of numbers; fewer take less time than dispatches that pack matrices

Sizes = tuple[int, int, int, int]  # matrices, and the rows, depth and columns of each product


def depth_of(call: Call) -> int:
    """Return the number of products in one sum."""
    return call.x.shape[-2 if call["adj_a"] else -1]


def stack_of(call: Call) -> Sizes | None:
    """Return how many computed matrices rows are multiplied with, then the rows, depth and columns of each.

    None if rows of a do not lie one behind the other, if matrices serve several stacks of rows, or for
    little work.
    """
    rows, depth, columns = call.y.shape[-2], depth_of(call), call.y.shape[-1]
    batch, matrices = (size_of(shape[:-2]) for shape in (call.y.shape, call.input(1).shape))
    if call["adj_a"] or call.constant[1] or call.x.size != batch * rows * depth:
        return None
    if matrices == 1:
        batch, rows = 1, batch * rows
    packed = batch * math.prod(block_extents(columns, depth))
    worth = batch * rows * depth * columns >= _LEAST_OF_STACKS
    possible = matrices == batch and worth and fits_i32(call.x.size, call.y.size, packed)
    return (batch, rows, depth, columns) if possible else None


def packed_stack(call: Call, sizes: Sizes) -> list[Kernel]:
    """Make the kernels that pack computed matrices, and the one of rows that subgroups share."""
    packs, w = _packed(call, sizes)
    return [*packs, shared_stack(call, sizes, Read("x", 0, pitch=Pitch(sizes[2])), w, Write())]


def _packed(call: Call, sizes: Sizes) -> tuple[list[Kernel], Read]:
    """Make the kernels that pack computed matrices; return also how the product reads them."""
    count, _, depth, columns = sizes
    down, across = matrix_steps(call.input(1).shape, call["adj_b"])
    packs, (w, _) = block_packed(call, columns, depth, (across, down), count)
    return packs, w


def integer_stack(call: Call, sizes: Sizes, how: Rescaling) -> list[Kernel]:
    """Make the kernels that turn matrices of bytes into reals and pack these, and the one of shared rows."""
    b, matrices = call.input(1), Scratch(TensorType(DType.FLOAT32, call.input(1).shape))
    alone = replace(call, inputs=(b,), outputs=(matrices.type,))
    centre = elementwise(alone, "T(x) - p.zero", {"zero": float(how.zero_w)})
    centre = replace(
        centre,
        reads=(replace(centre.reads[0], operand=1),),
        writes=(replace(centre.writes[0], output=matrices),),
        pointwise=None,
    )
    packs, w = _packed(replace(call, inputs=(call.x, matrices.type)), sizes)
    packs = [replace(k, reads=tuple(_from(matrices, read) for read in k.reads)) for k in packs]
    product = stack(call, sizes, Read("x", 0), w, Write())
    return [centre, *packs, of_shared_sums(call, how, product, sizes[2], centred=True)]


def _from(tensor: Scratch, read: Read) -> Read:
    """Return a read of operand 1 as one of a tensor."""
    return replace(read, operand=tensor) if read.operand == 1 else read
