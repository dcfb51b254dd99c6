"""Lookups by key and by locality-sensitive hash."""

from __future__ import annotations

import math

import numpy as np

from gpunn.errors import ModelError
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_bool, expect_unquantised
from gpunn.ops.indexing.embeddings import expect_list, expect_rows
from gpunn.ops.indexing.farmhash import fingerprint64
from gpunn.ops.indexing.gradients import TABLE_LOOKUP
from gpunn.ops.op import Op, op
from gpunn.strings import packed
from gpunn.types import Array, DType, Quantization, TensorType


def _infer_hashtable(call: Call) -> tuple[TensorType, TensorType]:
    count, keys, values = expect_list(call, 0), expect_list(call, 1), expect_rows(call, 2, 1)
    if values.shape[0] != keys:
        call.fail(f"there must be a key for each of {values.shape[0]} slices of values, got {keys}")
    hits = TensorType(DType.UINT8, (count,), Quantization((1.0,), (0,)))
    return values.with_shape((count, *values.shape[1:])), hits


@op(_infer_hashtable, host_reason="HASHTABLE_LOOKUP runs on the numpy backend", raw=True, strings=True)
def hashtable_lookup(lookups: Array, keys: Array, values: Array) -> tuple[Array, Array]:
    """Look keys up; return the slices of `values` for them, and which lookups hit: (output, hits).

    lookups int32 [K]; keys int32 [N], in ascending order; values [N, ...] of any dtype. output [K, ...]: for
    a hit values[i] with keys[i] == lookup, for a miss bytes of 0 (even if the quantisation has another zero
    point), or an empty string; hits uint8 [K] (scale 1, zero point 0): 1 or 0. Raises ModelError for other
    dtypes and shapes and, in the run, for keys that are not sorted. NeuralNetworks.h,
    ANEURALNETWORKS_HASHTABLE_LOOKUP; TFLite's HASHTABLE_LOOKUP.
    """
    if (keys[1:] < keys[:-1]).any():
        raise ModelError("hashtable_lookup: keys must be in ascending order")
    nothing = b"" if values.dtype == object else values.dtype.type(0)
    if not keys.size:
        shape = (len(lookups), *values.shape[1:])
        return np.full(shape, nothing, values.dtype), np.zeros(len(lookups), np.uint8)
    found = np.minimum(np.searchsorted(keys, lookups), len(keys) - 1)
    hits = keys[found] == lookups
    output = np.where(hits.reshape(-1, *[1] * (values.ndim - 1)), values[found], nothing)
    return output, hits.astype(np.uint8)


def _infer_table(call: Call) -> TensorType:
    queries = expect_unquantised(call, 0, DType.INT32, DType.INT64, DType.STRING)
    keys, values = call.expect_rank(1, 1), call.expect_rank(2, 1)
    default = call.input(3)
    if keys.dtype is not queries.dtype:
        call.fail(f"keys must be {queries.dtype.value} as what is looked up, got {keys}")
    if values.shape != keys.shape:
        call.fail(f"there must be a value for each of {keys.shape[0]} keys, got {values}")
    if (default.dtype, default.quantization) != (values.dtype, values.quantization) or not default.size:
        call.fail(f"there must be a default of the type of the values, {values}, got {default}")
    return values.with_shape(queries.shape)


@op(
    _infer_table,
    host_reason="a hash table is looked up on the numpy backend",
    raw=True,
    strings=True,
    gradient=TABLE_LOOKUP,
)
def table_lookup(queries: Array, keys: Array, values: Array, default: Array) -> Array:
    """Look keys up; return the value of each key, or the default if the table does not contain it.

    queries int32, int64 or strings, of any shape, which the result has too; keys [N] of the same dtype, in
    any order, of which the first of equal ones counts; values [N] of any dtype; default of that dtype, of
    which only the first element counts. Raises ModelError for other dtypes and shapes. TFLite schema,
    HASHTABLE_FIND.
    """
    places = dict(zip(reversed(keys.tolist()), range(len(keys) - 1, -1, -1), strict=True))
    found = [places.get(key, len(keys)) for key in queries.reshape(-1).tolist()]
    choices = np.concatenate([values, default.reshape(-1)[:1]])
    return np.asarray(choices[np.array(found, np.intp)].reshape(queries.shape))


def _infer_lsh(call: Call) -> TensorType:
    expect_unquantised(call, 0, *FLOATS, DType.INT32)
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


def _bytes(array: Array) -> bytes:
    """Return the bytes of an array as a tensor stores it: floating point as float32, everything
    little-endian.
    """
    if array.dtype == object:
        return packed(array)
    stored = array.astype(np.float32) if array.dtype == np.float64 else array
    return stored.astype(stored.dtype.newbyteorder("<")).tobytes()


@op(
    _infer_lsh,
    host_reason="LSH_PROJECTION runs on the numpy backend",
    raw=True,
    strings=True,
    precise=True,
    unbounded=True,
)
def lsh_projection(
    hash: Array, input: Array, weight: Array | None = None, *, type: str, offset: bool = False
) -> Array:
    """Compute a locality-sensitive hash: bits that mostly agree for similar inputs.

    Bit (i, j) is 1 if the sum over k of weight[k] * score is positive, in float64. The score is
    Fingerprint64, read as int64, of the four bytes of float32 hash[i, j] followed by the bytes of slice k of
    `input`, all little-endian. hash [H, B] float or int32; input [K, ...] of any dtype, quantised as stored,
    strings as the K equal parts of the buffer that packed() makes of them all, as in TFLite; weight [K]
    float, absent: all 1. type "dense": int32 [H * B], one bit each; "sparse": int32 [H], the B bits of a
    function as a number, the first bit the highest, with `offset` plus i << B (NNAPI 1.0 adds nothing, TFLite
    and NNAPI 1.2's third type add it). Raises ModelError for other types and shapes, and unless B +
    ceil(log2(H)) <= 32 for "sparse". NeuralNetworks.h, ANEURALNETWORKS_LSH_PROJECTION (which does not define
    the hash: AOSP and TFLite use farmhash); TFLite schema, LSHProjectionOptions.
    """
    functions, bits = hash.shape
    count = len(input)
    raw = np.frombuffer(_bytes(input), np.uint8)
    size = raw.size // max(count, 1)
    slices = raw[: count * size].reshape(count, size)
    words = np.ascontiguousarray(hash.astype("<f4" if hash.dtype.kind == "f" else "<i4"))
    seeds = words.view(np.uint8).reshape(functions * bits, 4)
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


OPS: tuple[Op, ...] = (hashtable_lookup, lsh_projection, table_lookup)
