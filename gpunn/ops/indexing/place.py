"""Moving elements to places that values say: reverse_sequence, dynamic_update_slice.

Lengths and starts are int32 or int64. Elements are of any dtype and keep their type, quantisation included.
"""

from __future__ import annotations

import numpy as np

from gpunn.kernel import Kernel, Read, Write, flat_threads, size_of, vec_width
from gpunn.ops.call import Call
from gpunn.ops.check import INDICES, expect_int, expect_unquantised
from gpunn.ops.guard import Guard
from gpunn.ops.kernels.copies import whole_copy
from gpunn.ops.kernels.strides import aligned, by_fours, dense, merge, space_constants, space_params
from gpunn.ops.op import Op, op
from gpunn.types import Array, TensorType


def _infer_reverse(call: Call) -> TensorType:
    x, lengths = call.x, expect_unquantised(call, 1, *INDICES)
    axes = [call.axis(expect_int(call, name, call[name]), x.rank) for name in ("axis", "batch_axis")]
    if axes[0] == axes[1]:
        call.fail(f"axis and batch_axis are both {axes[0]}")
    if lengths.shape != (x.shape[axes[1]],):
        call.fail(f"there must be a length for each of {x.shape[axes[1]]} sequences, got {lengths}")
    return x


def _reverse_kernel(call: Call) -> Kernel:
    shape = call.x.shape
    axis, batch_axis = (call.axis(call[name], len(shape)) for name in ("axis", "batch_axis"))
    lanes = vec_width(size_of(shape[max(axis, batch_axis) + 1 :]))
    count = call.x.size // lanes
    return Kernel(
        body="reverse_sequence",
        threads=flat_threads(count),
        workgroup=(64, 1, 1),
        reads=(Read("lengths", 1), Read("x", 0, width=lanes)),
        writes=(Write(width=lanes),),
        params={
            "count": count,
            "extent": shape[axis],
            "inner": size_of(shape[axis + 1 :]) // lanes,
            "sequences": shape[batch_axis],
            "span": size_of(shape[batch_axis + 1 :]) // lanes,
        },
        lanes=lanes,
        reason="in the result's order",
    )


def _lengths(call: Call) -> list[range]:
    return [range(call.x.shape[call.axis(call["axis"], call.x.rank)] + 1)]


@op(_infer_reverse, _reverse_kernel, guards=(Guard(1, _lengths, "lengths"),), raw=True)
def reverse_sequence(x: Array, lengths: Array, *, axis: int, batch_axis: int = 0) -> Array:
    """x with the first lengths[i] slices along `axis` in reverse order, i counting along `batch_axis`.

    Both axes may be negative. Raises ModelError for axes that are out of range or the same, and, in the
    run, for lengths outside of 0 ... extent of the axis. TFLite schema, ReverseSequenceOptions.
    """
    axis, batch_axis = axis % x.ndim, batch_axis % x.ndim
    along = np.arange(x.shape[axis])
    ends = lengths.astype(np.int64)[:, None]
    places = np.where(along < ends, ends - 1 - along, along)
    shape = [n if d in (axis, batch_axis) else 1 for d, n in enumerate(x.shape)]
    order = places if batch_axis < axis else places.T
    return np.asarray(np.take_along_axis(x, order.reshape(shape), axis))


def _infer_update(call: Call) -> TensorType:
    x, update, starts = call.x, call.input(1), expect_unquantised(call, 2, *INDICES)
    if (update.dtype, update.quantization) != (x.dtype, x.quantization) or update.rank != x.rank:
        call.fail(f"the update must have the type and rank of {x}, got {update}")
    if any(n > m for n, m in zip(update.shape, x.shape, strict=True)):
        call.fail(f"an update of shape {list(update.shape)} does not fit {x}")
    if starts.shape != (x.rank,):
        call.fail(f"there must be a start for each of {x.rank} dimensions, got {starts}")
    return x


def _update_kernels(call: Call) -> list[Kernel]:
    x, update = call.x, call.input(1)
    copy = whole_copy(x, 0, "all of the input, before the update is put in")
    rooms = [n - m for n, m in zip(x.shape, update.shape, strict=True)]
    sizes, source, target = merge(update.shape, dense(update.shape), dense(x.shape))
    fours = all(step % 4 == 0 for room, step in zip(rooms, dense(x.shape), strict=True) if room)
    lanes = 4 if fours and aligned(sizes, source, target) else 1
    if lanes == 4:
        sizes, source, target = by_fours(sizes, source, target)
    places = [(room, step // lanes if room else 0) for room, step in zip(rooms, dense(x.shape), strict=True)]
    put = Kernel(
        body="put_slice",
        threads=flat_threads(size_of(sizes)),
        workgroup=(64, 1, 1),
        reads=(
            Read("start", 2),
            Read("place", None, value=np.array(places, np.int32)),
            Read("x", 1, width=lanes),
        ),
        writes=(Write(width=lanes),),
        params={"count": size_of(sizes), "rank": x.rank, **space_params(sizes, {"y": target})},
        constants=space_constants(sizes),
        lanes=lanes,
        reason="the update is copied to where it starts",
    )
    return [copy, put]


@op(_infer_update, _update_kernels, raw=True, strings=True)
def dynamic_update_slice(x: Array, update: Array, starts: Array) -> Array:
    """x with `update` in place of what lies there from `starts` on, moved as far as it takes to fit.

    x and update of any dtype, the same with the same quantisation, and rank; starts int32 or int64, one for
    each dimension. Raises ModelError for other dtypes and shapes. TFLite schema, DynamicUpdateSliceOptions.
    """
    room = np.subtract(x.shape, update.shape)
    firsts = np.clip(starts, 0, room).tolist()
    result = x.copy()
    result[tuple(slice(a, a + n) for a, n in zip(firsts, update.shape, strict=True))] = update
    return result


OPS: tuple[Op, ...] = (dynamic_update_slice, reverse_sequence)
