"""Combination of a tensor's slices by segments: sums, products, extremes.

data [K, ...] float32, float16, int32 or int64; ids [K, ...], int32 or int64, name the segment of each slice;
with ids of a higher rank slices have fewer dimensions. The result has `segments` slices. An empty segment has
0 for the sum, 1 for the product, and for maximum or minimum the lowest or highest number of the dtype (for
floating point, of float32). From this number on elements are joined, as in LiteRT: the maximum of no numbers
but -inf is the lowest finite one. It is an infinity instead if `infinite` says so. A negative id names no
segment if `drops` says so. Raises ModelError for other dtypes and shapes and, in the run, for ids out of
range. TFLite schema, SegmentSumOptions and UnsortedSegmentSumOptions, -ProdOptions, -MaxOptions, -MinOptions;
TensorFlow, tf.math.unsorted_segment_sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpunn.kernel import Kernel, Read, size_of
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, INDICES, NUMBERS, expect_bool, expect_int, expect_unquantised
from gpunn.ops.elementwise.binary import joining
from gpunn.ops.guard import ANY_NUMBER, Guard
from gpunn.ops.indexing.gradients import SEGMENTS
from gpunn.ops.kernels.by_row import Updates
from gpunn.ops.op import Op, op
from gpunn.types import Array, TensorType

MANY = 1 << 10  # numbers, which are worth a few calls of numpy's
WIDE = 4  # numbers in a slice, from which on numpy joins it in less time with its neighbours


@dataclass(frozen=True, slots=True)
class Segments:
    """One line of the table: how two slices are combined, in numpy and by which op, and the value of none.

    None stands for the end of the dtype's range.
    """

    name: str
    join: Any
    by: str
    empty: int | None
    lowest: bool = False


TABLE = (
    Segments("segment_sum", np.add, "add", 0),
    Segments("segment_prod", np.multiply, "mul", 1),
    Segments("segment_max", np.maximum, "maximum", None, lowest=True),
    Segments("segment_min", np.minimum, "minimum", None),
)


def _infer(call: Call) -> TensorType:
    data = expect_unquantised(call, 0, *NUMBERS)
    ids = expect_unquantised(call, 1, *INDICES)
    if not 1 <= ids.rank <= data.rank or data.shape[: ids.rank] != ids.shape:
        call.fail(f"ids must have the shape of data's first dimensions, got {data} and {ids}")
    segments = expect_int(call, "segments", call["segments"])
    if segments < 0:
        call.fail(f"segments must be >= 0, got {segments}")
    for name in ("drops", "infinite"):
        expect_bool(call, name)
    return data.with_shape((segments, *data.shape[ids.rank :]))


def _empty(line: Segments, dtype: np.dtype[Any], infinite: bool) -> Any:
    if line.empty is not None:
        return line.empty
    if infinite and dtype.kind == "f":
        return -np.inf if line.lowest else np.inf
    info = np.finfo(np.float32) if dtype.kind == "f" else np.iinfo(dtype)
    return info.min if line.lowest else info.max


def _named(call: Call) -> list[range]:
    return [range(ANY_NUMBER.start if call["drops"] else 0, call["segments"])]


def _join_neighbours(join: np.ufunc, result: Array, ids: Array, slices: Array) -> None:
    """Join the slices of each segment, side by side, to its slice of the result, in their order."""
    if (ids[1:] < ids[:-1]).any() or ids[0] < 0:
        order = np.argsort(ids, kind="stable")[np.count_nonzero(ids < 0) :]
        ids, slices = ids[order], slices.take(order, axis=0)
    if len(ids):
        first = np.append(0, np.flatnonzero(ids[1:] != ids[:-1]) + 1)
        there = ids[first]
        result[there] = join(result[there], join.reduceat(slices, first, axis=0, dtype=slices.dtype))


def _declare(line: Segments) -> Op:
    def reference(
        data: Array, ids: Array, *, segments: int, drops: bool = False, infinite: bool = False
    ) -> Array:
        flat = ids.reshape(-1)
        item = data.shape[ids.ndim :]
        result = np.full((segments, *item), _empty(line, data.dtype, infinite), data.dtype)
        slices = data.reshape(len(flat), *item)
        if data.size >= MANY and size_of(item) >= WIDE:
            _join_neighbours(line.join, result, flat, slices)
        else:
            kept = flat >= 0
            line.join.at(result, flat[kept], slices[kept])
        return result

    def kernels(call: Call) -> list[Kernel]:
        data, ids, extent = call.x, call.input(1), call["segments"]
        updates = Updates(index=1, count=ids.size, width=1, extents=(extent,))
        dtype = np.dtype(np.float32 if data.dtype in FLOATS else data.dtype.numpy)
        empty = np.array([_empty(line, dtype, call["infinite"])], dtype)
        row = size_of(data.shape[ids.rank :])
        return updates.joined(call, 0, joining(line.by, data.dtype), Read("start", None, value=empty), row)

    guards = (Guard(1, _named, "ids"),)
    return op(
        _infer,
        kernels,
        name=line.name,
        guards=guards,
        flops=lambda call: call.x.size,
        gradient=SEGMENTS[line.name],
    )(reference)


OPS: tuple[Op, ...] = tuple(_declare(line) for line in TABLE)
