"""Positions of values in an order: arg_max, arg_min, top_k, bucketize.

dtype of x: float32, float16, int32, int64, uint8, int8 or int16, quantised values compared as stored; for
arg_max and arg_min also bool. Ties go to the lowest index, -0 equals +0, and NaN counts as more extreme than
any number: the first NaN is both the maximum and the minimum, as in numpy (TFLite does not define it). The
GPU compares values as integers of the same order (shaders/lib/order.wgsl).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gpunn.kernel import (
    Candidate,
    Kernel,
    Kernels,
    Loop,
    Read,
    Write,
    ceil_div,
    flat_threads,
    halving,
    is_nan,
    size_of,
)
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import ELEMENTWISE, Axes, Space, each_axis, without
from gpunn.ops.call import Call
from gpunn.ops.check import NUMBERS, SMALL, expect_dtype, expect_entries, expect_int, expect_unquantised
from gpunn.ops.elementwise.unary_kernel import elementwise
from gpunn.ops.kernels.chain import boxes, chained, keeping
from gpunn.ops.kernels.cooperative import CooperativeGroup, cooperative_group, in_groups
from gpunn.ops.kernels.sort import BLOCK, Sorted, ascending, ordering, sorting
from gpunn.ops.memory import by_blocks
from gpunn.ops.op import Op, op
from gpunn.ops.reduction.gradients import TOP_K
from gpunn.ops.reduction.short_rows import places
from gpunn.types import Array, DType, TensorType

# The first k, up to so many, of rows as many times as long: k walks are faster than all pairs or a sort
# (measured on lavapipe).
_WALKS = 16
_FEW = 4  # parts of a row, in the first of which the first k lie: they are found before they are sorted
_FEW_BOUNDS = 32  # that are compared with each number in less time than it is searched among them
_INDICES = {d.value: d for d in (DType.INT32, DType.INT64)}


def _infer_arg(call: Call) -> TensorType:
    x = expect_dtype(call, 0, *NUMBERS, *SMALL, DType.BOOL)
    axis = call.axis(expect_int(call, "axis", call["axis"]), x.rank)
    if x.shape[axis] < 1:
        call.fail(f"axis {axis} must not be empty, got shape {list(x.shape)}")
    if call["dtype"] not in _INDICES:
        call.fail(f"dtype must be {' or '.join(_INDICES)}, got {call['dtype']!r}")
    return TensorType(_INDICES[call["dtype"]], (*x.shape[:axis], *x.shape[axis + 1 :]))


def _other_axes(call: Call) -> Space:
    rank = call.x.rank
    return Space((each_axis(rank),), (without([call.axis(call["axis"], rank)], rank),))


_ARG = Algebra(axes=Axes(space=_other_axes, axis=("axis",)))


def _arg_kernels(call: Call, descending: int) -> Kernels:
    axis = call.axis(call["axis"], call.x.rank)

    def kernels(group: CooperativeGroup) -> Sequence[Kernel]:
        kernel = _extremes(call, "extreme", axis, 1, descending, (Write(),), group)
        most = call.device.max_loop_iterations
        if most is None or kernel.loop_iterations <= most:
            return [kernel]
        kernel = replace(kernel, body="extreme_part")
        parts = boxes((call.x.shape[axis],), most, group.size)
        return chained(kernel, keeping(kernel, {"y": call.y}, kernel.functions), parts)

    return in_groups(_group(call, axis), call.x.shape[axis], kernels)


def _group(call: Call, axis: int) -> CooperativeGroup:
    """Return the invocations that share a row by the rule."""
    shape = call.x.shape
    return cooperative_group(call.x.size // shape[axis], shape[axis], call.device)


def _extremes(
    call: Call,
    body: str,
    axis: int,
    k: int,
    descending: int,
    writes: tuple[Write, ...],
    group: CooperativeGroup,
) -> Kernel:
    """Make a kernel that finds the first k along an axis."""
    shape = call.x.shape
    return Kernel(
        body=body,
        threads=group.threads,
        workgroup=group.workgroup,
        reads=(Read("x", 0),),
        writes=writes,
        params={"rows": group.results, "length": shape[axis], "inner": size_of(shape[axis + 1 :]), "k": k},
        **ordering(call.x.dtype, descending, **group.constants),
        loop_iterations=_iterations(shape[axis], k, group.size),
        reason=f"rows of {shape[axis]}: {group.reason}",
    )


def _iterations(length: int, k: int, across: int) -> int:
    """Count the loop iterations of an invocation that shares rows with `across` in all."""
    return Loop(k, (Loop(ceil_div(length, across)), halving(across))).iterations


@op(_infer_arg, lambda call: _arg_kernels(call, 1), raw=True, algebra=_ARG)
def arg_max(x: Array, *, axis: int, dtype: str = "int32") -> Array:
    """Find the index of the maximum along `axis`, which may be negative and is removed.

    `dtype` of the result: "int32" or "int64". Raises ModelError for other dtypes and for an axis that is out
    of range or empty. TFLite schema, ArgMaxOptions.
    """
    return np.asarray(_first(np.maximum, x, axis), dtype)


@op(_infer_arg, lambda call: _arg_kernels(call, 0), raw=True, algebra=_ARG)
def arg_min(x: Array, *, axis: int, dtype: str = "int32") -> Array:
    """Find the index of the minimum along `axis`, which may be negative and is removed; see arg_max.

    TFLite schema, ArgMinOptions.
    """
    return np.asarray(_first(np.minimum, x, axis), dtype)


def _first(fold: np.ufunc, x: Array, axis: int) -> Array:
    """Return the index of the first maximum or minimum along an axis."""
    found = places(fold, x) if axis in (-1, x.ndim - 1) else None
    if found is not None:
        return found
    return np.asarray(np.argmax(x, axis=axis) if fold is np.maximum else np.argmin(x, axis=axis))


def _infer_top(call: Call) -> tuple[TensorType, TensorType]:
    x = expect_dtype(call, 0, *NUMBERS, *SMALL)
    k = expect_int(call, "k", call["k"])
    if x.rank < 1:
        call.fail("input 0 must have rank 1 or more, got a scalar")
    if not 0 <= k <= x.shape[-1]:
        call.fail(f"k must be in 0 ... {x.shape[-1]}, got {k}")
    shape = (*x.shape[:-1], k)
    return x.with_shape(shape), TensorType(DType.INT32, shape)


# The first k values and their indices.
_TOP = (Write(), Write("index", 1))


def _top_kernels(call: Call) -> Iterator[Candidate]:
    length, k = call.x.shape[-1], call["k"]
    if not k:
        yield Candidate((), "empty rows")
        return
    if k <= _WALKS and length > _WALKS * k:
        last = call.x.rank - 1
        walks = _extremes(call, "extremes", last, k, 1, _TOP, _group(call, last))
        yield Candidate([walks], f"{k} walks along each row")
    if length <= BLOCK:
        yield Candidate([_ranked_top(call)], "all pairs of a short row")
    else:
        kernels, order = sorting(Read("x", 0), call.x, 1, call.device, k)
        yield Candidate([*kernels, _sorted_top(call, order)], "a sort of each row")


def _ranked_top(call: Call) -> Kernel:
    return Kernel(
        body="top_k",
        threads=flat_threads(call.x.size),
        reads=(Read("x", 0),),
        writes=_TOP,
        params={"count": call.x.size, "length": call.x.shape[-1], "k": call["k"]},
        loop_iterations=Loop(call.x.shape[-1]).iterations,
        **ordering(call.x.dtype, 1),
        reason="every value counts those before it",
    )


def _sorted_top(call: Call, order: Sorted) -> Kernel:
    return Kernel(
        body="take_sorted",
        threads=flat_threads(call.y.size),
        reads=(Read("x", 0), Read("sorted", order.places)),
        writes=_TOP,
        params={
            "count": call.y.size,
            "length": call.x.shape[-1],
            "total": order.length,
            "k": call["k"],
        },
        reason="the first of each sorted row",
    )


@op(_infer_top, _top_kernels, raw=True, gradient=TOP_K)
def top_k(x: Array, *, k: int) -> tuple[Array, Array]:
    """Find the k greatest values of each row (the last dimension), in descending order, and their indices.

    values have x's type, indices are int32. Raises ModelError for other dtypes, a scalar, and unless k is
    within the row. TFLite schema, TOPK_V2.
    """
    length = x.shape[-1]
    if k == 1:
        indices = _first(np.maximum, x, -1)[..., None]
    elif x.itemsize > 4:
        number = ~np.isnan(x)
        descending = np.where(number, -x, 0) if x.dtype.kind == "f" else ~x
        indices = np.lexsort((descending, number), axis=-1)[..., :k]
    else:
        keys = _descending(x)
        if k * _FEW < length:
            keys = np.partition(keys, k - 1, axis=-1)[..., :k]
        keys.sort(axis=-1)
        indices = keys[..., :k] & 0xFFFFFFFF
    return np.take_along_axis(x, indices, -1), indices.astype(np.int32)


def _descending(x: Array) -> Array:
    """Return int64 keys that sort rows as top_k(): the value's place in descending order, then the index.

    numpy sorts them in a fraction of the time of a stable sort of the values.
    """
    if x.dtype.kind == "f":
        places = np.add(x, 0, dtype=np.float32).view(np.int32)  # -0 becomes 0
        places ^= (places >> 31) & 0x7FFFFFFF  # the bits of numbers below 0 ascend with their size
        places[np.isnan(x)] = 0x7FFFFFFF
    else:
        places = x.astype(np.int32)
    keys = np.invert(places).astype(np.int64)
    keys <<= 32
    keys |= np.arange(x.shape[-1])
    return keys


def _infer_bucketize(call: Call) -> TensorType:
    expect_unquantised(call, 0, *NUMBERS)
    boundaries = expect_entries(call, "boundaries")
    if not all(a <= b for a, b in itertools.pairwise((*boundaries, math.inf))):  # and none is NaN
        call.fail("boundaries must be in ascending order")
    return TensorType(DType.INT32, call.x.shape)


# Not f32(x), which may round either way.
_REALS = {DType.INT32: "i64_to_f32(i64_from_i32(x))", DType.INT64: "i64_to_f32(x)"}


def _bucketize_kernel(call: Call) -> Kernel:
    """Count by lib/steps.wgsl which boundaries a number reaches: these are integers of the same order.

    Their number becomes a power of two. The first is not looked at, and those behind the boundaries are ones
    that only NaN reaches.
    """
    bounds, real = np.asarray(call["boundaries"], np.float32), _REALS.get(call.x.dtype, "x")
    half = max(1 << bounds.size.bit_length() >> 1, 1)
    beyond = np.int32(2**31 - 1)
    least = np.full(2 * half, beyond)
    least[1 : bounds.size + 1] = np.where(np.isnan(bounds), beyond, ascending(bounds))
    key = f"select(ascending(bitcast<i32>({real})), 0x7fffffff, {is_nan(real)})"
    libraries = ("steps", "ascending", *(("int64",) if call.x.dtype in _REALS else ()))
    counted = f"min(i32(reached({key})), i32(p.bounds))"
    kernel = elementwise(call, counted, {"bounds": bounds.size}, libraries)
    return replace(
        kernel,
        reads=(*kernel.reads, Read("least", None, value=least)),
        constants={"HALF": half},
        pointwise=None,
        loop_iterations=4 * Loop(half.bit_length()).iterations,
        reason=f"a search among {bounds.size} boundaries",
    )


@op(_infer_bucketize, _bucketize_kernel, algebra=Algebra(axes=ELEMENTWISE))
def bucketize(x: Array, *, boundaries: Sequence[float]) -> Array:
    """Count for each number the ascending boundaries that are not above it: int32, x's shape.

    x float32, int32, float16 or int64, compared as float32; NaN is above all. Raises ModelError for other
    dtypes and for boundaries that do not ascend. TFLite schema, BucketizeOptions.
    """
    bounds = np.asarray(boundaries, np.float32)
    reals = x.astype(np.float32) if x.dtype.kind == "i" else x
    if bounds.size > _FEW_BOUNDS:
        return np.searchsorted(bounds, reals, side="right").astype(np.int32)

    def write(x: Array, out: Array) -> None:
        below = np.zeros(x.shape, np.uint8)
        for bound in bounds:
            below += np.less(x, bound).view(np.uint8)
        np.subtract(bounds.size, below, out=out)

    return by_blocks(write, reals, np.int32)


OPS: tuple[Op, ...] = (arg_max, arg_min, top_k, bucketize)
