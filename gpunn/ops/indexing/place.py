"""Slices and reversals that values decide on: reverse, reverse_sequence, dynamic_slice, dynamic_update_slice.

Axes, lengths and starts are int32 or int64. Elements are of any dtype and keep their type, including
quantisation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpunn.kernel import Kernel, Loop, Read, Scratch, Unsupported, Write, flat_threads, size_of, vec_width
from gpunn.ops.call import Call
from gpunn.ops.check import INDICES, expect_bool, expect_entries, expect_int, expect_ints, expect_unquantised
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.guard import ANY_NUMBER, Guard
from gpunn.ops.indexing import gradients
from gpunn.ops.kernels.chain import boxes, chained, keeping
from gpunn.ops.kernels.copies import whole_copy
from gpunn.ops.kernels.each import each
from gpunn.ops.kernels.strides import aligned, by_fours, dense, merge, space_constants, space_params
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, Shape, TensorType

MAX_REVERSED = 32  # axes, a bit of a word for each


def _infer_reverse(call: Call) -> TensorType:
    axes = expect_unquantised(call, 1, *INDICES)
    if axes.rank > 1:
        call.fail(f"the axes must be one number or a list, got {axes}")
    return call.x


def _reversible_axes(call: Call) -> list[range]:
    return [range(-call.x.rank, call.x.rank)]


def _reverse_kernels(call: Call) -> list[Kernel]:
    shape, axes = call.x.shape, call.input(1)
    if len(shape) > MAX_REVERSED:
        raise Unsupported(f"{len(shape)} dimensions, the shader reverses {MAX_REVERSED}")
    places = np.array([*zip(shape, dense(shape), strict=True)], np.int32).reshape(-1, 2)
    most = call.device.max_loop_iterations
    once: list[Kernel] = []
    named = Read("axes", 1)
    if most is not None and _reversing(axes.size, len(shape)) > most:
        axes = TensorType(DType.INT32, (len(shape),))
        named = Read("axes", Scratch(axes))
        once = _axes_once(call, named)
    reverse = Kernel(
        body="reverse",
        threads=flat_threads(call.x.size),
        reads=(named, Read("place", None, value=places), Read("x", 0)),
        params={"count": call.x.size, "axes": axes.size, "rank": len(shape)},
        loop_iterations=_reversing(axes.size, len(shape)),
        reason="in the result's order",
    )
    return [*once, reverse]


def _reversing(axes: int, rank: int) -> int:
    """Count the loop iterations of an invocation that reverses so many axes."""
    return Loop(axes).iterations + Loop(rank).iterations


def _axes_once(call: Call, named: Read) -> list[Kernel]:
    """Make kernels that write a long list of axes as one of as many as x has, with the same members."""
    assert isinstance(named.operand, Scratch)
    kernel = Kernel(
        body="reverse_axes",
        threads=flat_threads(call.x.rank),
        reads=(Read("axes", 1),),
        writes=(Write(output=named.operand),),
        params={"count": call.x.rank},
        reason="each axis looks for itself in the list",
    )
    kept = keeping(kernel, {"y": named.operand.type}, {})
    return chained(kernel, kept, boxes((call.input(1).size,), call.device.max_loop_iterations))


def _expand_reverse(call: Call, to: Expansion, x: Tensor, axes: Tensor) -> Tensor:
    """Write the op as a slice that walks backwards, if the axes are known and there."""
    rank = call.x.rank
    named = None if axes.value is None else {int(axis) for axis in axes.value.reshape(-1)}
    if named is None or not all(-rank <= axis < rank for axis in named):
        raise Unsupported("axes that a run names")
    strides = tuple(-1 if {d, d - rank} & named else 1 for d in range(rank))
    return to.add("strided_slice", x, begin=(None,) * rank, end=(None,) * rank, strides=strides)


@op(
    _infer_reverse,
    _reverse_kernels,
    expand=_expand_reverse,
    guards=(Guard(1, _reversible_axes, "axes"),),
    raw=True,
    strings=True,
    gradient=gradients.REVERSE,
)
def reverse(x: Array, axes: Array) -> Array:
    """Reverse the order of x's elements along each of `axes`, as values say.

    x of any dtype and shape; axes, one number or a list [K], int32 or int64, may be negative and may repeat.
    The result has x's shape. Raises ModelError for other dtypes and shapes of the axes and, in the run, for
    axes that are out of range. TFLite schema, ReverseV2Options.
    """
    return np.flip(x, tuple({int(axis) % x.ndim for axis in axes.reshape(-1)}))


def _infer_sequence(call: Call) -> TensorType:
    x, lengths = call.x, expect_unquantised(call, 1, *INDICES)
    axes = [call.axis(expect_int(call, name, call[name]), x.rank) for name in ("axis", "batch_axis")]
    if axes[0] == axes[1]:
        call.fail(f"axis and batch_axis are both {axes[0]}")
    if lengths.shape != (x.shape[axes[1]],):
        call.fail(f"there must be a length for each of {x.shape[axes[1]]} sequences, got {lengths}")
    return x


def _sequence_kernel(call: Call) -> Kernel:
    shape = call.x.shape
    axis, batch_axis = (call.axis(call[name], len(shape)) for name in ("axis", "batch_axis"))
    lanes = vec_width(size_of(shape[max(axis, batch_axis) + 1 :]))
    count = call.x.size // lanes
    return Kernel(
        body="reverse_sequence",
        threads=flat_threads(count),
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


@op(
    _infer_sequence,
    _sequence_kernel,
    guards=(Guard(1, _lengths, "lengths"),),
    raw=True,
    gradient=gradients.REVERSE_SEQUENCE,
)
def reverse_sequence(x: Array, lengths: Array, *, axis: int, batch_axis: int = 0) -> Array:
    """Reverse the first lengths[i] slices of x along `axis`, for each i along `batch_axis`.

    Both axes may be negative. Raises ModelError for axes that are out of range or the same, and, in the run,
    for lengths outside of 0 ... extent of the axis. TFLite schema, ReverseSequenceOptions.
    """
    along, ends = np.arange(x.shape[axis]), lengths.astype(np.int64)[:, None]
    places = np.where(along < ends, ends - 1 - along, along)
    # Slices along both axes, which numpy copies in less time than elements.
    slices = np.moveaxis(x, (batch_axis, axis), (0, 1))[np.arange(len(lengths))[:, None], places]
    return np.moveaxis(slices, (0, 1), (batch_axis, axis))


def _sliced_axes(call: Call) -> tuple[int | None, ...]:
    """Return the axis of each start; None for a start without a meaning."""
    if call["axes"] is None:
        return tuple(range(call.x.rank))
    entries = expect_entries(call, "axes")
    axes = [None if a is None else call.axis(expect_int(call, "axes", a), call.x.rank) for a in entries]
    named = [a for a in axes if a is not None]
    if len({*named}) < len(named):
        call.fail(f"axes must be different, got {list(entries)}")
    return tuple(axes)


def _infer_slice(call: Call) -> TensorType:
    x, starts = call.x, expect_unquantised(call, 1, *INDICES)
    sizes, axes = expect_ints(call, "sizes", x.rank), _sliced_axes(call)
    if any(not 0 <= size <= n for size, n in zip(sizes, x.shape, strict=True)):
        call.fail(f"a slice of {list(sizes)} does not fit {x}")
    if any(size != n for d, (size, n) in enumerate(zip(sizes, x.shape, strict=True)) if d not in axes):
        call.fail(f"a slice of {list(sizes)} of {x} needs a start for each axis that it is shorter along")
    if starts.shape != (len(axes),):
        call.fail(f"there must be a start for each of {len(axes)} dimensions, got {starts}")
    for name in ("clip", "negative"):
        expect_bool(call, name)
    return x.with_shape(sizes)


def _rooms(shape: Shape, sizes: Shape) -> Shape:
    """Return the largest start of a slice of `sizes`, for each dimension."""
    return tuple(n - m for n, m in zip(shape, sizes, strict=True))


def _allowed_starts(call: Call) -> list[range]:
    """Return the allowed numbers for each start; none if starts are clipped."""
    if call["clip"]:
        return []
    rooms = _rooms(call.x.shape, call.y.shape)
    return [ANY_NUMBER if a is None else range(rooms[a] + 1) for a in _sliced_axes(call)]


def _ends(call: Call) -> list[int]:
    """Return what each start below 0 counts from."""
    return [call.x.shape[a] if a is not None and call["negative"] else 0 for a in _sliced_axes(call)]


def _starts(index: int, places: Sequence[tuple[int, int, int]]) -> tuple[Read, Read]:
    """Return the operands of lib/starts.wgsl: input `index` and three numbers for each start."""
    return Read("start", index), Read("place", None, value=np.array(places, np.int32).reshape(-1, 3))


def _by_vectors(rooms: Shape, steps: Shape, sizes: Shape, *strides: Shape) -> bool:
    """Tell whether a slice can be walked by fours from every possible start."""
    return aligned(sizes, *strides) and all(s % 4 == 0 for room, s in zip(rooms, steps, strict=True) if room)


def _slice_kernel(call: Call) -> Kernel:
    shape, steps = call.x.shape, dense(call.x.shape)
    rooms = _rooms(shape, call.y.shape)
    sizes, source = merge(call.y.shape, steps)
    lanes = 4 if _by_vectors(rooms, steps, sizes, source) else 1
    if lanes == 4:
        sizes, source = by_fours(sizes, source)
    added = shape if call["negative"] else (0,) * len(shape)
    axes = _sliced_axes(call)
    places = [(0, 0, 0) if a is None else (added[a], rooms[a], steps[a] // lanes) for a in axes]
    kernel = Kernel(
        body="take_slice",
        threads=flat_threads(size_of(sizes)),
        reads=(*_starts(1, places), Read("x", 0, width=lanes)),
        writes=(Write(width=lanes),),
        params={
            "count": size_of(sizes),
            "starts": len(places),
            **space_params(sizes, {"x": source}),
        },
        constants=space_constants(sizes),
        lanes=lanes,
        reason="the slice is read from where it starts",
    )
    return each(kernel, call.y)


@op(
    _infer_slice,
    _slice_kernel,
    guards=(Guard(1, _allowed_starts, "starts", _ends),),
    raw=True,
    strings=True,
    gradient=gradients.DYNAMIC_SLICE,
)
def dynamic_slice(
    x: Array,
    starts: Array,
    *,
    sizes: Sequence[int],
    axes: Sequence[int | None] | None = None,
    clip: bool = True,
    negative: bool = False,
) -> Array:
    """Return a slice of x of `sizes` that starts where values say.

    x of any dtype; starts [K], int32 or int64, one for each of `axes`, or for each dimension where these are
    not given. A start of axis None says nothing; along axes that are not named the slice is all of x. With
    `negative`, a start below 0 counts from the end. With `clip` the slice moves as far as it takes to fit.
    Raises ModelError for a slice that is larger than x and for other dtypes and shapes and, in the run and
    without `clip`, for a start from which the slice does not fit. TFLite schema, SLICE and STRIDED_SLICE;
    StableHLO, dynamic_slice.
    """
    firsts = [0] * x.ndim
    for axis, start in zip(range(x.ndim) if axes is None else axes, starts.tolist(), strict=True):
        if axis is not None:
            extent = x.shape[axis]
            start += extent if negative and start < 0 else 0
            firsts[axis] = min(max(start, 0), extent - sizes[axis])
    return np.asarray(x[tuple(slice(a, a + n) for a, n in zip(firsts, sizes, strict=True))])


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
    x, update, steps = call.x, call.input(1), dense(call.x.shape)
    copy = whole_copy(x, "all of the input, before the update is put in")
    rooms = _rooms(x.shape, update.shape)
    sizes, source, target = merge(update.shape, dense(update.shape), steps)
    lanes = 4 if _by_vectors(rooms, steps, sizes, source, target) else 1
    if lanes == 4:
        sizes, source, target = by_fours(sizes, source, target)
    put = Kernel(
        body="put_slice",
        threads=flat_threads(size_of(sizes)),
        reads=(
            *_starts(2, [(0, room, step // lanes) for room, step in zip(rooms, steps, strict=True)]),
            Read("x", 1, width=lanes),
        ),
        writes=(Write(width=lanes),),
        params={"count": size_of(sizes), "starts": x.rank, **space_params(sizes, {"y": target})},
        constants=space_constants(sizes),
        lanes=lanes,
        reason="the update is copied to where it starts",
    )
    return [copy, put]


def _allowed_places(call: Call) -> list[range]:
    """Return the allowed numbers for each start; none if starts are clipped."""
    rooms = () if call["clip"] else _rooms(call.x.shape, call.input(1).shape)
    return [range(room + 1) for room in rooms]


@op(
    _infer_update,
    _update_kernels,
    guards=(Guard(2, _allowed_places, "starts"),),
    overwrites=True,
    raw=True,
    strings=True,
    gradient=gradients.DYNAMIC_UPDATE_SLICE,
)
def dynamic_update_slice(x: Array, update: Array, starts: Array, *, clip: bool = True) -> Array:
    """Replace the slice of x at `starts` by `update`; with `clip` the starts move so that the slice fits.

    x and update of any dtype, the same with the same quantisation, and rank; starts int32 or int64, one for
    each dimension. Raises ModelError for other dtypes and shapes and, in the run and without `clip`, for a
    start from which the slice does not fit. TFLite schema, DynamicUpdateSliceOptions.
    """
    room = np.subtract(x.shape, update.shape)
    firsts = np.clip(starts, 0, room).tolist()
    result = x.copy()
    result[tuple(slice(a, a + n) for a, n in zip(firsts, update.shape, strict=True))] = update
    return result


OPS: tuple[Op, ...] = (dynamic_slice, dynamic_update_slice, reverse, reverse_sequence)
