"""Conversion between element types, of values and of bits: cast, bitcast."""

from __future__ import annotations

import numpy as np

from gpunn.kernel import Kernel, is_nan
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import ELEMENTWISE
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS
from gpunn.ops.elementwise import gradients
from gpunn.ops.elementwise.unary_kernel import elementwise
from gpunn.ops.memory import by_blocks
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, TensorType


def _target(call: Call) -> DType:
    for target in DType:
        if target.value == call["dtype"] and target is not DType.STRING:
            return target
    numbers = ", ".join(d.value for d in DType if d is not DType.STRING)
    call.fail(f"dtype must be one of {numbers}, got {call['dtype']!r}")


def _infer_cast(call: Call) -> TensorType:
    return TensorType(_target(call), call.x.shape)


def _from_real(target: DType, x: str) -> str:
    """Write the WGSL expression that converts the float32 x to an integer."""
    if target is DType.BOOL:
        return f"1 - i32({x} == 0.0)"
    low, high = np.iinfo(target.numpy).min, np.iinfo(target.numpy).max
    top = min(high, 2**31 - 128)  # the largest float32 among them
    inside = f"i32(clamp({x}, {float(low)}, {float(top)}))"
    return f"select(select({inside}, {high}, {x} > {float(top)}), 0, {is_nan(x)})"


def _cast_kernel(call: Call) -> Kernel:
    return elementwise(call, _converted(call.x.dtype, call.y.dtype))


def _converted(source: DType, target: DType, x: str = "x") -> str:
    """Write the WGSL expression that converts x from one type to another."""
    if source is target:
        return x
    if source is DType.COMPLEX64:
        return _converted(DType.FLOAT32, target, f"{x}.x")
    if target is DType.COMPLEX64:
        return f"C64({_converted(source, DType.FLOAT32, x)}, 0.0)"
    if DType.INT64 in (source, target):
        return _of_int64(source, target, x)
    if target in FLOATS:
        return f"f32({x})"
    if source in FLOATS:
        return _from_real(target, x)
    return f"i32({x} != 0)" if target is DType.BOOL else x


def _of_int64(source: DType, target: DType, x: str) -> str:
    """Write the WGSL expression that converts an int64 to another type, or another type to int64."""
    if target is DType.INT64:
        return f"i64_from_f32({x})" if source in FLOATS else f"i64_from_i32({x})"
    if target in FLOATS:
        return f"i64_to_f32({x})"
    return f"i32(any({x} != I64()))" if target is DType.BOOL else f"i32({x}.x)"


@op(_infer_cast, _cast_kernel, raw=True, algebra=Algebra(axes=ELEMENTWISE), gradient=gradients.CAST)
def cast(x: Array, *, dtype: str) -> Array:
    """Convert x to another dtype, quantised tensors as stored; the result is not quantised.

    Shapes: any; the result has x's shape. A real number is truncated to an integer. Outside of the integer's
    range, where C and TFLite leave the result open, it becomes the nearest end of the range, and NaN becomes
    0. An integer that does not fit wraps around. bool is 1 or 0; every number except 0 is true. Of a complex
    number the real part is converted; a real number becomes one without an imaginary part. The conversion is
    exact, except that integers over 2^24 are rounded to float32. Raises ModelError for an unknown dtype.
    TFLite schema, CastOptions.
    """
    target = np.dtype(dtype)
    if x.dtype.kind == "c" != target.kind:
        x = x.real
    if x.dtype.kind != "f" or target.kind not in "iu":
        return np.asarray(x != 0) if target.kind == "b" else x.astype(target)
    return by_blocks(_write_whole, x, target)


def _write_whole(x: Array, out: Array) -> None:
    """Write real numbers as integers; see cast."""
    info = np.iinfo(out.dtype)
    if info.min <= float(x.min()) and float(x.max()) <= info.max:  # and none is NaN
        np.copyto(out, x, casting="unsafe")
        return
    whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0))
    inside = (whole > info.min) & (whole < info.max)
    ends = np.where(whole > 0, info.max, info.min)
    out[...] = np.where(inside, np.where(inside, whole, 0).astype(out.dtype), ends.astype(out.dtype))


def _infer_bitcast(call: Call) -> TensorType:
    source, target, shape = call.x.dtype, _target(call), call.x.shape
    if target is DType.BOOL is not source:
        call.fail("bits are no truths, got dtype 'bool'")
    ratio = max(source.itemsize, target.itemsize) // min(source.itemsize, target.itemsize)
    if target.itemsize < source.itemsize:
        return TensorType(target, (*shape, ratio))
    if target.itemsize > source.itemsize:
        if shape[-1:] != (ratio,):
            call.fail(f"the last dimension must be {ratio}, got {call.x} for elements of {target.value}")
        return TensorType(target, shape[:-1])
    return TensorType(target, shape)


@op(_infer_bitcast, alias=True, precise=True)
def bitcast(x: Array, *, dtype: str) -> Array:
    """Read x's bits as numbers of another dtype, lowest bytes first; quantised tensors as stored.

    If an element becomes several smaller ones, these have a new last dimension. If several elements become a
    larger one, they must be the last dimension, which is removed. The result is not quantised. Raises
    ModelError for an unknown dtype, for a last dimension that does not make one element, and for bool, except
    from bool. TFLite schema, BitcastOptions.
    """
    target, size = np.dtype(dtype), x.itemsize
    rows = np.ascontiguousarray(x).reshape(-1)
    if target.itemsize < size:
        return rows.view(target).reshape(*x.shape, size // target.itemsize)
    return rows.view(target).reshape(x.shape if target.itemsize == size else x.shape[:-1])


OPS: tuple[Op, ...] = (cast, bitcast)
