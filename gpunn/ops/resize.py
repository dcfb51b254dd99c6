"""Resampling of images: bilinear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpunn.kernel import Kernel, Read, Unsupported, Write, fits_i32, flat_threads, vec_width
from gpunn.ops.check import FLOATS, expect_bool, expect_dtype, expect_ints
from gpunn.ops.op import Call, Op, op
from gpunn.types import Array, TensorType


def _infer_resize_bilinear(call: Call) -> TensorType:
    x = expect_dtype(call, 0, *FLOATS)
    batch, height, width, channels = call.expect_rank(0, 4).shape
    size = expect_ints(call, "size", 2)
    if min(size) < 1:
        call.fail(f"size must be positive (height, width), got {list(size)}")
    if min(height, width) < 1:
        call.fail(f"input image must not be empty, got shape {list(x.shape)}")
    if expect_bool(call, "align_corners") & expect_bool(call, "half_pixel_centers"):
        call.fail("align_corners and half_pixel_centers exclude each other, got both")
    return x.with_shape((batch, *size, channels))


def _ratio(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> tuple[int, int, int]:
    """(a, b, c): output row i lies at (a i + b) / c of the input's rows."""
    if half_pixel_centers:
        return 2 * size, size - out, 2 * out
    if align_corners and out > 1:
        return size - 1, 0, out - 1
    return size, 0, out


def _taps(size: int, out: int, dtype: np.dtype[Any], **mode: bool) -> tuple[Array, Array, Array]:
    """For each output row the two input rows it lies between, and how far it is past the first."""
    a, b, c = _ratio(size, out, **mode)
    position = np.maximum(a * np.arange(out, dtype=np.int64) + b, 0)
    lower = position // c
    return lower, np.minimum(lower + 1, size - 1), ((position % c) / c).astype(dtype)


def _resize_bilinear_kernel(call: Call) -> Kernel:
    _, height, width, channels = call.x.shape
    mode = {name: call[name] for name in ("align_corners", "half_pixel_centers")}
    out_height, out_width = call.y.shape[1:3]
    rows, columns = _ratio(height, out_height, **mode), _ratio(width, out_width, **mode)
    if not fits_i32(rows[0] * out_height, columns[0] * out_width):
        raise Unsupported("positions in the image do not fit 32 bits")
    lanes = vec_width(channels)
    count = call.y.size // lanes
    return Kernel(
        body="resize_bilinear",
        threads=flat_threads(count),
        workgroup=(64, 1, 1),
        reads=(Read("x", 0, width=lanes),),
        writes=(Write(width=lanes),),
        params={
            "count": count,
            "channels": channels // lanes,
            "out_height": out_height,
            "out_width": out_width,
            "rows": (*rows, height),
            "columns": (*columns, width),
        },
        lanes=lanes,
        reason="four taps for each result",
    )


@op(_infer_resize_bilinear, _resize_bilinear_kernel)
def resize_bilinear(
    x: Array, *, size: Sequence[int], align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
    """x[N, H, W, C] resampled to [N, size[0], size[1], C], linearly in both directions.

    Output row i lies at input row i H / h; with align_corners at i (H - 1) / (h - 1), so that the
    corners coincide; with half_pixel_centers at (i + 1/2) H / h - 1/2, so that the areas do. Rows
    outside are the border's; columns likewise. dtype: float32 or float16. Positions are exact
    fractions here, where TFLite rounds them to float32. Raises ModelError for another rank, sizes below
    1, an image without pixels, and for both options together. NeuralNetworks.h,
    ANEURALNETWORKS_RESIZE_BILINEAR; TFLite schema, ResizeBilinearOptions, and TFLite's reference kernel.
    """
    mode = {"align_corners": align_corners, "half_pixel_centers": half_pixel_centers}
    top, bottom, down = _taps(x.shape[1], size[0], x.dtype, **mode)
    left, right, across = _taps(x.shape[2], size[1], x.dtype, **mode)
    down, across = down[:, None, None], across[:, None]
    above = x[:, top][:, :, left] * (1 - across) + x[:, top][:, :, right] * across
    below = x[:, bottom][:, :, left] * (1 - across) + x[:, bottom][:, :, right] * across
    return np.asarray(above * (1 - down) + below * down)


OPS: tuple[Op, ...] = (resize_bilinear,)
