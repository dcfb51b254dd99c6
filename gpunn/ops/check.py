"""Checks of element types and attributes that several families of ops share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gpunn.arguments import integer
from gpunn.ops.call import Call
from gpunn.ops.op import EIGHT_BITS
from gpunn.types import DType, TensorType

FLOATS = (DType.FLOAT32, DType.FLOAT16)
NUMBERS = (*FLOATS, DType.INT32, DType.INT64)
INDICES = (DType.INT32, DType.INT64)
SMALL = (*EIGHT_BITS, DType.INT16)  # integers that, unquantised, few ops take as the numbers that they are
QUANTIZED = SMALL  # element types of quantised tensors that stand for reals


def expect_dtype(call: Call, index: int, *dtypes: DType) -> TensorType:
    """Return the type of input `index`, whose element type must be one of `dtypes`.

    If these include float32, a quantised tensor is allowed too: it stands for real numbers.
    """
    found = call.input(index)
    quantized = found.quantization is not None
    fits = found.dtype in dtypes
    if quantized:
        fits = DType.FLOAT32 in dtypes and found.dtype in QUANTIZED
    if not fits:
        expected = " or ".join(d.value for d in dtypes)
        call.fail(f"input {index} must be {expected}, got {'quantised ' if quantized else ''}{found}")
    return found


def expect_unquantised(call: Call, index: int, *dtypes: DType) -> TensorType:
    """Return the type of input `index`, which must have one of `dtypes` and must not be quantised."""
    found = expect_dtype(call, index, *dtypes)
    if found.quantization is not None:
        call.fail(f"input {index} must not be quantised, got {found}")
    return found


def expect_stored(call: Call, dtypes: Mapping[int, DType]) -> None:
    """Raise ModelError unless these operands, if present, are integers of these dtypes, with scales.

    int32 operands need no scale: it follows from the others.
    """
    for index, dtype in dtypes.items():
        if not call.has(index):
            continue
        found = call.input(index)
        if found.dtype is not dtype or (found.quantization is None and dtype is not DType.INT32):
            call.fail(f"beside quantised inputs, input {index} must be quantised {dtype.value}, got {found}")


def expect_ints(call: Call, attr: str, count: int | None = None) -> tuple[int, ...]:
    """Return attribute `attr` as a tuple of ints; `count` of them if it is given."""
    return tuple(expect_int(call, attr, entry) for entry in expect_entries(call, attr, count))


def expect_entries(call: Call, attr: str, count: int | None = None) -> tuple[Any, ...]:
    """Return attribute `attr` as a tuple; with `count` entries if it is given."""
    value: Any = call[attr]
    if not isinstance(value, Iterable) or isinstance(value, str):
        call.fail(f"{attr} must be a sequence, got {value!r}")
    found = tuple(value)
    if count is not None and len(found) != count:
        call.fail(f"{attr} must have {count} entries, got {len(found)}: {list(found)}")
    return found


def expect_bool(call: Call, attr: str) -> bool:
    """Return attribute `attr`, which must be a bool."""
    value = call[attr]
    if not isinstance(value, bool):
        call.fail(f"{attr} must be True or False, got {value!r}")
    return value


def expect_int(call: Call, what: str, value: Any) -> int:
    """Return `value` as an int; raise ModelError for anything else, including a bool or a float."""
    found = integer(value)
    if found is None:
        call.fail(f"{what} must be an integer, got {value!r}")
    return found


def expect_float(call: Call, attr: str) -> float:
    """Return attribute `attr` as a float; raise ModelError if it is not a number."""
    value = call[attr]
    try:
        return float(value)
    except (TypeError, ValueError):
        call.fail(f"{attr} must be a number, got {value!r}")


def expect_value(call: Call) -> float:
    """Return attribute `value` as a number of the first input's dtype, which must hold an integer exactly."""
    value = call["value"] if isinstance(call["value"], int) else expect_float(call, "value")
    dtype = call.x.dtype
    if dtype not in (*FLOATS, DType.COMPLEX64):
        low, high = (0, 1) if dtype is DType.BOOL else (np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max)
        if not (low <= value <= high and value == int(value)):
            call.fail(f"value must be a number of {dtype.value}, got {value}")
    return value


def expect_pairs(call: Call, attr: str, count: int) -> list[tuple[int, int]]:
    """Return attribute `attr` as `count` pairs (before, after) of ints >= 0."""
    entries = expect_entries(call, attr, count)
    pairs = [tuple(entry) if isinstance(entry, Iterable) else (entry,) for entry in entries]
    if any(len(pair) != 2 for pair in pairs):
        call.fail(f"{attr} must be pairs (before, after), got {pairs}")
    pairs = [tuple(expect_int(call, attr, n) for n in pair) for pair in pairs]
    if any(n < 0 for pair in pairs for n in pair):
        call.fail(f"{attr} must be >= 0, got {pairs}")
    return [(before, after) for before, after in pairs]


def expect_axes(call: Call, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return axes as non-negative numbers, each once, in ascending order."""
    return tuple(sorted({call.axis(axis, rank) for axis in axes}))
