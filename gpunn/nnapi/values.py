"""Values from callers: arrays, numbers and bytes become arrays of an operand's type, sharing their memory."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import numpy as np

from gpunn.arguments import integer
from gpunn.errors import DeviceError, ModelError, NnapiError, OutOfMemoryError, ResultCode, UnsupportedError
from gpunn.importers.nnapi.codes import OperandType
from gpunn.types import Array

_Code = TypeVar("_Code", bound=enum.IntEnum)


def bad(what: str) -> NoReturn:
    """Raise BAD_DATA."""
    raise NnapiError(ResultCode.BAD_DATA, what)


def expect_given(what: str, *values: Any) -> None:
    """Raise UNEXPECTED_NULL if one of the values is None."""
    if any(value is None for value in values):
        raise NnapiError(ResultCode.UNEXPECTED_NULL, f"{what} must not be None")


def expect_kind(what: str, value: Any, kind: type) -> None:
    """Raise UNEXPECTED_NULL if a value is None, BAD_DATA if it is not of a class."""
    expect_given(what, value)
    if not isinstance(value, kind):
        bad(f"{what} must be of {kind.__module__}.{kind.__name__}, got {value!r}")


def expect_index(what: str, value: Any) -> int:
    """Return an integer as an int. Raises UNEXPECTED_NULL for None, BAD_DATA for anything else."""
    expect_given(what, value)
    found = integer(value)
    if found is None:
        bad(f"{what} must be an integer, got {value!r}")
    return found


def expect_code(what: str, value: Any, codes: type[_Code]) -> _Code:
    """Return the member of a number. Raises UNEXPECTED_NULL for None, BAD_DATA for what is no member."""
    expect_given(what, value)
    found = integer(value)
    if found is None or found not in [*codes]:
        bad(f"{what} must be one of {codes.__name__}, got {value!r}")
    return codes(found)


def as_array(value: Any, type: OperandType, what: str, *, write: bool = False) -> Array:
    """Convert `value` to an array of `type`, whose dimensions are known.

    An array must have the type's dtype and shape; bytes-like objects must have its length; numbers and
    sequences of numbers must be representable. Bytes-like objects and C-contiguous arrays are not copied.
    With `write` the array is for writing, so the value must be one of these, and writable. Raises BAD_DATA.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        array: Array = np.asarray(value)
        if array.dtype != type.type.numpy:
            bad(f"{what} must be {type.type.numpy}, got {array.dtype}")
    elif (buffer := _buffer(value)) is not None:
        if buffer.nbytes != type.nbytes:
            bad(f"{what} must have {type.nbytes} bytes as {type}, got {buffer.nbytes}")
        array = np.frombuffer(buffer, type.type.numpy).reshape(type.dimensions)
    elif write:
        bad(f"{what} must be an array or a bytes-like object to write to, got {value!r:.80}")
    else:
        array = _numbers(value, type, what)
    if array.shape != type.dimensions and not (array.size == 1 and not type.dimensions):
        bad(f"{what} must have shape {list(type.dimensions)} as {type}, got {list(array.shape)}")
    if write and not (array.flags.c_contiguous and array.flags.writeable):
        bad(f"{what} must be writable and C-contiguous")
    return np.ascontiguousarray(array).reshape(type.dimensions)


def as_room(value: Any, type: OperandType, what: str) -> Array:
    """Convert `value` to a flat array of the elements of `type` that it has room for, for writing.

    An array must have the type's dtype, a bytes-like object any length. Raises BAD_DATA unless it is one of
    these, C-contiguous and writable.
    """
    dtype = type.type.numpy
    if isinstance(value, np.ndarray):
        fits, array = value.dtype == dtype and value.flags.c_contiguous, value.reshape(-1)
    else:
        buffer = _buffer(value)
        fits = buffer is not None
        array = np.frombuffer(b"" if buffer is None else buffer, np.uint8)
        array = array[: array.size - array.size % dtype.itemsize].view(dtype)
    if not fits or not array.flags.writeable:
        bad(f"{what} must be a writable, C-contiguous buffer of {dtype}, got {value!r}")
    return array


def _buffer(value: Any) -> memoryview | None:
    """Return the bytes of a bytes-like object; None for anything else."""
    try:
        view = memoryview(value)
    except TypeError:
        return None
    if not view.c_contiguous:
        bad("a bytes-like object must be C-contiguous")
    return view.cast("B") if view.nbytes else view


def _numbers(value: Any, type: OperandType, what: str) -> Array:
    try:
        found = np.asarray(value)
        exact = np.can_cast(found.dtype, np.float64, "same_kind") and found.dtype.kind in "biuf"
        with np.errstate(over="ignore", invalid="ignore"):
            array: Array = found.astype(type.type.numpy) if exact else found
    except (TypeError, ValueError, OverflowError, RuntimeWarning):
        bad(f"{what} must be numbers, got {value!r}")
    integers = type.type.numpy.kind in "biu"
    if not exact or (integers and (found.dtype.kind == "f" or not np.array_equal(array, found))):
        bad(f"{what} must be {type.type.numpy}, got {value!r}")
    if not integers and not np.array_equal(np.isfinite(array), np.isfinite(found)):
        bad(f"{what} must be in the range of {type.type.numpy}, got {value!r}")
    return array


def from_bytes(data: Array, type: OperandType, what: str) -> Array:
    """Convert bytes of a Memory to an array of `type` that shares them. Raises BAD_DATA unless the length
    fits.
    """
    if data.nbytes != type.nbytes:
        bad(f"{what} must have {type.nbytes} bytes as {type}, got {data.nbytes}")
    return data.view(type.type.numpy).reshape(type.dimensions)


@contextmanager
def translated() -> Iterator[None]:
    """Translate gpunn's errors to NNAPI's: a wrong graph is BAD_DATA, anything that fails OP_FAILED."""
    try:
        yield
    except NnapiError:
        raise
    except ModelError as error:
        raise NnapiError(ResultCode.BAD_DATA, str(error)) from error
    except (MemoryError, OutOfMemoryError) as error:
        raise NnapiError(ResultCode.OUT_OF_MEMORY, str(error) or "out of memory") from error
    except (DeviceError, UnsupportedError) as error:
        raise NnapiError(ResultCode.OP_FAILED, str(error)) from error
