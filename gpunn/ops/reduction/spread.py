"""The transpose of a pool: spread_pool2d, which the gradients of pools are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpunn.kernel import Kernel, Read, Unsupported, Write, ceil_div, fits_i32, flat_threads, vec_width
from gpunn.ops.accuracy import sums
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_dtype, expect_ints, expect_unquantised
from gpunn.ops.kernels.chain import boxes, real_sums
from gpunn.ops.kernels.window import Padding, Pair, Window, check_window, resolve, window_params
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, TensorType


def _window(call: Call) -> Window:
    height, width = expect_ints(call, "spatial", 2)
    return check_window(call, (height, width), call["size"])


def _infer(call: Call) -> TensorType:
    x = expect_dtype(call, 0, *FLOATS)
    batch, *out, channels = call.expect_rank(0, 4).shape
    window = _window(call)
    if window.out != tuple(out):
        call.fail(f"windows over {tuple(call['spatial'])} give {window.out} results, got {x}")
    if call.has(1) and expect_unquantised(call, 1, DType.INT32).shape != x.shape:
        call.fail(f"positions must have shape {list(x.shape)}, got {list(call.input(1).shape)}")
    return x.with_shape((batch, *call["spatial"], channels))


def _kernels(call: Call) -> list[Kernel]:
    window = _window(call)
    _, height, width, channels = call.y.shape
    if not fits_i32(call.x.size, call.y.size):
        raise Unsupported("more elements than the shaders can count")
    lanes = vec_width(channels)
    kernel = Kernel(
        body="spread_pool2d",
        threads=flat_threads(call.y.size // lanes),
        reads=(Read("x", 0, lanes), Read("positions", 1 if call.has(1) else None, lanes)),
        writes=(Write(width=lanes),),
        params={
            **window_params(window, height, width),
            "C": channels // lanes,
            "count": call.y.size // lanes,
        },
        constants={"CHOOSES": int(call.has(1))},
        lanes=lanes,
        reason=f"{lanes} channels of a pixel look at the windows that it is in",
    )
    axes = zip(window.size, window.stride, window.out, strict=True)
    overlaps = [min(ceil_div(n, s), out) for n, s, out in axes]
    return real_sums(call, kernel, boxes(overlaps, call.device.max_loop_iterations))


def _windows_of_a_pixel(call: Call) -> int:
    pairs = zip(call["size"], call["stride"], strict=True)
    return int(np.prod([-(-size // stride) for size, stride in pairs]))


@op(
    _infer,
    _kernels,
    accuracy=sums(_windows_of_a_pixel),
    unbounded=True,
    flops=lambda call: call.y.size * _windows_of_a_pixel(call),
)
def spread_pool2d(
    x: Array,
    positions: Array | None = None,
    *,
    spatial: Sequence[int],
    size: Pair,
    stride: Pair = (1, 1),
    padding: Padding = "valid",
) -> Array:
    """Add the value of each window to all pixels in it, or only to the one at its position.

    x [N, OH, OW, C], one value for each window of a pool over images of `spatial` (height, width), with this
    size, stride and padding; positions int32 [N, OH, OW, C], row * window width + column in the window, as
    from arg_max_pool2d; result [N, spatial[0], spatial[1], C]. What falls into the padding is lost. dtype:
    float32 or float16. Raises ModelError for other dtypes and shapes, and as max_pool2d. Meaning: the
    gradient of the pools in NeuralNetworks.h and in NeuralNetwork.proto of Core ML, whose updatable layers
    need it.
    """
    height, width = spatial
    window = resolve((height, width), size, stride, (1, 1), padding)
    margins = zip((height, width), window.before, window.after, window.out, size, stride, strict=True)
    extents = [max(n + b + a, (out - 1) * s + k) for n, b, a, out, k, s in margins]
    padded = np.zeros((x.shape[0], *extents, x.shape[3]), x.dtype)
    (rows, columns), (down, across) = window.out, stride
    for row in range(size[0]):
        for column in range(size[1]):
            place = padded[:, row : row + rows * down : down, column : column + columns * across : across]
            place = place[:, :rows, :columns]
            here = row * size[1] + column
            place += x if positions is None else np.where(positions == here, x, x.dtype.type(0))
    (top, left) = window.before
    return np.ascontiguousarray(padded[:, top : top + height, left : left + width])


OPS: tuple[Op, ...] = (spread_pool2d,)
