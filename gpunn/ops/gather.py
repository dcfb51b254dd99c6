"""Picking by computed indices, and scattering: gather, gather_nd, scatter_nd, sparse_to_dense.

Indices are int32, on the host int64 too; one that is out of range raises ModelError, at compilation where
indices are constants, else in the run. Values are of any dtype and keep their type, quantisation included.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpunn.errors import ModelError
from gpunn.kernel import Kernel, Read, Unsupported, Write, flat_threads, size_of, vec_width
from gpunn.ops.check import INDICES, NUMBERS, expect_int, expect_ints, expect_unquantised
from gpunn.ops.op import Call, Guard, Op, op
from gpunn.ops.strides import dense
from gpunn.types import Array, DType, Shape, TensorType


def rows_kernel(
    y: TensorType, index: int, values: int, *, outer: int, rows: int, picks: int, row: int
) -> Kernel:
    """The kernel that picks `picks` of the `rows` rows of each block of input `values`.

    Input `index` holds the rows' numbers; `outer` successive blocks, a batch, pick alike. A row has `row`
    elements.
    """
    lanes = vec_width(row)
    count = y.size // lanes
    return Kernel(
        body="gather_rows",
        threads=flat_threads(count),
        workgroup=(64, 1, 1),
        reads=(Read("index", index), Read("x", values, width=lanes)),
        writes=(Write(width=lanes),),
        params={"count": count, "row": row // lanes, "rows": rows, "picks": picks, "outer": outer},
        lanes=lanes,
        reason="row by row",
    )


def expect_range(op: str, indices: Array, extents: Array) -> None:
    """ModelError unless every index is within the extents, to which it broadcasts."""
    wrong = (indices < 0) | (indices >= extents)
    if wrong.any():
        at = tuple(int(i[0]) for i in np.nonzero(wrong))
        most = int(np.broadcast_to(extents, indices.shape)[at]) - 1
        raise ModelError(f"{op}: indices must be in 0 ... {most}, got {indices[at]}")


def _batch_dims(call: Call) -> int:
    """Attribute batch_dims, which counts from the end of the indices' dimensions when it is negative."""
    given, rank = expect_int(call, "batch_dims", call["batch_dims"]), call.input(1).rank
    if not -rank <= given <= rank:
        call.fail(f"batch_dims {given} is out of range for indices of rank {rank}")
    return given + rank if given < 0 else given


def _infer_gather(call: Call) -> TensorType:
    x, indices = call.x, expect_unquantised(call, 1, *INDICES)
    axis = call.axis(expect_int(call, "axis", call["axis"]), x.rank)
    batch = _batch_dims(call)
    if batch > axis:
        call.fail(f"batch_dims {batch} must not be over axis {axis}")
    if x.shape[:batch] != indices.shape[:batch]:
        call.fail(f"the first {batch} dimensions must be equal, got {x} and indices {indices}")
    return x.with_shape((*x.shape[:axis], *indices.shape[batch:], *x.shape[axis + 1 :]))


def _gather_kernel(call: Call) -> Kernel:
    x, indices = call.x, call.input(1)
    axis = call.axis(call["axis"], x.rank)
    batch = _batch_dims(call)
    return rows_kernel(
        call.y,
        1,
        0,
        outer=size_of(x.shape[batch:axis]),
        rows=x.shape[axis],
        picks=size_of(indices.shape[batch:]),
        row=size_of(x.shape[axis + 1 :]),
    )


def _check_gather(call: Call, indices: Array) -> None:
    expect_range("gather", indices, np.asarray(call.x.shape[call.axis(call["axis"], call.x.rank)]))


@op(_infer_gather, _gather_kernel, guard=Guard(1, _check_gather), raw=True, strings=True)
def gather(x: Array, indices: Array, *, axis: int = 0, batch_dims: int = 0) -> Array:
    """The slices of x along `axis` that the indices name: their dimensions take the place of the axis.

    The first batch_dims dimensions, no more than axis, are common to x and indices: each batch has indices
    of its own. Both numbers may be negative. Raises ModelError for other dtypes of indices, numbers out of
    range, dimensions that differ, and an index outside of 0 ... n - 1. TFLite schema, GatherOptions.
    """
    axis, batch = axis % x.ndim, batch_dims + (indices.ndim if batch_dims < 0 else 0)
    expect_range("gather", indices, np.asarray(x.shape[axis]))
    shape = (*x.shape[:axis], *indices.shape[batch:], *x.shape[axis + 1 :])
    if not size_of(shape):
        return np.empty(shape, x.dtype)
    blocks = x.reshape(size_of(x.shape[:batch]), *x.shape[batch:])
    picks = indices.reshape(len(blocks), *indices.shape[batch:])
    pairs = zip(blocks, picks, strict=True)
    return np.stack([np.take(block, pick, axis=axis - batch) for block, pick in pairs]).reshape(shape)


def _infer_gather_nd(call: Call) -> TensorType:
    x, indices = call.x, expect_unquantised(call, 1, *INDICES)
    if indices.rank < 1:
        call.fail("indices must have rank 1 or more, got a scalar")
    depth = indices.shape[-1]
    if depth > x.rank:
        call.fail(f"indices of {depth} numbers are too long for {x}")
    return x.with_shape((*indices.shape[:-1], *x.shape[depth:]))


def _gather_nd_kernel(call: Call) -> Kernel:
    x, depth = call.x, call.input(1).shape[-1]
    if depth > 4:
        raise Unsupported(f"indices of {depth} numbers, the shader takes 4")
    row = size_of(x.shape[depth:])
    lanes = vec_width(row)
    count = call.y.size // lanes
    steps = tuple(step // max(row, 1) for step in dense(x.shape)[:depth])
    return Kernel(
        body="gather_nd",
        threads=flat_threads(count),
        workgroup=(64, 1, 1),
        reads=(Read("index", 1), Read("x", 0, width=lanes)),
        writes=(Write(width=lanes),),
        params={
            "count": count,
            "row": row // lanes,
            "depth": depth,
            "extent": _first(x.shape[:depth], 1),
            "step": _first(steps, 0),
        },
        lanes=lanes,
        reason="row by row",
    )


def _first(values: Shape, fill: int) -> tuple[int, int, int, int]:
    """Up to four numbers left-aligned into four, filled up behind."""
    a, b, c, d = values + (fill,) * (4 - len(values))
    return a, b, c, d


def _check_gather_nd(call: Call, indices: Array) -> None:
    expect_range("gather_nd", indices, np.asarray(call.x.shape[: indices.shape[-1]]))


@op(_infer_gather_nd, _gather_nd_kernel, guard=Guard(1, _check_gather_nd), raw=True, strings=True)
def gather_nd(x: Array, indices: Array) -> Array:
    """The slices of x that rows of numbers name: y[...] = x[indices[..., 0], indices[..., 1], ...].

    indices [..., d] with d up to x's rank (4 on the GPU); result [..., the other dimensions of x]. Raises
    ModelError for other dtypes of indices, for more numbers than dimensions, and for one outside of 0 ... n -
    1. TFLite schema, GatherNdOptions.
    """
    depth = indices.shape[-1]
    expect_range("gather_nd", indices, np.asarray(x.shape[:depth]))
    shape = (*indices.shape[:-1], *x.shape[depth:])
    return np.asarray(x[tuple(np.moveaxis(indices, -1, 0))]).reshape(shape) if depth else _repeated(x, shape)


def _repeated(x: Array, shape: Shape) -> Array:
    """x once for each row of no numbers."""
    return np.broadcast_to(x, shape).copy()


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


@op(
    _infer_sparse,
    host_reason="SPARSE_TO_DENSE writes where indices say, in their order",
    raw=True,
    strings=True,
)
def sparse_to_dense(indices: Array, values: Array, default: Array, *, shape: Sequence[int]) -> Array:
    """A tensor of `shape`, filled with `default`, with values[i] at indices[i].

    indices [K, rank], or [K] (for rank 1), or one number; values [K], or one for all. The last of several
    values for one place stays. Raises ModelError for other shapes and dtypes and, in the run, for an index
    outside of the shape. TFLite schema, SparseToDenseOptions (indices are always validated).
    """
    places = indices.reshape(len(indices) if indices.ndim == 2 else indices.size, len(shape))
    expect_range("sparse_to_dense", places, np.asarray(shape))
    result = np.full(size_of(tuple(shape)), default.reshape(()), values.dtype)
    result[places.astype(np.int64) @ np.asarray(dense(tuple(shape)), np.int64)] = values.reshape(-1)
    return result.reshape(tuple(shape))


def _infer_scatter(call: Call) -> TensorType:
    indices, updates = (
        expect_unquantised(call, 0, *INDICES),
        expect_unquantised(call, 1, *NUMBERS, DType.BOOL),
    )
    shape = expect_ints(call, "shape")
    depth = indices.shape[-1] if indices.rank else 0
    if indices.rank < 1 or depth > len(shape) or any(n < 0 for n in shape):
        call.fail(f"indices {indices} do not name slices of shape {list(shape)}")
    if updates.shape != (*indices.shape[:-1], *shape[depth:]):
        call.fail(f"updates must have shape {[*indices.shape[:-1], *shape[depth:]]}, got {updates}")
    return updates.with_shape(shape)


@op(_infer_scatter, host_reason="SCATTER_ND adds up where indices say, in their order")
def scatter_nd(indices: Array, updates: Array, *, shape: Sequence[int]) -> Array:
    """Zeros of `shape` to which updates[i] are added at the slices that indices[i] name.

    indices [..., d] int32 or int64, updates [..., *shape[d:]]: float32, int32, or float16, int64 and bool, of
    which those for one place are or-ed. Raises ModelError for other shapes and dtypes and, in the run, for
    indices out of range. TFLite schema, ScatterNdOptions.
    """
    depth = indices.shape[-1]
    expect_range("scatter_nd", indices, np.asarray(shape[:depth]))
    result = np.zeros((size_of(tuple(shape[:depth])), *shape[depth:]), updates.dtype)
    rows = indices.reshape(size_of(indices.shape[:-1]), depth).astype(np.int64)
    places = rows @ np.asarray(dense(tuple(shape[:depth])), np.int64)
    join = np.logical_or if updates.dtype == bool else np.add
    join.at(result, places, updates.reshape(len(places), *shape[depth:]))
    return result.reshape(tuple(shape))


OPS: tuple[Op, ...] = (gather, gather_nd, scatter_nd, sparse_to_dense)
