"""Tensors made from a few numbers: fill, one_hot, range, broadcast_args."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpunn.errors import ModelError
from gpunn.kernel import Kernel, Read, flat_threads, size_of
from gpunn.ops.call import Call, broadcast_shapes
from gpunn.ops.check import INDICES, expect_int, expect_ints, expect_unquantised
from gpunn.ops.kernels.copies import strided_copy
from gpunn.ops.kernels.each import each
from gpunn.ops.kernels.strides import dense
from gpunn.ops.movement import gradients
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, TensorType

MAX_RANGE = 1 << 22  # numbers that three may unfold to


def _expect_one(call: Call, index: int) -> TensorType:
    """Return the type of input `index`, which must have one element."""
    found = call.input(index)
    if found.size != 1:
        call.fail(f"input {index} must have one element, got shape {list(found.shape)}")
    return found


def _infer_fill(call: Call) -> TensorType:
    shape = expect_ints(call, "shape")
    if any(extent < 0 for extent in shape):
        call.fail(f"shape must have entries >= 0, got {list(shape)}")
    return _expect_one(call, 0).with_shape(shape)


def _fill_kernel(call: Call) -> Kernel:
    shape = call.y.shape
    return strided_copy(Read("x", 0), shape, (0,) * len(shape), dense(shape), reason="one value everywhere")


@op(_infer_fill, _fill_kernel, raw=True, strings=True, gradient=gradients.FILL)
def fill(value: Array, *, shape: Sequence[int]) -> Array:
    """Make a tensor of `shape` in which every element is the one element of `value`.

    value: any dtype, which the result has too, including quantisation. Raises ModelError for a value of
    several elements and for a shape with a negative extent. TFLite schema, FillOptions.
    """
    return np.full(tuple(shape), value.reshape(()), value.dtype)


def _infer_one_hot(call: Call) -> TensorType:
    indices = expect_unquantised(call, 0, *INDICES)
    on, off = _expect_one(call, 1), _expect_one(call, 2)
    if on.dtype is not off.dtype or on.quantization != off.quantization:
        call.fail(f"on and off must have one dtype and quantisation, got {on} and {off}")
    depth = expect_int(call, "depth", call["depth"])
    if depth < 0:
        call.fail(f"depth must be >= 0, got {depth}")
    axis = call.axis(expect_int(call, "axis", call["axis"]), indices.rank + 1)
    return on.with_shape((*indices.shape[:axis], depth, *indices.shape[axis:]))


def _one_hot_kernel(call: Call) -> Kernel:
    axis = call.axis(call["axis"], call.y.rank)
    kernel = Kernel(
        body="one_hot",
        threads=flat_threads(call.y.size),
        reads=(Read("index", 0), Read("on", 1), Read("off", 2)),
        params={"count": call.y.size, "depth": call["depth"], "inner": size_of(call.y.shape[axis + 1 :])},
        reason="element by element",
    )
    return each(kernel, call.y)


@op(_infer_one_hot, _one_hot_kernel, raw=True, strings=True)
def one_hot(indices: Array, on: Array, off: Array, *, depth: int, axis: int = -1) -> Array:
    """Put `on` at the index along a new axis, and `off` everywhere else.

    An index out of range puts `on` nowhere. indices int32 or int64, any shape [...]; on and off one element
    each of any dtype, the same, which the result has too. The result has the new extent `depth` in front of
    dimension `axis` of the indices, which may be negative (-1: at the end). Raises ModelError for other
    dtypes, several elements, a negative depth and an axis out of range. TFLite schema, OneHotOptions.
    """
    places = np.arange(depth).reshape(-1, *(1,) * (indices.ndim - axis % (indices.ndim + 1)))
    hit = np.expand_dims(indices, axis) == places
    return np.where(hit, on.reshape(()), off.reshape(()))


def _infer_range(call: Call) -> TensorType:
    types = [expect_unquantised(call, index, DType.FLOAT32, *INDICES) for index in range(3)]
    if len({t.dtype for t in types}) > 1:
        first, second, third = (t.dtype.value for t in types)
        call.fail(f"start, limit and delta are {first}, {second} and {third}")
    for name, type in zip(("start", "limit", "delta"), types, strict=True):
        if type.size != 1:
            call.fail(f"the {name} should be one number, got {type.size}")
    numbers = call.values(range(3), types[0].with_shape((1,)))
    first, last, step = (v.item() for v in numbers)
    if not all(map(math.isfinite, (first, last, step))) or step == 0:
        call.fail(f"cannot go from {first} to {last} in steps of {step}")
    if (last - first) * step < 0:
        call.fail(f"steps of {step} do not lead from {first} to {last}")
    count = _count(first, last, step)
    if count > MAX_RANGE:
        call.refuse(f"{count} numbers are too many, at most {MAX_RANGE} are supported")
    return types[0].with_shape((count,))


def _count(first: float, last: float, step: float) -> int:
    """Count the numbers from the first to before the last."""
    if isinstance(step, int):
        return int(-((first - last) // step))
    return math.ceil(abs((last - first) / step))


@op(_infer_range, name="range", host_reason="reals add up one after the other")
def count_up(start: Array, limit: Array, delta: Array) -> Array:
    """Count from start to before limit in steps of delta; reals add up in float32.

    All three are one number of one dtype: float32, int32 or int64. The result is a list of that dtype; how
    long it is follows from their values. Raises ModelError for other dtypes, and for steps of 0 or away from
    the limit; UnsupportedError for more than MAX_RANGE numbers. TFLite schema, RANGE.
    """
    first, last, step = (v.item() for v in (start, limit, delta))
    terms: Array = np.full(_count(first, last, step), step, delta.dtype)
    terms[:1] = first
    return np.cumsum(terms, dtype=delta.dtype)


def _infer_broadcast_args(call: Call) -> TensorType:
    a, b = (expect_unquantised(call, index, *INDICES) for index in range(2))
    if a.dtype is not b.dtype or max(a.rank, b.rank) > 1:
        call.fail(f"the shapes are {a} and {b}")
    shapes = [call.known(index) for index in range(2)]
    if shapes[0] is not None and shapes[1] is not None:
        broadcast_shapes(call, *(tuple(shape.reshape(-1).tolist()) for shape in shapes if shape is not None))
    return a.with_shape((max(a.size, b.size),))


@op(_infer_broadcast_args, host_reason="shapes are the host's")
def broadcast_args(a: Array, b: Array) -> Array:
    """Compute the shape that two shapes broadcast to, as numpy broadcasts.

    a [m] and b [n], both int32 or int64; the result is [max(m, n)] of their dtype. Raises ModelError for
    other dtypes and ranks and, in the run, for shapes that do not fit together. TFLite schema,
    BROADCAST_ARGS.
    """
    shapes = [tuple(int(n) for n in shape.reshape(-1)) for shape in (a, b)]
    try:
        return np.array(np.broadcast_shapes(*shapes), a.dtype)
    except ValueError:
        what = " and ".join(str(list(shape)) for shape in shapes)
        raise ModelError(f"broadcast_args: shapes {what} cannot be broadcast together") from None


OPS: tuple[Op, ...] = (fill, one_hot, count_up, broadcast_args)
