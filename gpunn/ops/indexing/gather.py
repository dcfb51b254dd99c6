"""Selection by computed indices: gather, gather_nd.

Indices are int32, int64 or int16. An index out of range raises ModelError, at compilation if the indices are
constants, else in the run. Values are of any dtype and keep their type, including quantisation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpunn.kernel import Kernel, Read, Write, flat_threads, size_of, vec_width
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import Axes, Space, each_axis
from gpunn.ops.call import Call
from gpunn.ops.check import INDICES, expect_int, expect_unquantised
from gpunn.ops.guard import Guard
from gpunn.ops.indexing import gradients
from gpunn.ops.kernels.each import each
from gpunn.ops.kernels.strides import dense
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, Shape, TensorType


def rows_kernel(
    y: TensorType, index: int, values: int, *, outer: int, rows: int, picks: int, row: int
) -> Kernel:
    """Make a kernel that selects `picks` of the `rows` rows of each block of input `values`.

    Input `index` contains the row numbers. `outer` successive blocks, a batch, select the same rows. A row
    has `row` elements.
    """
    lanes = vec_width(row)
    count = y.size // lanes
    kernel = Kernel(
        body="gather_rows",
        threads=flat_threads(count),
        reads=(Read("index", index), Read("x", values, width=lanes)),
        writes=(Write(width=lanes),),
        params={"count": count, "row": row // lanes, "rows": rows, "picks": picks, "outer": outer},
        lanes=lanes,
        reason="row by row",
    )
    return each(kernel, y)


def _batch_dims(call: Call) -> int:
    """Return attribute batch_dims; a negative one counts from the end of the indices' dimensions."""
    given, rank = expect_int(call, "batch_dims", call["batch_dims"]), call.input(1).rank
    if not -rank <= given <= rank:
        call.fail(f"batch_dims {given} is out of range for indices of rank {rank}")
    return given + rank if given < 0 else given


def _infer_gather(call: Call) -> TensorType:
    x, indices = call.x, expect_unquantised(call, 1, *INDICES, DType.INT16)
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


def _extent(call: Call) -> list[range]:
    return [range(call.x.shape[call.axis(call["axis"], call.x.rank)])]


def _space(call: Call) -> Space | None:
    """Return the axes of x, the gathered one together with those of the indices; None with batches."""
    rank, picked = call.x.rank, call.input(1).rank
    axis = call.axis(call["axis"], rank)
    if _batch_dims(call):
        return None
    before, after = range(axis), range(axis + picked, rank - 1 + picked)
    indices = tuple(tuple(range(picked)) if k == axis else () for k in range(rank))
    y = (*((k,) for k in before), tuple(range(axis, axis + picked)), *((k,) for k in after))
    return Space((each_axis(rank), indices), (y,))


def _prepare_gather(call: Call) -> Callable[..., Array] | None:
    """Return the selection of one slice along the first axis."""
    first = call.axis(call["axis"], call.x.rank) == 0 and not call.input(1).rank
    return (lambda x, index: x[index.item()]) if first else None


@op(
    _infer_gather,
    _gather_kernel,
    guards=(Guard(1, _extent),),
    raw=True,
    strings=True,
    algebra=Algebra(axes=Axes(space=_space, axis=("axis",), fixed=(1,))),
    prepare=_prepare_gather,
    gradient=gradients.GATHER,
)
def gather(x: Array, indices: Array, *, axis: int = 0, batch_dims: int = 0) -> Array:
    """Select the slices of x along `axis` that the indices name; their dimensions replace the axis.

    The first batch_dims dimensions, at most `axis` of them, are common to x and indices: each batch has
    indices of its own. Both numbers may be negative. Raises ModelError for other dtypes of indices, numbers
    out of range, dimensions that differ, and an index outside of 0 ... n - 1. TFLite schema, GatherOptions.
    """
    axis, batch = axis % x.ndim, batch_dims + (indices.ndim if batch_dims < 0 else 0)
    shape = (*x.shape[:axis], *indices.shape[batch:], *x.shape[axis + 1 :])
    if not size_of(shape):
        return np.empty(shape, x.dtype)
    if not batch:
        return np.take(x, indices, axis=axis)
    blocks = x.reshape(size_of(x.shape[:batch]), *x.shape[batch:])
    picks = indices.reshape(len(blocks), *indices.shape[batch:])
    pairs = zip(blocks, picks, strict=True)
    return np.stack([np.take(block, pick, axis=axis - batch) for block, pick in pairs]).reshape(shape)


def _infer_gather_nd(call: Call) -> TensorType:
    x, indices = call.x, expect_unquantised(call, 1, *INDICES, DType.INT16)
    if indices.rank < 1:
        call.fail("indices must have rank 1 or more, got a scalar")
    depth = indices.shape[-1]
    if depth > x.rank:
        call.fail(f"indices of {depth} numbers are too long for {x}")
    return x.with_shape((*indices.shape[:-1], *x.shape[depth:]))


def _gather_nd_kernel(call: Call) -> Kernel:
    x, depth = call.x, call.input(1).shape[-1]
    row = size_of(x.shape[depth:])
    lanes = vec_width(row)
    count = call.y.size // lanes
    steps = zip(x.shape[:depth], dense(x.shape[:depth]), strict=True)
    kernel = Kernel(
        body="gather_nd",
        threads=flat_threads(count),
        reads=(
            Read("index", 1),
            Read("step", None, value=np.array([*steps], np.int32)),
            Read("x", 0, width=lanes),
        ),
        writes=(Write(width=lanes),),
        params={"count": count, "row": row // lanes, "depth": depth},
        lanes=lanes,
        reason="row by row",
    )
    return each(kernel, call.y)


def _flat(shape: Shape, indices: Array) -> Array:
    """Return the numbers of the slices of a tensor [shape, ...] that rows of indices [..., d] name."""
    numbers = indices.astype(np.int64).reshape(-1, len(shape)) @ np.array(dense(shape), np.int64)
    return np.asarray(numbers)


def _rows_taken(x: Array, depth: int, numbers: Array, shape: Shape) -> Array:
    """Return slices [shape] of x along its first dimensions, `depth` of them, by their numbers."""
    return np.take(x.reshape(-1, size_of(x.shape[depth:])), numbers, axis=0).reshape(shape)


def _bind_gather_nd(call: Call, indices: Array) -> Callable[[Array], Array]:
    depth, shape = indices.shape[-1], call.y.shape
    numbers = _flat(call.x.shape[:depth], indices)
    return lambda x: _rows_taken(x, depth, numbers, shape)


def _prepare_gather_nd(call: Call) -> Callable[[Array, Array], Array] | None:
    return gather_nd.reference if call.input(1).shape[-1] else None


def _extents(call: Call) -> list[range]:
    return [range(n) for n in call.x.shape[: call.input(1).shape[-1]]]


@op(
    _infer_gather_nd,
    _gather_nd_kernel,
    guards=(Guard(1, _extents),),
    raw=True,
    strings=True,
    prepare=_prepare_gather_nd,
    bind=_bind_gather_nd,
    gradient=gradients.GATHER_ND,
)
def gather_nd(x: Array, indices: Array) -> Array:
    """Select the slices of x that rows of numbers name: y[...] = x[indices[..., 0], indices[..., 1], ...].

    indices [..., d] with d up to x's rank; result [..., the other dimensions of x]. Raises ModelError for
    other dtypes of indices, for more numbers than dimensions, and for a number outside of 0 ... n - 1. TFLite
    schema, GatherNdOptions.
    """
    depth = indices.shape[-1]
    shape = (*indices.shape[:-1], *x.shape[depth:])
    if not depth:
        return _repeated(x, shape)
    if not size_of(shape):
        return np.empty(shape, x.dtype)
    return _rows_taken(x, depth, _flat(x.shape[:depth], indices), shape)


def _repeated(x: Array, shape: Shape) -> Array:
    """Repeat x once for each row of no numbers."""
    return np.broadcast_to(x, shape).copy()


OPS: tuple[Op, ...] = (gather, gather_nd)
