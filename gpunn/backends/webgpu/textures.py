"""Constants in textures, for drivers that load four elements sooner from one than from a buffer.

A texel has four elements of 32 bits. Texels follow one another in rows of up to ROW, one row after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpunn.kernel import ceil_div, power_of_two
from gpunn.types import Array, DType

# All devices allow 8,192 rows (WebGPU, section 3.6.2, maxTextureDimension2D), which are 128 MiB.
ROW = 1024
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
    """Return the bytes of an array as rows of texels [rows, texels, 16], zeros behind the last.

    Lavapipe compiles a shader again for textures whose widths are powers of two where others' were not, or
    their heights. So all widths are, and no heights.
    """
    count = max(ceil_div(data.nbytes, TEXEL), 1)
    width = min(power_of_two(count), ROW)
    height = ceil_div(count, width)
    while power_of_two(height) == height:
        height += 1
    found = np.zeros((height, width, TEXEL), np.uint8)
    found.reshape(-1)[: data.nbytes] = data.reshape(-1).view(np.uint8)
    return found


def texel(variable: str, place: str) -> str:
    """Write WGSL for the texel at a place in a texture."""
    return f"textureLoad({variable}, vec2<u32>(({place}) % {ROW}u, ({place}) / {ROW}u), 0)"
