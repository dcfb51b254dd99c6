"""Limits of the tensors of a graph: values that fit their types, zeros."""

from __future__ import annotations

import numpy as np

from gpunn.errors import ModelError
from gpunn.types import Array, DType, TensorType

_INTEGERS = (DType.INT32, DType.INT64)
MAX_SHORT = 64  # elements of what may be a shape, or a list of indices into one


def expect_type(what: str, value: Array, type: TensorType) -> None:
    """Raise ModelError unless an array has the dtype and shape of a type."""
    if value.dtype != type.dtype.numpy or value.shape != type.shape:
        raise ModelError(f"{what} should be {type}, got {value.dtype}{list(value.shape)}")


def zeros(type: TensorType) -> Array:
    """Return what stands for zeros in a tensor, in the memory of one element, or one for each zero point."""
    q = type.quantization
    zeros = np.array((0,) if q is None else q.zero_point, type.dtype.numpy)
    along = [-1 if q is not None and axis == q.axis else 1 for axis in range(type.rank)]
    return np.broadcast_to(zeros.reshape(along), type.shape)


def is_short(type: TensorType) -> bool:
    """Tell whether a tensor may be a shape, or indices into one."""
    return type.dtype in _INTEGERS and type.quantization is None and type.size <= MAX_SHORT
