"""resize_bilinear of uint8, in float32 as TFLite's default kernel (optimized_ops.h, ResizeBilinear).

A result is the sum of four stored values times their weights, in this order, plus 1/2, without its fraction.
Each product, sum and weight is rounded to float32. shaders/resize_bilinear_bytes.wgsl has the same for the
GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpunn.kernel import Kernel, Read, Write, flat_threads, vec_width
from gpunn.ops.call import Call
from gpunn.ops.vision.image import image_params, picked
from gpunn.types import Array, DType


@dataclass(frozen=True, slots=True)
class _Taps:
    """For each row of the result the two rows of the input beside it, and how much each counts."""

    first: Array
    second: Array
    near: Array
    far: Array

    def rows(self) -> Array:
        """Return both rows of each row of the result, as int32."""
        return np.stack([self.first, self.second], axis=-1).astype(np.int32)

    def weights(self) -> Array:
        """Return how much these count."""
        return np.stack([self.near, self.far], axis=-1)


def _taps(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> _Taps:
    """Place rows as TFLite's ComputeInterpolationValues does."""
    number = np.float32
    scale = number(size - 1) / number(out - 1) if align_corners and out > 1 else number(size) / number(out)
    row = np.arange(out, dtype=np.float32)
    at = (row + number(0.5)) * scale - number(0.5) if half_pixel_centers else row * scale
    first = np.clip(np.floor(at), 0, size - 1)
    second = np.minimum(np.ceil(at), size - 1)
    far = at - first.astype(np.float32)
    return _Taps(first.astype(np.int64), np.maximum(second, 0).astype(np.int64), number(1) - far, far)


def _both(call: Call) -> tuple[_Taps, _Taps]:
    """Return the taps of rows and of columns; of one each if the result is empty, for nothing bounds it."""
    mode = call["align_corners"], call["half_pixel_centers"]
    size = call["size"] if call.y.size else (1, 1)
    rows, columns = (_taps(n, m, *mode) for n, m in zip(call.x.shape[1:3], size, strict=True))
    return rows, columns


def resample(call: Call, x: Array) -> Array:
    """Resample stored values."""
    if not call.y.size:
        return np.empty(call.y.shape, np.uint8)
    down, across = _both(call)
    total = np.zeros((), np.float32)
    for rows, tall in ((down.first, down.near), (down.second, down.far)):
        for columns, wide in ((across.first, across.near), (across.second, across.far)):
            weights = tall[:, None, None] * wide[:, None]
            total = total + picked(x, rows, columns).astype(np.float32) * weights
    return (total + np.float32(0.5)).astype(np.uint8)


def resample_kernel(call: Call) -> Kernel:
    """Make the kernel that resamples stored values."""
    lanes = vec_width(call.x.shape[3])
    down, across = _both(call)
    return Kernel(
        body="resize_bilinear_bytes",
        threads=flat_threads(call.y.size // lanes),
        reads=(
            Read("x", 0, width=lanes),
            Read("rows", None, value=down.rows()),
            Read("columns", None, value=across.rows()),
            Read("down", None, value=down.weights()),
            Read("across", None, value=across.weights()),
        ),
        writes=(Write(width=lanes),),
        params={**image_params(call, lanes), "zero": 0},
        accumulator=DType.FLOAT32,
        lanes=lanes,
        reason="four taps for each result, in float32",
    )
