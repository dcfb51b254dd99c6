"""Resampling of images: bilinear, nearest neighbour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

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
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.fixed_point.affine import round_half_away, through_reals
from gpunn.ops.memory import by_blocks, empty
from gpunn.ops.movement.host_rows import SHORTEST, RowCopies, copy_loop
from gpunn.ops.op import Op, Quantized, op
from gpunn.ops.parts import by_batch
from gpunn.ops.vision import gradients, resize_bytes
from gpunn.ops.vision.blending import Blending, Ratio
from gpunn.ops.vision.image import expect_image, image_params, picked, pixel_parts
from gpunn.types import Array, DType, Shape, TensorType


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


def _ratios(call: Call, ratio: Callable[..., Ratio]) -> tuple[Ratio, Ratio]:
    """Return the ratios of rows and of columns."""
    mode = {name: call[name] for name in ("align_corners", "half_pixel_centers")}
    rows, columns = (
        ratio(n, out, **mode) for n, out in zip(call.x.shape[1:3], call.y.shape[1:3], strict=True)
    )
    return rows, columns


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
        index_bound=True,
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


def _prepared_integers(call: Call) -> Callable[..., Array]:
    """Return the weighted sums of stored values, rounded to nearest, halves away from zero."""
    if call.x.quantization != call.y.quantization:
        return partial(through_reals, call, resize_bilinear.reference)
    if call.x.dtype is DType.UINT8:
        return partial(resize_bytes.resample, call)
    kind = np.int64 if call.x.dtype is DType.INT16 else np.int32  # of sums with 20 bits more
    blend = _when_run(
        lambda: Blending(call.x.shape, call["size"], _ratios(call, _ten_bits), lambda n, c: n.astype(kind))
    )
    return lambda x: by_blocks(_write_rounded, blend(x.astype(kind)), call.y.dtype.numpy)


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


def _blending(shape: Shape, dtype: np.dtype[Any], size: Sequence[int], ratios: Sequence[Ratio]) -> Blending:
    return Blending(shape, size, ratios, lambda n, c: (n / c).astype(dtype))


def _prepared_reals(call: Call) -> Callable[..., Array]:
    return _when_run(lambda: _blending(call.x.shape, call.x.dtype.numpy, call["size"], _ratios(call, _ratio)))


def _when_run(make: Callable[[], Blending]) -> Callable[[Array], Array]:
    """Return a function that is made in its first run: its tables are as long as a side of the result."""
    made = cache(make)
    return lambda x: made()(x)


def _meaning(name: str) -> Callable[..., Array]:
    """Return the meaning of an op of this module."""
    return next(op.reference for op in OPS if op.name == name)


@op(
    _infer_resize_bilinear,
    _resize_bilinear_kernel,
    divide=by_batch,
    quantized=replace(
        Quantized.prepared(_prepared_integers, _integer_resize_kernel, dtypes=QUANTIZED), plain=True
    ),
    accuracy=sums(lambda call: 4, interpolates=True),
    prepare=_prepared_reals,
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
    return _blending(x.shape, x.dtype, size, (rows, columns))(x)


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


def _prepare_nearest(call: Call) -> Callable[[Array], Array] | None:
    (batch, height, width, channels), shape = call.x.shape, call.y.shape
    nbytes, mode = channels * call.x.dtype.itemsize, (call["align_corners"], call["half_pixel_centers"])
    if not call.y.size:
        return None

    @cache
    def sides() -> tuple[Array, Array]:
        return _nearest(height, shape[1], *mode), _nearest(width, shape[2], *mode)

    @cache
    def copies() -> RowCopies:
        rows, columns = sides()
        places = ((np.arange(batch)[:, None] * height + rows)[..., None] * width + columns) * nbytes
        return RowCopies(places.reshape(-1), np.arange(places.size) * nbytes, (1, nbytes), (0, 0))

    def compute(x: Array) -> Array:
        loop = copy_loop() if nbytes >= SHORTEST else None
        if loop is None:
            return picked(x, *sides())
        result = empty(shape, x.dtype)
        copies().bound(loop)(x, result)
        return of_loops(result)

    return compute


@op(
    _infer_resize_nearest,
    _resize_nearest_kernel,
    prepare=_prepare_nearest,
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
