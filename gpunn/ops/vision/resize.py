"""Resampling of images: bilinear, nearest neighbour."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from gpunn.kernel import (
    Function,
    Kernel,
    Read,
    Unsupported,
    Write,
    fits_i32,
    flat_threads,
    nested,
    vec_width,
)
from gpunn.ops.accuracy import sums
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, QUANTIZED, SMALL, expect_bool, expect_dtype
from gpunn.ops.fixed_point.affine import round_half_away, through_reals
from gpunn.ops.memory import by_blocks, empty, scratch
from gpunn.ops.op import Op, Quantized, op
from gpunn.ops.parts import by_batch
from gpunn.ops.vision import gradients, resize_bytes
from gpunn.ops.vision.image import expect_image, image_params, picked, pixel_parts
from gpunn.types import Array, DType, TensorType

AT_ONCE = 1 << 16  # numbers of a result that are computed at a time

Ratio = tuple[int, int, int]  # (a, b, c): output row i lies at (a i + b) / c of the input's rows


def _infer_resize_bilinear(call: Call) -> TensorType:
    expect_dtype(call, 0, *FLOATS, *SMALL)
    if expect_bool(call, "align_corners") & expect_bool(call, "half_pixel_centers"):
        call.fail("align_corners and half_pixel_centers exclude each other, got both")
    return _resized(call)


def _resized(call: Call) -> TensorType:
    """Return the type of the first input, images, with the height and width of attribute `size`."""
    size = expect_image(call)
    return call.x.with_shape((call.x.shape[0], *size, call.x.shape[3]))


def _ratio(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Ratio:
    """Return the exact positions of output rows, as a ratio."""
    if half_pixel_centers:
        return 2 * size, size - out, 2 * out
    if align_corners and out > 1:
        return size - 1, 0, out - 1
    return size, 0, out


def _positions(size: int, out: int, ratio: Ratio) -> tuple[Array, Array, Array]:
    """Return for each output row its two neighbouring input rows, and its distance from the first times c."""
    a, b, c = ratio
    position = np.maximum(a * np.arange(out, dtype=np.int64) + b, 0)
    lower = np.minimum(position // c, size - 1)
    return lower, np.minimum(lower + 1, size - 1), position - lower * c


def _ratios(call: Call, ratio: Callable[..., Ratio]) -> tuple[Ratio, Ratio]:
    """Return the ratios of rows and of columns."""
    mode = {name: call[name] for name in ("align_corners", "half_pixel_centers")}
    rows, columns = (
        ratio(n, out, **mode) for n, out in zip(call.x.shape[1:3], call.y.shape[1:3], strict=True)
    )
    return rows, columns


def _blend(
    x: Array, ratios: tuple[Ratio, Ratio], size: Sequence[int], weigh: Callable[[Array, int], Array]
) -> Array:
    """Resample x; weigh(n, c) is the weight of a row that contributes n of c parts."""
    (top, bottom, down), (left, right, across) = (
        _positions(n, out, ratio) for n, out, ratio in zip(x.shape[1:3], size, ratios, strict=True)
    )
    rows, columns = ratios[0][2], ratios[1][2]
    # As many weights as numbers: numpy takes rows of a few channels slowly.
    near, far = (
        np.repeat(weigh(part, columns)[:, None], x.shape[3], axis=1) for part in (columns - across, across)
    )
    weights = tuple(weigh(part, rows)[:, None, None] for part in (rows - down, down))
    if x.shape[1] <= len(top):  # each row of x is resampled once, however often the result takes it
        wide = _added(x.take(left, axis=2), x.take(right, axis=2), near, far)
        return _blended_rows(wide, (top, bottom), weights)
    above, below = (
        _added(picked(x, which, left), picked(x, which, right), near, far) for which in (top, bottom)
    )
    return _added(above, below, *weights)


def _added(a: Array, b: Array, near: Array, far: Array) -> Array:
    """Return a * near + b * far, in the memory of a."""
    a *= near
    b *= far
    a += b
    return a


def _blended_rows(x: Array, rows: tuple[Array, Array], weights: tuple[Array, ...]) -> Array:
    """Add two rows of x [N, H, W, C] for each row of the result, with weights, some rows at a time.

    What is computed at a time stays in the CPU's cache.
    """
    count, line = len(rows[0]), x.shape[2:]
    result = empty((len(x), count, *line), x.dtype)
    step = max(1, AT_ONCE // max(1, math.prod(line)))
    for image, first in itertools.product(range(len(x)), range(0, count, step)):
        part = slice(first, first + step)
        above = result[image, part]
        below = scratch("rows", above.shape, x.dtype)
        for found, which, weight in zip((above, below), rows, weights, strict=True):
            # None is beyond; "raise" would write a copy first.
            x[image].take(which[part], axis=0, out=found, mode="clip")
            found *= weight[part]
        above += below
    return result


_SUM = Function(("above", "below", "near", "far"), "above * near + below * far")


def _resize_bilinear_kernel(call: Call) -> Kernel:
    return _resample(call, _ratios(call, _ratio), {"part": Function(("n", "c"), "n / c"), "joined": _SUM})


def _resample(
    call: Call,
    ratios: tuple[Ratio, Ratio],
    functions: dict[str, Function],
    libraries: tuple[str, ...] = (),
) -> Kernel:
    _, height, width, channels = call.x.shape
    out_height, out_width = call.y.shape[1:3]
    rows, columns = ratios
    if not fits_i32(rows[0] * out_height, columns[0] * out_width):
        raise Unsupported("positions in the image do not fit 32 bits")
    lanes = vec_width(channels)
    parts = pixel_parts(call, channels // lanes)
    return Kernel(
        body="resize_bilinear",
        threads=flat_threads(parts.invocations),
        reads=(Read("x", 0, width=lanes),),
        writes=(Write(width=lanes),),
        params={
            "count": parts.invocations,
            "channels": channels // lanes,
            "apart": parts.apart,
            "out_height": out_height,
            "out_width": out_width,
            "rows": (*rows, height),
            "columns": (*columns, width),
        },
        functions=functions,
        libraries=libraries,
        lanes=lanes,
        constants={"SEVERAL": int(parts.per > 1)},
        loop_iterations=nested(parts.per).iterations,
        reason="four taps for each result",
    )


def _ten_bits(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Ratio:
    """Return positions of output rows in 1024ths, as TFLite's ResizeBilinearInteger, which rounds the step
    too.
    """
    if align_corners and out > 1:
        scale = (1024 * (size - 1) + (out - 1) // 2) // (out - 1)
    else:
        scale = (1024 * size + out // 2) // out
    return scale, scale // 2 - 512 if half_pixel_centers else 0, 1024


def _integer_resize(call: Call, x: Array) -> Array:
    """Compute weighted sums of stored values, rounded to nearest, halves away from zero."""
    if call.x.quantization != call.y.quantization:
        return through_reals(call, resize_bilinear.reference, x)
    if call.x.dtype is DType.UINT8:
        return resize_bytes.resample(call, x)
    kind = np.int64 if call.x.dtype is DType.INT16 else np.int32  # of sums with 20 bits more
    total = _blend(x.astype(kind), _ratios(call, _ten_bits), call["size"], lambda n, c: n.astype(kind))
    return by_blocks(_write_rounded, total, call.y.dtype.numpy)


def _write_rounded(total: Array, out: Array) -> None:
    """Write sums with 20 bits of fraction, rounded to nearest, halves away from zero."""
    nearest = total + (1 << 19)
    nearest -= total < 0
    nearest >>= 20
    out[...] = nearest


def _integer_resize_kernel(call: Call) -> Kernel:
    if call.x.quantization != call.y.quantization:
        raise Unsupported("input and output are quantised differently")
    if call.x.dtype is DType.UINT8:
        return resize_bytes.resample_kernel(call)
    ratios = _ratios(call, _ten_bits)
    part = Function(("n", "c"), "n")
    if call.x.dtype is DType.INT16:
        joined = Function(_SUM.params, "join_ten_bits(above, below, near, far)")
        return _resample(call, ratios, {"part": part, "joined": joined}, ("ten_bits",))
    parts = "(p.rows.z * p.columns.z)"
    rounded = Function(("x",), f"(x + select(-({parts} / 2), {parts} / 2, x >= 0)) / {parts}")
    return _resample(call, ratios, {"part": part, "joined": _SUM, "apply": rounded})


def _meaning(name: str) -> Callable[..., Array]:
    """Return the meaning of an op of this module."""
    return next(op.reference for op in OPS if op.name == name)


@op(
    _infer_resize_bilinear,
    _resize_bilinear_kernel,
    divide=by_batch,
    quantized=Quantized(_integer_resize, _integer_resize_kernel, dtypes=QUANTIZED, plain=True),
    accuracy=sums(lambda call: 4, interpolates=True),
    gradient=gradients.resize(_meaning),
)
def resize_bilinear(
    x: Array, *, size: Sequence[int], align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
    """Resample x[N, H, W, C] to [N, size[0], size[1], C], linearly in both directions.

    Output row i lies at input row i H / h; with align_corners at i (H - 1) / (h - 1), so that the corners
    coincide; with half_pixel_centers at (i + 1/2) H / h - 1/2, so that the areas coincide. Rows outside equal
    the border row; columns likewise. dtype: float32, float16, or uint8, int8 or int16, quantised or not,
    rounded to nearest, halves away from zero. int8 and int16 count positions in 1024ths as TFLite does, uint8
    has positions and sums of float32. The others use exact fractions, which TFLite rounds. Raises ModelError
    for another rank, sizes below 1, an image without pixels, and for both options together. NeuralNetworks.h,
    ANEURALNETWORKS_RESIZE_BILINEAR; TFLite schema, ResizeBilinearOptions, and TFLite's kernels.
    """
    rows, columns = (
        _ratio(n, out, align_corners, half_pixel_centers) for n, out in zip(x.shape[1:3], size, strict=True)
    )
    return _blend(x, (rows, columns), size, lambda n, c: (n / c).astype(x.dtype))


def _nearest(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """Return for each output row the input row that it repeats, in float32 as TFLite's GetNearestNeighbor."""
    number = np.float32
    scale = number(size - 1) / number(out - 1) if align_corners and out > 1 else number(size) / number(out)
    at = (np.arange(out, dtype=np.float32) + number(0.5 if half_pixel_centers else 0)) * scale
    rows = round_half_away(at.astype(np.float64)) if align_corners else np.floor(at)
    return np.asarray(np.clip(rows, 0, size - 1), np.int32)


def _infer_resize_nearest(call: Call) -> TensorType:
    expect_bool(call, "align_corners")
    expect_bool(call, "half_pixel_centers")
    return _resized(call)


def _resize_nearest_kernel(call: Call) -> Kernel:
    _, height, width, channels = call.x.shape
    out_height, out_width = call.y.shape[1:3]
    mode = call["align_corners"], call["half_pixel_centers"]
    if not call.y.size:  # nothing bounds the tables then
        raise Unsupported("the image has no elements")
    lanes = vec_width(channels)
    parts = pixel_parts(call, channels // lanes)
    return Kernel(
        body="resize_nearest",
        threads=flat_threads(parts.invocations),
        reads=(
            Read("x", 0, width=lanes),
            Read("rows", None, value=_nearest(height, out_height, *mode)),
            Read("columns", None, value=_nearest(width, out_width, *mode)),
        ),
        writes=(Write(width=lanes),),
        params={**image_params(call, lanes), "count": parts.invocations, "apart": parts.apart},
        lanes=lanes,
        loop_iterations=nested(parts.per).iterations,
        reason="rows and columns from tables",
    )


@op(
    _infer_resize_nearest,
    _resize_nearest_kernel,
    divide=by_batch,
    raw=True,
    gradient=gradients.resize(_meaning),
)
def resize_nearest(
    x: Array, *, size: Sequence[int], align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
    """Repeat or skip rows and columns of x[N, H, W, C]; the result is [N, size[0], size[1], C].

    Output row i is input row floor(i H / h); with align_corners round(i (H - 1) / (h - 1)), halves up; with
    half_pixel_centers i + 1/2 replaces i. Rows outside equal the border row; columns likewise. Positions are
    float32 numbers with the bits of TFLite's reference kernel, so that the borders between rows are the same.
    dtype: any, quantised values as stored. Raises ModelError for another rank, sizes below 1, and an image
    without pixels. TFLite schema, ResizeNearestNeighborOptions.
    """
    if not x.size:
        return np.empty((x.shape[0], *size, x.shape[3]), x.dtype)
    rows, columns = (
        _nearest(n, out, align_corners, half_pixel_centers) for n, out in zip(x.shape[1:3], size, strict=True)
    )
    return picked(x, rows, columns)


OPS: tuple[Op, ...] = (resize_bilinear, resize_nearest)
