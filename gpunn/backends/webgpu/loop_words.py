"""The words of operands in the memory of a loop: one for each element, two for int64."""

from __future__ import annotations

import numpy as np

from gpunn.backends.webgpu.accessors import HALF, PACKED_TYPES, PAIRED_TYPES
from gpunn.types import Array, DType


def words_of(value: Array) -> Array:
    """Return the words of an array, as int32."""
    flat = np.ascontiguousarray(value).reshape(-1)
    if flat.dtype == np.float16:
        flat = flat.astype(np.float32)
    if flat.dtype.itemsize < np.dtype(np.int32).itemsize:
        flat = flat.astype(np.int32)
    return flat.view(np.int32)


def unpacking(dtype: DType, data: str, place: int) -> str:
    """Write WGSL that puts element i of a buffer into memory, from `place` on."""
    memory = f"memory_data[{place}u + i]"
    if dtype is DType.INT64:
        pair = f"memory_data[{place}u + 2u * i"
        return f"{pair}] = bitcast<i32>({data}[i].x); {pair} + 1u] = bitcast<i32>({data}[i].y);"
    if dtype is HALF:
        return f"{memory} = bitcast<i32>(unpack2x16float({data}[i >> 1u] >> ((i & 1u) * 16u)).x);"
    if dtype in PAIRED_TYPES:
        return f"{memory} = extractBits(bitcast<i32>({data}[i >> 1u]), (i & 1u) * 16u, 16u);"
    if dtype in PACKED_TYPES:
        kind = PACKED_TYPES[dtype][1]
        return f"{memory} = i32(extractBits(bitcast<{kind}>({data}[i >> 2u]), (i & 3u) * 8u, 8u));"
    return f"{memory} = bitcast<i32>({data}[i]);"


def packing(dtype: DType, data: str, place: int) -> str:
    """Write WGSL that puts word i of a buffer, of int64 element i, together from memory, from `place` on."""
    if dtype is DType.INT64:
        low, high = (f"bitcast<u32>(memory_data[{place}u + 2u * i{k}])" for k in ("", " + 1u"))
        return f"{data}[i] = vec2<u32>({low}, {high});"
    if dtype is HALF:
        halves = ", ".join(f"bitcast<f32>(memory_data[{place}u + 2u * i + {k}u])" for k in range(2))
        return f"{data}[i] = pack2x16float(vec2<f32>({halves}));"
    if dtype in PAIRED_TYPES or dtype in PACKED_TYPES:
        parts = 2 if dtype in PAIRED_TYPES else 4
        width = 32 // parts
        elements = (f"memory_data[{place}u + {parts}u * i + {k}u]" for k in range(parts))
        shifted = (f"((bitcast<u32>({e}) & {2**width - 1}u) << {k * width}u)" for k, e in enumerate(elements))
        return f"{data}[i] = {' | '.join(shifted)};"
    return f"{data}[i] = bitcast<{'f32' if dtype is DType.FLOAT32 else 'i32'}>(memory_data[{place}u + i]);"
