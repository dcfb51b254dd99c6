"""Writing and adding values at indices: scatter_nd, sparse_to_dense.

Indices are int32 or int64. An index out of range raises ModelError, at compilation if the indices are
constants, else in the run. The GPU adds updates in their order (ops/kernels/by_row.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpunn.kernel import Function, Kernel, Read, size_of
from gpunn.ops.call import Call
from gpunn.ops.check import INDICES, NUMBERS, expect_ints, expect_unquantised
from gpunn.ops.elementwise.binary import joining
from gpunn.ops.guard import Guard
from gpunn.ops.indexing import gradients
from gpunn.ops.kernels.by_row import Updates
from gpunn.ops.kernels.strides import dense
from gpunn.ops.op import EIGHT_BITS, Op, op
from gpunn.types import Array, DType, TensorType


def _infer_sparse(call: Call) -> TensorType:
    indices = expect_unquantised(call, 0, *INDICES)
    values, default = call.input(1), call.input(2)
    shape = expect_ints(call, "shape")
    if any(n < 0 for n in shape):
        call.fail(f"shape must be >= 0, got {list(shape)}")
    if indices.rank > 2 or (indices.shape[1] if indices.rank == 2 else 1) != len(shape):
        call.fail(f"indices {indices} do not name elements of shape {list(shape)}")
    count = indices.shape[0] if indices.rank else 1
    if values.shape not in ((), (1,), (count,)):
        call.fail(f"there must be one value, or {count}, got {values}")
    if default.size != 1 or default.dtype is not values.dtype or default.quantization != values.quantization:
        call.fail(f"the default must be one element like those of {values}, got {default}")
    return values.with_shape(shape)


def _sparse_kernels(call: Call) -> list[Kernel]:
    indices, values = call.x, call.input(1)
    updates = Updates(
        index=0,
        count=indices.shape[0] if indices.rank else 1,
        width=indices.shape[1] if indices.rank == 2 else 1,
        extents=tuple(call["shape"]),
    )
    return updates.joined(call, 1, Function(("a", "b"), "b"), Read("start", 2), 1, shared=values.size == 1)


def _places(call: Call) -> list[range]:
    return [range(n) for n in call["shape"]]


@op(
    _infer_sparse,
    _sparse_kernels,
    guards=(Guard(0, _places),),
    raw=True,
    strings=True,
    gradient=gradients.SPARSE_TO_DENSE,
)
def sparse_to_dense(indices: Array, values: Array, default: Array, *, shape: Sequence[int]) -> Array:
    """Make a tensor of `shape`, filled with `default`, with values[i] at indices[i].

    indices [K, rank], or [K] (for rank 1), or one number; values [K], or one for all. Of several values for
    one place the last one counts. Raises ModelError for other shapes and dtypes and, in the run, for an index
    outside of the shape. TFLite schema, SparseToDenseOptions (indices are always validated).
    """
    places = indices.reshape(len(indices) if indices.ndim == 2 else indices.size, len(shape))
    result = np.full(size_of(tuple(shape)), default.reshape(()), values.dtype)
    result[places.astype(np.int64) @ np.asarray(dense(tuple(shape)), np.int64)] = values.reshape(-1)
    return result.reshape(tuple(shape))


def _infer_scatter(call: Call) -> TensorType:
    indices, updates = (
        expect_unquantised(call, 0, *INDICES),
        expect_unquantised(call, 1, *NUMBERS, *EIGHT_BITS, DType.BOOL),
    )
    shape = expect_ints(call, "shape")
    depth = indices.shape[-1] if indices.rank else 0
    if indices.rank < 1 or depth > len(shape) or any(n < 0 for n in shape):
        call.fail(f"indices {indices} do not name slices of shape {list(shape)}")
    if updates.shape != (*indices.shape[:-1], *shape[depth:]):
        call.fail(f"updates must have shape {[*indices.shape[:-1], *shape[depth:]]}, got {updates}")
    return updates.with_shape(shape)


def _scatter_kernels(call: Call) -> list[Kernel]:
    shape, depth = tuple(call["shape"]), call.x.shape[-1]
    updates = Updates(index=0, count=size_of(call.x.shape[:-1]), width=depth, extents=shape[:depth])
    join = joining("logical_or" if call.y.dtype is DType.BOOL else "add", call.y.dtype)
    return updates.joined(call, 1, join, Read("start", None), size_of(shape[depth:]))


def _slices(call: Call) -> list[range]:
    return [range(n) for n in call["shape"][: call.x.shape[-1]]]


@op(
    _infer_scatter,
    _scatter_kernels,
    guards=(Guard(0, _slices),),
    dtypes=EIGHT_BITS,
    flops=lambda call: call.input(1).size,
    gradient=gradients.SCATTER_ND,
)
def scatter_nd(indices: Array, updates: Array, *, shape: Sequence[int]) -> Array:
    """Add updates[i] to zeros of `shape`, at the slices that indices[i] name.

    indices [..., d] int32 or int64, updates [..., *shape[d:]]: float32, float16, int32, int64, int8 or uint8,
    whose sums wrap around, or bool, which are or-ed. Raises ModelError for other shapes and dtypes and, in
    the run, for indices out of range. TFLite schema, ScatterNdOptions.
    """
    depth = indices.shape[-1]
    result = np.zeros((size_of(tuple(shape[:depth])), *shape[depth:]), updates.dtype)
    rows = indices.reshape(size_of(indices.shape[:-1]), depth).astype(np.int64)
    places = rows @ np.asarray(dense(tuple(shape[:depth])), np.int64)
    join = np.logical_or if updates.dtype == bool else np.add
    join.at(result, places, updates.reshape(len(places), *shape[depth:]))
    return result.reshape(tuple(shape))


OPS: tuple[Op, ...] = (scatter_nd, sparse_to_dense)
