"""The words of operands in the memory of a loop: one for each element, two for int64."""

from __future__ import annotations

import numpy as np

from gpunn.backends.webgpu.bindings import HALF, PACKED_TYPES, PAIRED_TYPES
from gpunn.types import Array, DType


def words_of(value: Array) -> Array:
    """Return the words of an array, as int32."""
    flat = np.ascontiguousarray(value).reshape(-1)
    if flat.dtype == np.float16:
        flat = flat.astype(np.float32)
    if flat.dtype.itemsize < np.dtype(np.int32).itemsize:
        flat = flat.astype(np.int32)
    return flat.view(np.int32)


def unpacking(dtype: DType, word: str, place: str) -> str:
    """Write WGSL that puts element i of a tensor into memory, from `place` on.

    word: an expression of the word of its buffer that has the element, with {} for the word's number; of
    int64, the element.
    """
    if dtype is DType.INT64:
        pair = [f"bitcast<i32>({word.format('i')}.{axis})" for axis in "xy"]
        puts = (f"put_word({place} + 2u * i + {k}u, {half});" for k, half in enumerate(pair))
        return " ".join(puts)
    if dtype is HALF:
        found = f"bitcast<u32>({word.format('i >> 1u')})"
        element = f"bitcast<i32>(unpack2x16float({found} >> ((i & 1u) * 16u)).x)"
    elif dtype in PAIRED_TYPES:
        found = f"bitcast<i32>({word.format('i >> 1u')})"
        element = f"extractBits({found}, (i & 1u) * 16u, 16u)"
    elif dtype in PACKED_TYPES:
        found = f"bitcast<{PACKED_TYPES[dtype][1]}>({word.format('i >> 2u')})"
        element = f"i32(extractBits({found}, (i & 3u) * 8u, 8u))"
    else:
        element = f"bitcast<i32>({word.format('i')})"
    return f"put_word({place} + i, {element});"


def packing(dtype: DType, place: str) -> str:
    """Write WGSL for word i of a tensor, a u32, put together from memory, from `place` on.

    Of int64 it is element i, a vec2<u32>.
    """
    if dtype is DType.INT64:
        return f"vec2<u32>({', '.join(_word(f'{place} + 2u * i + {k}u') for k in range(2))})"
    if dtype in PAIRED_TYPES or dtype in PACKED_TYPES:
        parts = 2 if dtype in PAIRED_TYPES else 4
        elements = [_word(f"{place} + {parts}u * i + {k}u") for k in range(parts)]
        if dtype is HALF:
            return f"pack2x16float(vec2<f32>({', '.join(f'bitcast<f32>({e})' for e in elements)}))"
        width = 32 // parts
        shifted = (f"(({e} & {2**width - 1}u) << {k * width}u)" for k, e in enumerate(elements))
        return " | ".join(shifted)
    return _word(f"{place} + i")


def _word(place: str) -> str:
    return f"bitcast<u32>(memory_word({place}))"
