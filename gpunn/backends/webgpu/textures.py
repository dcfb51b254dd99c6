"""Constants in textures, for drivers that load four elements sooner from one than from a buffer.

A texel has four elements of 32 bits. Texels follow one another in rows of up to ROW, one row after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.types import Array, DType

# A power of two, for places are divided by it, and no larger one, as the last row may be nearly empty. All
# devices allow 8,192 rows (WebGPU, section 3.6.2, maxTextureDimension2D), which are 256 MiB.
ROW = 2048
TEXEL = 16  # bytes


class Texels(NamedTuple):
    """The names of a kind of texels: of their format and of a sampled type in WebGPU, of elements in WGSL."""

    format: str
    sampled: str
    element: str


TEXELS = {
    DType.FLOAT32: Texels("rgba32float", "unfilterable-float", "f32"),
    DType.INT32: Texels("rgba32sint", "sint", "i32"),
}


def in_texels(data: Array) -> Array:
    """Return the bytes of an array as rows of texels [rows, texels, 16], zeros behind the last."""
    count = max(ceil_div(data.nbytes, TEXEL), 1)
    width = min(count, ROW)
    found = np.zeros((ceil_div(count, width), width, TEXEL), np.uint8)
    found.reshape(-1)[: data.nbytes] = data.reshape(-1).view(np.uint8)
    return found


def texel(variable: str, place: str) -> str:
    """Write WGSL for the texel at a place in a texture."""
    return f"textureLoad({variable}, vec2<u32>(({place}) % {ROW}u, ({place}) / {ROW}u), 0)"
