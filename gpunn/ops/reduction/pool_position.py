"""Positions of maxima in their windows: arg_max_pool2d finds them, max_unpool2d puts values back there."""

from __future__ import annotations

import itertools

import numpy as np

from gpunn.kernel import Kernel, Read, Unsupported, Write, ceil_div, fits_i32, flat_threads, vec_width
from gpunn.ops.accuracy import BASIC
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, SMALL, expect_dtype, expect_ints, expect_unquantised
from gpunn.ops.kernels.chain import boxes, chained, keeping, real_sums
from gpunn.ops.kernels.sort import ordering
from gpunn.ops.kernels.window import Padding, Pair, pad_input, resolve, tap, window_params
from gpunn.ops.op import Op, op
from gpunn.ops.reduction.gradients import unpool
from gpunn.ops.reduction.pool import combine_cells, pool_window
from gpunn.types import Array, DType, TensorType, bounded


def _infer_position(call: Call) -> TensorType:
    x = expect_dtype(call, 0, *FLOATS, *SMALL)
    window = pool_window(call)
    return TensorType(DType.INT32, (x.shape[0], *window.out, x.shape[3]))


def _position_kernels(call: Call) -> list[Kernel]:
    window = pool_window(call)
    _, height, width, channels = call.x.shape
    if not fits_i32(call.x.size, call.y.size):
        raise Unsupported("more elements than the shaders can count")
    parts = boxes(window.size, call.device.max_loop_iterations)
    kernel = Kernel(
        body="arg_max_pool2d",
        threads=flat_threads(call.y.size),
        reads=(Read("x", 0),),
        params={**window_params(window, height, width), "C": channels, "count": call.y.size},
        **ordering(call.x.dtype, 1, PARTS=int(len(parts) > 1)),
        reason="one invocation for each window and channel",
    )
    return chained(kernel, keeping(kernel, {"y": call.y}, kernel.functions), parts)


@op(
    _infer_position,
    _position_kernels,
    raw=True,
    unbounded=True,
    flops=lambda call: call.y.size * int(np.prod(call["size"])),
)
def arg_max_pool2d(x: Array, *, size: Pair, stride: Pair = (1, 1), padding: Padding = "valid") -> Array:
    """Find where in its window the maximum lies: row * window width + column, int32 [N, OH, OW, C].

    x [N, H, W, C], windows of `size` (height, width), as those of max_pool2d with the same stride and
    padding. Rows and columns of a window count from its upper left corner, which may lie in the padding;
    padded cells are never the maximum. Of equal values the first one counts, row by row; NaN is above all
    numbers. dtype: float32, float16, uint8, int8, int16. Raises ModelError for other dtypes, and as
    max_pool2d. MediaPipe, util/tflite/operations/max_pool_argmax.cc; its options are those of the TFLite
    schema's Pool2DOptions.
    """
    window = resolve((x.shape[1], x.shape[2]), size, stride, (1, 1), padding)
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    values, count = pad_input(x, window, lowest), size[0] * size[1]
    best = np.empty((x.shape[0], *window.out, x.shape[3]), x.dtype)
    combine_cells(np.maximum, values, window, best)
    inside = pad_input(np.ones((1, *x.shape[1:3], 1), bool), window, 0)
    padded, unknown = not inside.all(), bool(np.isnan(best).any())
    left = np.zeros(best.shape, np.uint8 if count < 256 else np.int32)  # cells from the maximum on
    for number, cell in enumerate(itertools.product(*map(range, size))):
        value = tap(values, window, *cell)
        found = np.equal(value, best)
        if unknown:
            found |= np.isnan(value)
        if padded:
            found &= tap(inside, window, *cell)
        np.maximum(left, found.view(np.uint8) * left.dtype.type(count - number), out=left)
    return np.asarray(count - left.astype(np.int32))


def _outside(count: int, size: int, stride: int) -> int:
    """Return how many cells of the first window lie before the result of max_unpool2d, along one axis.

    `count` windows that lie further apart than they are large reach over `count * size` cells on both sides.
    """
    return max((count - 1) * stride + size - count * size, 0) // 2


def _infer_unpool(call: Call) -> TensorType:
    x, positions = expect_dtype(call, 0, *FLOATS), expect_unquantised(call, 1, DType.INT32)
    batch, height, width, channels = call.expect_rank(0, 4).shape
    if positions.shape != x.shape:
        call.fail(f"positions must have the shape of the values {list(x.shape)}, got {list(positions.shape)}")
    for name in ("size", "stride"):
        if min(expect_ints(call, name, 2)) < 1:
            call.fail(f"{name} must be two numbers of at least 1, got {call[name]}")
    rows, columns = call["size"]
    return bounded("unpooled", x.with_shape((batch, height * rows, width * columns, channels)))


def _unpool_kernels(call: Call) -> list[Kernel]:
    _, height, width, channels = call.x.shape
    (rows, columns), (down, across) = call["size"], call["stride"]
    if not fits_i32(call.x.size, call.y.size, (height + 1) * (down + rows), (width + 1) * (across + columns)):
        raise Unsupported("more elements than the shaders can count")
    lanes = vec_width(channels)
    count = call.y.size // lanes
    kernel = Kernel(
        body="max_unpool2d",
        threads=flat_threads(count),
        reads=(Read("x", 0, lanes), Read("positions", 1, lanes)),
        writes=(Write(width=lanes),),
        params={
            "count": count,
            "C": channels // lanes,
            "H": height,
            "W": width,
            "KH": rows,
            "KW": columns,
            "SH": down,
            "SW": across,
            "PT": _outside(height, rows, down),
            "PL": _outside(width, columns, across),
        },
        lanes=lanes,
        reason=f"{lanes} channels of a pixel look at the windows that it is in",
    )
    overlaps = min(ceil_div(rows, down), height), min(ceil_div(columns, across), width)
    return real_sums(call, kernel, boxes(overlaps, call.device.max_loop_iterations))


@op(_infer_unpool, _unpool_kernels, accuracy=BASIC, unbounded=True, gradient=unpool(_outside))
def max_unpool2d(x: Array, positions: Array, *, size: Pair, stride: Pair) -> Array:
    """Put each value back to its position in its window, and 0 everywhere else.

    x [N, H, W, C]; positions int32 [N, H, W, C], row * window width + column, as from arg_max_pool2d; result
    [N, H * size[0], W * size[1], C]. Windows of `size` (height, width) begin `stride` apart. If the stride is
    larger than the window, the windows as a whole lie in the middle of the result: the first begins half of
    what is too much above and left of it, rounded down. Positions outside a window or the result put nothing.
    Where two windows put a value in the same place, the last window's, row by row, remains. dtype: float32 or
    float16. Raises ModelError for other dtypes and shapes, and for numbers below 1. MediaPipe,
    util/tflite/operations/max_unpooling.cc; its options are those of the TFLite schema's Pool2DOptions.
    """
    (batch, height, width, channels), (rows, columns), (down, across) = x.shape, size, stride
    result = np.zeros((batch, height * rows, width * columns, channels), x.dtype)
    image, row, column, channel = np.unravel_index(np.arange(x.size).reshape(x.shape), x.shape)
    y = row * down - _outside(height, rows, down) + positions // columns
    z = column * across - _outside(width, columns, across) + positions % columns
    put = (positions >= 0) & (positions < rows * columns) & (y >= 0) & (z >= 0)
    put &= (y < result.shape[1]) & (z < result.shape[2])
    result[image[put], y[put], z[put], channel[put]] = x[put]
    return result


OPS: tuple[Op, ...] = (arg_max_pool2d, max_unpool2d)
