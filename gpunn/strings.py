"""String tensors: numpy arrays of dtype object with bytes as elements.

They stay on the host: shaders cannot handle elements of any length.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gpunn.errors import ModelError
from gpunn.types import Array


def as_strings(value: Any, what: str) -> Array:
    """Convert `value` to an array of bytes, from arrays and nested lists of bytes or str, which becomes
    UTF-8.

    Raises ModelError for anything else; the message says that `what` should be strings.
    """
    try:
        array = np.asarray(value) if isinstance(value, np.ndarray) else np.asarray(value, object)
        found = np.empty(array.shape, object)
        found.reshape(-1)[:] = [_encoded(v) for v in array.astype(object).reshape(-1)]
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what} must be strings: {error}") from None
    return found


def held_bytes(array: Array) -> int:
    """Return the bytes that an array keeps in memory, including its strings."""
    held = array.nbytes
    if array.dtype == object:
        held += sum(map(sys.getsizeof, array.reshape(-1)))
    return held


def packed(array: Array) -> bytes:
    """Pack strings as a TFLite tensor stores them: their count, the offset of each and of the end, the bytes.

    All numbers are int32, little-endian. LiteRT, string_util.h.
    """
    strings = array.reshape(-1).tolist()
    offsets = np.cumsum([4 * (len(strings) + 2), *map(len, strings)])
    return np.array([len(strings), *offsets], "<i4").tobytes() + b"".join(strings)


def _encoded(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, bytes):
        return bytes(value)
    raise TypeError(f"got {type(value).__name__}")
