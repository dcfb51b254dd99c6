"""Lookups by index, by key and by locality-sensitive hash."""

from __future__ import annotations

import math

import numpy as np

from gpunn.errors import ModelError
from gpunn.kernel import Kernel, size_of
from gpunn.ops.check import FLOATS, expect_bool, expect_dtype, expect_unquantised
from gpunn.ops.farmhash import fingerprint64
from gpunn.ops.gather import rows_kernel
from gpunn.ops.op import Call, Guard, Op, op
from gpunn.types import Array, DType, Quantization, TensorType


def _in_range(indices: Array, rows: int) -> Array:
    """The indices as they are; ModelError when one is not a row's number."""
    wrong = indices[(indices < 0) | (indices >= rows)]
    if wrong.size:
        raise ModelError(f"embedding_lookup: indices must be in 0 ... {rows - 1}, got {wrong.ravel()[0]}")
    return indices


def _expect_rows(call: Call, index: int) -> TensorType:
    """The type of input `index`, whose slices along the first dimension are looked up."""
    values = call.input(index)
    if values.rank < 2:
        call.fail(f"input {index} must have rank 2 or more, got shape {list(values.shape)}")
    return values


def _expect_list(call: Call, index: int) -> int:
    """The length of input `index`, a list of int32."""
    expect_dtype(call, index, DType.INT32)
    return call.expect_rank(index, 1).shape[0]


def _infer_embedding(call: Call) -> TensorType:
    values = _expect_rows(call, 1)
    return values.with_shape((_expect_list(call, 0), *values.shape[1:]))


def _embedding_kernel(call: Call) -> Kernel:
    values = call.input(1)
    picks = call.input(0).size
    return rows_kernel(
        call.y, 0, 1, outer=1, rows=values.shape[0], picks=picks, row=size_of(values.shape[1:])
    )


def _check_indices(call: Call, indices: Array) -> None:
    _in_range(indices, call.input(1).shape[0])


@op(_infer_embedding, _embedding_kernel, guard=Guard(0, _check_indices), raw=True)
def embedding_lookup(indices: Array, values: Array) -> Array:
    """values[indices]: the slices of `values` along its first dimension that `indices` name.

    indices int32 [K]; values [N, ...] of any dtype and rank 2 or more; result [K, ...], with the
    quantisation of `values`. Raises ModelError for other dtypes and ranks, and for an index outside of 0
    ... N - 1: at compilation where the indices are constants, else in the run. NeuralNetworks.h,
    ANEURALNETWORKS_EMBEDDING_LOOKUP; TFLite's EMBEDDING_LOOKUP.
    """
    return np.asarray(values[_in_range(indices, len(values))])


def _infer_hashtable(call: Call) -> tuple[TensorType, TensorType]:
    count, keys, values = _expect_list(call, 0), _expect_list(call, 1), _expect_rows(call, 2)
    if values.shape[0] != keys:
        call.fail(f"there must be a key for each of {values.shape[0]} slices of values, got {keys}")
    hits = TensorType(DType.UINT8, (count,), Quantization((1.0,), (0,)))
    return values.with_shape((count, *values.shape[1:])), hits


@op(_infer_hashtable, host_reason="HASHTABLE_LOOKUP runs on the numpy backend", raw=True)
def hashtable_lookup(lookups: Array, keys: Array, values: Array) -> tuple[Array, Array]:
    """The slices of `values` whose keys are looked up, and which lookups hit: (output, hits).

    lookups int32 [K]; keys int32 [N], in ascending order; values [N, ...] of any dtype and rank 2 or
    more. output [K, ...]: for a hit values[i] with keys[i] == lookup, for a miss bytes of 0 (also where
    the quantisation's zero point is another); hits uint8 [K] (scale 1, zero point 0): 1 or 0. Raises
    ModelError for other dtypes and shapes and, in the run, for keys that are not sorted. NeuralNetworks.h,
    ANEURALNETWORKS_HASHTABLE_LOOKUP; TFLite's HASHTABLE_LOOKUP.
    """
    if (keys[1:] < keys[:-1]).any():
        raise ModelError("hashtable_lookup: keys must be in ascending order")
    if not keys.size:
        return np.zeros((len(lookups), *values.shape[1:]), values.dtype), np.zeros(len(lookups), np.uint8)
    found = np.minimum(np.searchsorted(keys, lookups), len(keys) - 1)
    hits = keys[found] == lookups
    output = np.where(hits.reshape(-1, *[1] * (values.ndim - 1)), values[found], values.dtype.type(0))
    return output, hits.astype(np.uint8)


def _infer_lsh(call: Call) -> TensorType:
    expect_unquantised(call, 0, *FLOATS)
    functions, bits = call.expect_rank(0, 2).shape
    x = call.input(1)
    if x.rank < 1:
        call.fail("input 1 must have rank 1 or more, got a scalar")
    if call.has(2):
        expect_unquantised(call, 2, *FLOATS)
        if call.input(2).shape != x.shape[:1]:
            call.fail(f"weight must have shape {list(x.shape[:1])}, got {list(call.input(2).shape)}")
    offset = expect_bool(call, "offset")
    if call["type"] == "dense":
        if offset:
            call.fail("offset is for sparse projections")
        return TensorType(DType.INT32, (functions * bits,))
    if call["type"] != "sparse":
        call.fail(f"type must be sparse or dense, got {call['type']!r}")
    if bits + math.ceil(math.log2(max(functions, 1))) > 32:
        call.fail(f"{bits} bits and the number of one of {functions} functions do not fit 32 bits")
    return TensorType(DType.INT32, (functions,))


@op(_infer_lsh, host_reason="LSH_PROJECTION runs on the numpy backend", raw=True)
def lsh_projection(
    hash: Array, input: Array, weight: Array | None = None, *, type: str, offset: bool = False
) -> Array:
    """Bits that agree, mostly, for inputs that are much alike: a locality-sensitive hash.

    Bit (i, j) is 1 where the sum over k of weight[k] * score is positive, in float64; the score is
    Fingerprint64, read as int64, of the four bytes of float32 hash[i, j] followed by the bytes of slice k of
    `input`, all little-endian. hash [H, B] float; input [K, ...] of any dtype, quantised as stored; weight
    [K] float, absent: all 1. type "dense": int32 [H * B], a bit each; "sparse": int32 [H], the B bits of a
    function as a number, the first the highest, with `offset` plus i << B (NNAPI 1.0 adds none, TFLite
    and NNAPI 1.2's third type do). Raises ModelError for other types and shapes, and unless B +
    ceil(log2(H)) <= 32 where sparse. NeuralNetworks.h, ANEURALNETWORKS_LSH_PROJECTION (which leaves the hash
    open: AOSP and TFLite use farmhash); TFLite schema, LSHProjectionOptions.
    """
    functions, bits = hash.shape
    # A float64 array is a widened float32 one: no tensor has that type.
    stored = input.astype(np.float32) if input.dtype == np.float64 else input
    little = np.ascontiguousarray(stored.astype(stored.dtype.newbyteorder("<")))
    count = len(input)
    slices = little.view(np.uint8).reshape(count, -1) if input.size else np.zeros((count, 0), np.uint8)
    seeds = np.ascontiguousarray(hash.astype("<f4")).view(np.uint8).reshape(functions * bits, 4)
    keys = np.empty((functions * bits, count, 4 + slices.shape[1]), np.uint8)
    keys[:, :, :4], keys[:, :, 4:] = seeds[:, None], slices
    scores = fingerprint64(keys).view(np.int64).astype(np.float64)
    weights = np.ones(count) if weight is None else weight.astype(np.float64)
    totals = np.zeros(functions * bits)
    for k in range(count):  # one after the other, as the bit may hang on the order
        totals += scores[:, k] * weights[k]
    signs: Array = (totals > 0).astype(np.int32)
    if type == "dense":
        return signs
    powers = 1 << np.arange(bits - 1, -1, -1, dtype=np.int64)
    signatures: Array = signs.reshape(functions, bits) @ powers
    if offset:
        signatures += np.arange(functions) << bits
    return signatures.astype(np.int32)


OPS: tuple[Op, ...] = (embedding_lookup, hashtable_lookup, lsh_projection)
