"""Lookups by index: rows of tables, and weighted sums of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from gpunn.kernel import Kernel, Param, Read, Write, flat_threads, size_of, vec_width
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_dtype, expect_ints, expect_unquantised
from gpunn.ops.guard import Guard
from gpunn.ops.indexing import gradients
from gpunn.ops.indexing.gather import rows_kernel
from gpunn.ops.kernels.by_row import SEARCH, Updates
from gpunn.ops.kernels.chain import boxes, chained, keeping
from gpunn.ops.kernels.strides import dense
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, TensorType

COMBINERS = ("sum", "mean", "sqrtn")


def expect_rows(call: Call, index: int, least: int = 2) -> TensorType:
    """Return the type of input `index`, whose slices along the first dimension, or strings, are looked up."""
    values = call.input(index)
    least = 1 if values.dtype is DType.STRING else least
    if values.rank < least:
        call.fail(f"input {index} must have rank {least} or more, got shape {list(values.shape)}")
    return values


def expect_list(call: Call, index: int) -> int:
    """Return the length of input `index`, a list of int32."""
    expect_dtype(call, index, DType.INT32)
    return call.expect_rank(index, 1).shape[0]


def _infer_embedding(call: Call) -> TensorType:
    values = expect_rows(call, 1)
    return values.with_shape((expect_list(call, 0), *values.shape[1:]))


def _embedding_kernel(call: Call) -> Kernel:
    values = call.input(1)
    picks = call.input(0).size
    return rows_kernel(
        call.y, 0, 1, outer=1, rows=values.shape[0], picks=picks, row=size_of(values.shape[1:])
    )


def _rows_of(operand: int) -> Callable[[Call], list[range]]:
    """Make Guard.ranges for row numbers of an operand."""
    return lambda call: [range(call.input(operand).shape[0])]


@op(
    _infer_embedding,
    _embedding_kernel,
    guards=(Guard(0, _rows_of(1)),),
    raw=True,
    strings=True,
    gradient=gradients.EMBEDDING_LOOKUP,
)
def embedding_lookup(indices: Array, values: Array) -> Array:
    """Select the slices of `values` along its first dimension that `indices` name: values[indices].

    indices int32 [K]; values [N, ...] of any dtype and rank 2 or more; result [K, ...], with the quantisation
    of `values`. Raises ModelError for other dtypes and ranks, and for an index outside of 0 ... N - 1: at
    compilation if the indices are constants, else in the run. NeuralNetworks.h,
    ANEURALNETWORKS_EMBEDDING_LOOKUP; TFLite's EMBEDDING_LOOKUP.
    """
    return np.asarray(values[indices])


def _infer_sparse(call: Call) -> TensorType:
    count, shape = expect_list(call, 0), expect_ints(call, "shape")
    indices = expect_dtype(call, 1, DType.INT32)
    if indices.shape != (count, len(shape)) or not shape:
        call.fail(f"indices must be {count} places in shape {list(shape)}, got {indices}")
    if any(n < 0 for n in shape):
        call.fail(f"shape must be >= 0, got {list(shape)}")
    if expect_unquantised(call, 2, *FLOATS).shape != (count,):
        call.fail(f"there must be a weight for each of {count} indices, got {call.input(2)}")
    if call["combiner"] not in COMBINERS:
        call.fail(f"combiner must be one of {', '.join(COMBINERS)}, got {call['combiner']!r}")
    if expect_unquantised(call, 3, *FLOATS).dtype is not call.input(2).dtype:
        call.fail(f"values and weights must have one dtype, got {call.input(3)} and {call.input(2)}")
    values = expect_rows(call, 3)
    return values.with_shape((*shape[:-1], *values.shape[1:]))


def _sparse_kernels(call: Call) -> list[Kernel]:
    values, extents = call.input(3), tuple(call["shape"][:-1])
    updates = Updates(index=1, count=call.x.size, width=len(extents) + 1, extents=extents)
    kernels, order = updates.by_row(call)
    row = size_of(values.shape[1:])
    lanes = vec_width(row)
    count = call.y.size // lanes
    sums = Kernel(
        body="embedding_sums",
        threads=flat_threads(count),
        reads=(*order.reads, Read("id", 0), Read("weight", 2), Read("x", 3, width=lanes)),
        writes=(Write(width=lanes),),
        params={"count": count, "row": row // lanes, "rows": values.shape[0], "updates": updates.count},
        constants={"COMBINER": COMBINERS.index(call["combiner"])},
        libraries=order.libraries,
        lanes=lanes,
        reason=updates.reason,
    )
    limit, type = call.device.max_loop_iterations, TensorType(DType.FLOAT32, call.y.shape)
    kept = replace(keeping(sums, {"y": type, "y_divisor": type}, {}), body="embedding_sums_part")
    chain = chained(sums, kept, boxes((updates.count,), None if limit is None else limit - SEARCH))
    return [*kernels, *(replace(part, loop_iterations=part.loop_iterations + SEARCH) for part in chain)]


def _sparse_places(call: Call) -> list[range]:
    return [*(range(n) for n in call["shape"][:-1]), range(-(2**31), 2**31)]


@op(
    _infer_sparse,
    _sparse_kernels,
    guards=(Guard(0, _rows_of(3), "ids"), Guard(1, _sparse_places)),
    flops=lambda call: 2 * call.x.size * size_of(call.input(3).shape[1:]),
    unbounded=True,
    formula=gradients.EMBEDDING_LOOKUP_SPARSE,
)
def embedding_lookup_sparse(
    ids: Array, indices: Array, weights: Array, values: Array, *, shape: Sequence[int], combiner: str = "sum"
) -> Array:
    """Compute weighted sums of the slices of `values` that the rows of a sparse tensor of ids name.

    Id i is int32 ids[i] with weights[i], at indices[i], int32 [K, R], of a tensor of `shape`, R extents.
    Along its last dimension the slices values[id] * weight are added up: values [N, ...] of rank 2 or more,
    result [*shape[:-1], ...], 0 for an empty row. combiner "mean" divides by the sum of the weights, "sqrtn"
    by the root of the sum of their squares, "sum" does not divide. The order does not matter. If the ids of a
    row are not consecutive, TFLite gives another result for "mean" and "sqrtn" (it expects sorted ids).
    Raises ModelError for other dtypes and shapes and, in the run, for ids and indices out of range. TFLite
    schema, EmbeddingLookupSparseOptions; TensorFlow, tf.nn.embedding_lookup_sparse.
    """
    row = indices[:, :-1].astype(np.int64) @ np.asarray(dense(tuple(shape[:-1])), np.int64)
    count, item = size_of(tuple(shape[:-1])), values.shape[1:]
    total = np.zeros((count, *item), values.dtype)
    np.add.at(total, row, values[ids] * weights.reshape(-1, *[1] * len(item)))
    if combiner != "sum":
        divisor = np.zeros(count, values.dtype)
        np.add.at(divisor, row, weights if combiner == "mean" else weights * weights)
        divisor = divisor if combiner == "mean" else np.sqrt(divisor)
        there = np.isin(np.arange(count), row)
        total[there] /= divisor[there].reshape(-1, *[1] * len(item))
    return total.reshape(*shape[:-1], *item)


def _infer_concat(call: Call) -> TensorType:
    ids = expect_unquantised(call, 0, DType.INT32)
    tables = [call.expect_rank(k, 2) for k in range(1, len(call.inputs))]
    columns = expect_ints(call, "columns", len(tables))
    if any(n < 0 for n in columns) or ids.shape[-1:] != (sum(columns),):
        call.fail(f"ids must have columns {list(columns)} in their last dimension, got {ids}")
    first = tables[0]
    if any((t.dtype, t.quantization) != (first.dtype, first.quantization) for t in tables):
        call.fail(f"tables must have one dtype and quantisation, got {', '.join(map(str, tables))}")
    if first.quantization is not None and not first.quantization.per_tensor:
        call.fail("tables must have one scale and zero point")
    width = sum(n * t.shape[1] for n, t in zip(columns, tables, strict=True))
    return first.with_shape((*ids.shape[:-1], width))


def _concat_kernels(call: Call) -> list[Kernel]:
    """Make a gather for each channel, into its part of every row of the result."""
    rows, width = size_of(call.x.shape[:-1]), call.y.shape[-1]
    kernels, first, start = [], 0, 0
    for k, picks in enumerate(call["columns"], 1):
        extent, dim = call.input(k).shape
        lanes = vec_width(dim, start, width)
        count = rows * picks * dim // lanes
        params: dict[str, Param] = {
            "count": count,
            "dim": dim // lanes,
            "picks": picks,
            "extent": extent,
            "columns": call.x.shape[-1],
            "first": first,
            "width": width // lanes,
            "start": start // lanes,
        }
        kernel = Kernel(
            body="gather_columns",
            threads=flat_threads(count),
            reads=(Read("index", 0), Read("x", k, width=lanes)),
            writes=(Write(width=lanes),),
            params=params,
            lanes=lanes,
            reason="a channel after the other",
        )
        kernels += [kernel] if count else []
        first, start = first + picks, start + picks * dim
    return kernels


def _column_rows(call: Call) -> list[range]:
    return [range(call.input(k).shape[0]) for k, n in enumerate(call["columns"], 1) for _ in range(n)]


@op(
    _infer_concat,
    _concat_kernels,
    guards=(Guard(0, _column_rows, "ids"),),
    raw=True,
    gradient=gradients.CONCAT_EMBEDDINGS,
)
def concat_embeddings(ids: Array, *tables: Array, columns: Sequence[int]) -> Array:
    """Concatenate rows of several tables, the channels: features of a model over words.

    ids int32 [..., sum of columns]: the first columns[0] of the last dimension are rows of tables[0], the
    next columns[1] of tables[1] and so on; tables [N, D], of one dtype and quantisation, which the result
    keeps; result [..., sum of columns[c] * D of table c]. Raises ModelError for other shapes and dtypes and
    for an id that is not the number of a row: at compilation if ids are constants, else in the run. TFLite
    schema, ConcatEmbeddingsOptions, is the only public definition: num_columns_per_channel, which could not
    be inferred if there were ids for each channel, and embedding_dim_per_channel, which "could be inferred
    from parameters". No release of TensorFlow Lite has a kernel, so the order of the operands is our
    interpretation.
    """
    parts = np.split(ids, np.cumsum(columns)[:-1], axis=-1)
    pairs = zip(tables, parts, strict=True)
    found = [t[p].reshape(*p.shape[:-1], p.shape[-1] * t.shape[1]) for t, p in pairs]
    return np.concatenate(found, axis=-1)


OPS: tuple[Op, ...] = (concat_embeddings, embedding_lookup, embedding_lookup_sparse)
