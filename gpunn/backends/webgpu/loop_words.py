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


def unpacking(dtype: DType, data: str, place: str, first: str = "") -> str:
    """Write WGSL that puts element i of a tensor into memory, from `place` on.

    data: the buffer that the tensor is in. first: the word where it begins, followed by " + ", if the buffer
    has u32s.
    """
    memory = f"memory_data[{place} + i]"
    if dtype is DType.INT64:
        pair = f"memory_data[{place} + 2u * i"
        return f"{pair}] = bitcast<i32>({data}[i].x); {pair} + 1u] = bitcast<i32>({data}[i].y);"
    if dtype is HALF:
        word = f"{data}[{first}(i >> 1u)]"
        return f"{memory} = bitcast<i32>(unpack2x16float({word} >> ((i & 1u) * 16u)).x);"
    if dtype in PAIRED_TYPES:
        word = f"bitcast<i32>({data}[{first}(i >> 1u)])"
        return f"{memory} = extractBits({word}, (i & 1u) * 16u, 16u);"
    if dtype in PACKED_TYPES:
        word = f"bitcast<{PACKED_TYPES[dtype][1]}>({data}[{first}(i >> 2u)])"
        return f"{memory} = i32(extractBits({word}, (i & 3u) * 8u, 8u));"
    return f"{memory} = bitcast<i32>({data}[{first}i]);"


def packing(dtype: DType, data: str, place: str, first: str = "") -> str:
    """Write WGSL that puts word i of a tensor, of int64 element i, together from memory, from `place` on.

    data, first: as of unpacking().
    """
    target = f"{data}[{first}i]"
    if dtype is DType.INT64:
        low, high = (f"bitcast<u32>(memory_data[{place} + 2u * i{k}])" for k in ("", " + 1u"))
        return f"{target} = vec2<u32>({low}, {high});"
    if dtype in PAIRED_TYPES or dtype in PACKED_TYPES:
        parts = 2 if dtype in PAIRED_TYPES else 4
        width = 32 // parts
        begin = f"let at = {place} + {parts}u * i;"
        elements = [f"memory_data[at + {k}u]" for k in range(parts)]
        if dtype is HALF:
            halves = ", ".join(f"bitcast<f32>({e})" for e in elements)
            return f"{begin} {target} = pack2x16float(vec2<f32>({halves}));"
        shifted = (f"((bitcast<u32>({e}) & {2**width - 1}u) << {k * width}u)" for k, e in enumerate(elements))
        return f"{begin} {target} = {' | '.join(shifted)};"
    kind = "u32" if first else "f32" if dtype is DType.FLOAT32 else "i32"
    return f"{target} = bitcast<{kind}>(memory_data[{place} + i]);"
