"""Limits of the tensors of a graph: values that fit their types, zeros."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from gpunn.errors import ModelError
from gpunn.strings import as_strings
from gpunn.types import Array, DType, TensorType

_INTEGERS = (DType.INT32, DType.INT64)
MAX_SHORT = 64  # elements of what may be a shape, or a list of indices into one


def expect_type(what: str, value: Array, type: TensorType) -> None:
    """Raise ModelError unless an array has the dtype and shape of a type."""
    if not isinstance(value, (np.ndarray, np.generic)):
        raise ModelError(f"{what} should be an array as {type}, got {value!r}")
    if value.dtype != type.dtype.numpy or value.shape != type.shape:
        raise ModelError(f"{what} should be {type}, got {value.dtype}{list(value.shape)}")


def as_constant(what: str, value: Any, type: TensorType | None) -> Array:
    """Return arrays as they are, if they are dense, and what numpy makes an array of in the dtype of a type.

    Python's numbers are float32 and int32 if there is no type, and may be rounded to float32. Raises
    ModelError if numpy cannot make an array, and if a dtype cannot hold the values.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value, order="C")
    if type is not None and type.dtype is DType.STRING:
        return as_strings(value, what)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what} cannot be made an array: {error}") from None
    narrow = {"f": DType.FLOAT32, "i": DType.INT32}.get(array.dtype.kind)
    if array.dtype.kind not in "biuf" or (type is None and narrow is None):
        return array
    target = (narrow if type is None else type.dtype) or DType.of(array.dtype)
    with np.errstate(all="ignore"):
        found = array.astype(target.numpy)
    close = np.isfinite(found) == np.isfinite(array) if found.dtype.kind == "f" else found == array
    if not np.all(close):
        raise ModelError(f"{what} has values that {target.value} cannot hold")
    return found


def zeros(type: TensorType) -> Array:
    """Return what stands for zeros in a tensor, in the memory of one element, or one for each zero point."""
    q = type.quantization
    zeros = np.array((0,) if q is None else q.zero_point, type.dtype.numpy)
    along = [-1 if q is not None and axis == q.axis else 1 for axis in range(type.rank)]
    return np.broadcast_to(zeros.reshape(along), type.shape)


def is_short(type: TensorType, dtypes: Collection[DType] = _INTEGERS) -> bool:
    """Tell whether a tensor of one of these dtypes may be a shape, or indices into one."""
    return type.dtype in dtypes and type.quantization is None and type.size <= MAX_SHORT
