"""Tensors made from a few numbers: fill, one_hot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpunn.kernel import Kernel, Read, flat_threads, size_of
from gpunn.ops.call import Call
from gpunn.ops.check import INDICES, expect_int, expect_ints, expect_unquantised
from gpunn.ops.kernels.copies import strided_copy
from gpunn.ops.kernels.strides import dense
from gpunn.ops.op import Op, op
from gpunn.types import Array, TensorType


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


@op(_infer_fill, _fill_kernel, raw=True, strings=True)
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
    return Kernel(
        body="one_hot",
        threads=flat_threads(call.y.size),
        workgroup=(64, 1, 1),
        reads=(Read("index", 0), Read("on", 1), Read("off", 2)),
        params={"count": call.y.size, "depth": call["depth"], "inner": size_of(call.y.shape[axis + 1 :])},
        reason="element by element",
    )


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


OPS: tuple[Op, ...] = (fill, one_hot)
