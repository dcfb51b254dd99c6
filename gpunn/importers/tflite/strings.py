"""TFLite's encoding of string tensors: a count, an offset to each string and to the end, then the bytes."""

from __future__ import annotations

import itertools

import numpy as np

from gpunn.types import Array

_WORD = 4  # bytes of a number, an int32 in little-endian order


def decode(data: Array, count: int) -> Array:
    """Return the `count` strings in a buffer's bytes, as an array of bytes objects.

    Raises ValueError unless every offset is where the one before allows, and within the buffer. LiteRT,
    string_util.h, has the format.
    """
    words = data[: len(data) // _WORD * _WORD].view("<i4")
    if not len(words) or words[0] != count:
        raise ValueError(f"expected {count} strings, got {words[0] if len(words) else 'no count'}")
    offsets = words[1 : count + 2].astype(np.int64)
    first = _WORD * (count + 2)
    ends = np.array([first, *offsets, len(data)])
    if len(offsets) != count + 1 or (np.diff(ends) < 0).any():
        raise ValueError(f"{count} strings do not fit {len(data)} bytes")
    raw = data.tobytes()
    found = np.empty(count, object)
    found[:] = [raw[a:b] for a, b in itertools.pairwise(offsets)]
    return found
