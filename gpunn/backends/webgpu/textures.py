"""Constants in textures, for drivers that load four elements sooner from one than from a buffer.

A texel has the words of four elements, or one of a table. Texels follow one another in rows of up to ROW
bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpunn.kernel import ceil_div, power_of_two
from gpunn.types import Array

ROW = 4 << 10
# What all devices allow (WebGPU, section 3.6.2): 8,192 rows (maxTextureDimension2D), of which in_texels() may
# add one, and so many textures of a kernel (maxSampledTexturesPerShaderStage).
MOST_BYTES = (8192 - 1) * ROW
MOST_TEXTURES = 16


class Texels(NamedTuple):
    """A kind of texels of so many bytes.

    format, sampled: what WebGPU calls it and what it is sampled for. element: the type of its components in
    WGSL. components: those that WGSL picks of the four which a load gives.
    """

    format: str
    sampled: str
    element: str
    components: str
    nbytes: int

    @property
    def row(self) -> int:
        """Return the most texels of a row."""
        return ROW // self.nbytes

    def load(self, variable: str, place: str) -> str:
        """Write WGSL for the texel at a place in a texture."""
        x, y = f"({place}) % {self.row}u", f"({place}) / {self.row}u"
        return f"textureLoad({variable}, vec2<u32>({x}, {y}), 0){self.components}"


# By the WGSL type of a buffer's elements. From a texture, single words take SwiftShader 1.2 times as long.
TEXELS = {
    "vec4<f32>": Texels("rgba32float", "unfilterable-float", "f32", "", 16),
    "vec4<i32>": Texels("rgba32sint", "sint", "i32", "", 16),
    "vec2<u32>": Texels("rg32uint", "uint", "u32", ".xy", 8),
}
# The same of single words, for tables: a texel is an element.
WORDS = {
    "f32": Texels("r32float", "unfilterable-float", "f32", ".x", 4),
    "i32": Texels("r32sint", "sint", "i32", ".x", 4),
}


def in_texels(data: Array, texels: Texels) -> Array:
    """Return the bytes of an array as rows of texels [rows, texels, bytes], zeros behind the last.

    Lavapipe compiles a shader again for textures whose widths are powers of two where others' were not, or
    their heights. So all widths are, and no heights.
    """
    count = max(ceil_div(data.nbytes, texels.nbytes), 1)
    width = min(power_of_two(count), texels.row)
    height = ceil_div(count, width)
    while power_of_two(height) == height:
        height += 1
    found = np.zeros((height, width, texels.nbytes), np.uint8)
    found.reshape(-1)[: data.nbytes] = data.reshape(-1).view(np.uint8)
    return found
