"""resize_bilinear of uint8, in float32 as TFLite's default kernel (optimized_ops.h, ResizeBilinear).

A result is the sum of four stored values times their weights, in this order, plus 1/2, without its fraction.
Each product, sum and weight is rounded to float32. shaders/resize_bilinear_bytes.wgsl has the same for the
GPU.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from gpunn.kernel import Kernel, Read, Write, flat_threads, vec_width
from gpunn.ops.call import Call
from gpunn.ops.kernels.each import each
from gpunn.ops.memory import empty, scratch
from gpunn.ops.vision.image import image_params, picked
from gpunn.types import Array, DType

AT_ONCE = 1 << 15  # numbers of a result that are computed at a time


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
    """Resample stored values, some rows of the result at a time, which stay in the CPU's cache."""
    down, across = _both(call)
    batch, height, width, channels = call.y.shape
    # As many weights as numbers: numpy takes rows of a few channels slowly.
    wide = [np.repeat(part[:, None], channels, axis=1) for part in (across.near, across.far)]
    result = empty(call.y.shape, np.uint8)
    step = max(1, AT_ONCE // max(1, width * channels))
    for image, first in itertools.product(range(batch), range(0, height, step)):
        part = slice(first, first + step)
        found = result[image, part]
        total = scratch("sums", found.shape, np.dtype(np.float32))
        total.fill(0)
        for rows, tall in ((down.first, down.near), (down.second, down.far)):
            for columns, of_columns in zip((across.first, across.second), wide, strict=True):
                terms = np.multiply(tall[part, None, None], of_columns)
                terms *= picked(x[image : image + 1], rows[part], columns)[0]
                total += terms
        total += np.float32(0.5)
        found[...] = total
    return result


def resample_kernel(call: Call) -> Kernel:
    """Make the kernel that resamples stored values."""
    lanes = vec_width(call.x.shape[3])
    down, across = _both(call)
    kernel = Kernel(
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
    return each(kernel, call.y)
