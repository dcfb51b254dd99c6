"""Pools, one line of a table each.

Quantised average and max pools work on the stored integers, and the result has their quantisation. An average
is rounded to nearest, halves away from zero (TFLite's reference kernels, AveragePool and MaxPool). They do
the same for integers of 8 and 16 bits without a scale, but without an activation, as TFLite has none. NNAPI
and TFLite do not define an L2 pool of quantised tensors: it is computed on real numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gpunn.kernel import Function, Kernel, Unsupported, fits_i32, keep_nan
from gpunn.ops.accuracy import BASIC, SELECTION, Accuracy, sums
from gpunn.ops.algebra import Algebra, Border
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, QUANTIZED, SMALL, expect_dtype
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.fixed_point.affine import LIMITS, activation_bounds, store
from gpunn.ops.kernels.window import (
    Padding,
    Pair,
    Window,
    by_rows,
    check_window,
    pad_input,
    resolve,
    seen,
)
from gpunn.ops.memory import empty, scratch
from gpunn.ops.op import EIGHT_BITS, Op, Prepare, Quantized, op
from gpunn.ops.reduction.gradients import pools
from gpunn.ops.reduction.pool_kernel import pool_kernels
from gpunn.ops.reduction.pool_loop import in_loop, maxima_in_loop, means_in_loop
from gpunn.types import Array, DType, Shape, TensorType

MANY = 128  # channels, enough for a loop of numpy's
AT_ONCE = 1 << 16  # numbers of rows that are combined at a time
EXACT = 1 << 24  # below it float32 has all whole numbers
MOST_LISTED = 1 << 8  # cells of 8 bits, of whose sums there is a table


class Pool(NamedTuple):
    """A pool: the padding's value, which starts the sum, the function of a cell, and the function of the sum.

    Average and L2 pools divide by the number of cells inside the input, as NNAPI and TFLite do, so their
    padding does not count.
    """

    start: float
    enter: Callable[[Array], Array]
    combine: np.ufunc
    finish: Callable[[Array, Array], Array]
    wgsl_start: str
    wgsl_combine: str
    wgsl_finish: str
    wgsl_enter: str = "v"
    border: Border | None = None
    accuracy: Accuracy = BASIC


def _cells(call: Call) -> int:
    height, width = call["size"]
    return int(height * width)


POOLS = {
    "average_pool2d": Pool(
        0.0, lambda v: v, np.add, lambda s, n: s / n, "0.0", "s + v", "s / n", accuracy=sums(_cells)
    ),
    "max_pool2d": Pool(
        -np.inf,
        lambda v: v,
        np.maximum,
        lambda s, n: s,
        "bitcast<f32>(0xff800000u)",
        keep_nan("max(s, v)", "s", "v"),
        "s",
        border=Border.LOWEST,
        accuracy=SELECTION,
    ),
    "l2_pool2d": Pool(
        0.0,
        np.square,
        np.add,
        lambda s, n: np.sqrt(s / n),
        "0.0",
        "s + v",
        "sqrt(s / n)",
        "v * v",
        accuracy=sums(_cells),
    ),
}


def _rounded_mean(total: Array, count: Array) -> Array:
    magnitude = (np.abs(total) + count // 2) // count
    return np.asarray(np.where(total < 0, -magnitude, magnitude))


def rounded_real_mean(total: Array, count: Array) -> Array:
    """Compute _rounded_mean() of whole numbers in float32, where sums and counts are below EXACT.

    A quotient of two of these that is not whole is too far from the next whole number to be rounded to it.
    """
    nudged = np.copysign(np.floor(count / 2), total)
    nudged += total
    nudged /= count
    return np.asarray(np.trunc(nudged, out=nudged))


# On stored integers, in int32 unless another type is exact, too.
INTEGER_POOLS = {
    "average_pool2d": Pool(
        0, lambda v: v, np.add, _rounded_mean, "0", "s + v", "(s + select(n / 2, -(n / 2), s < 0)) / n"
    ),
    "max_pool2d": Pool(-(2**15), lambda v: v, np.maximum, lambda s, n: s, "-32768", "max(s, v)", "s"),
}


def pool_window(call: Call) -> Window:
    """Return the window of a pool of images; raise ModelError if it may see nothing but padding."""
    _, height, width, _ = call.expect_rank(0, 4).shape
    window = check_window(call, (height, width), call["size"])
    reach = [max(b, a) for b, a in zip(window.before, window.after, strict=True)]
    if any(r >= s for r, s in zip(reach, window.size, strict=True)) and call["padding"] != "same":
        call.fail(f"padding {call['padding']} must be smaller than the window {call['size']}")
    return window


def _infer(call: Call) -> TensorType:
    expect_dtype(call, 0, *FLOATS, *(SMALL if call.op in INTEGER_POOLS else ()))
    window = pool_window(call)
    return call.x.with_shape((call.x.shape[0], *window.out, call.x.shape[3]))


def _kernels(call: Call) -> list[Kernel]:
    return _pool_kernels(call, POOLS[call.op], activation_function(call), DType.FLOAT32)


def _integer_kernels(call: Call) -> list[Kernel]:
    low, high = _integer_bounds(call)
    largest = 1 + max(map(abs, LIMITS[call.x.dtype]))  # rounding adds up to a half
    if call.op == "average_pool2d" and _cells(call) * largest >= 2**31:
        raise Unsupported("sums of windows that large do not fit 32 bits")
    apply = {"apply": Function(("x",), "clamp(x, p.bounds.x, p.bounds.y)")}
    kernels = _pool_kernels(call, INTEGER_POOLS[call.op], apply, DType.INT32)
    return [replace(k, params={**k.params, "bounds": (low, high, 0, 0)}) for k in kernels]


def _pool_kernels(call: Call, pool: Pool, apply: dict[str, Function], partial: DType) -> list[Kernel]:
    if not fits_i32(call.x.size, call.y.size):
        raise Unsupported("more elements than the shaders can count")
    functions = {
        "start": Function((), pool.wgsl_start),
        "enter": Function(("v",), pool.wgsl_enter),
        "combine": Function(("s", "v"), pool.wgsl_combine),
        "finish": Function(("s", "n"), pool.wgsl_finish),
        **apply,
    }
    return pool_kernels(call, pool_window(call), functions, partial, pool.combine is np.maximum)


def _integer_bounds(call: Call) -> tuple[int, int]:
    if call.y.quantization != call.x.quantization:
        call.fail(
            f"the result must be quantised as the input, {call.x.quantization}, got {call.y.quantization}"
        )
    return activation_bounds(call, call.y)


def _prepared_integer(call: Call) -> Callable[[Array], Array]:
    pool, bounds, window = INTEGER_POOLS[call.op], _integer_bounds(call), pool_window(call)
    if _sees_all(call, window) and call.x.dtype in EIGHT_BITS and _cells(call) <= MOST_LISTED:
        return means_in_loop(call, window, bounds, _mean_of_images(call, bounds))
    low, high = LIMITS[call.x.dtype]
    kind: np.dtype[Any] = np.dtype(np.int32)
    if pool.combine is np.maximum:
        pool, kind = pool._replace(start=low), call.x.dtype.numpy
    elif (_cells(call) + 1) * max(-low, high) < EXACT:
        pool, kind = pool._replace(finish=rounded_real_mean), np.dtype(np.float32)
    counts = _counts(call.x.shape, window, kind)

    def by_numpy(x: Array) -> Array:
        return store(_pooled(pool, x.astype(kind, copy=False), window, counts), call.y, bounds)

    return (maxima_in_loop if pool.combine is np.maximum else means_in_loop)(call, window, bounds, by_numpy)


def _sees_all(call: Call, window: Window) -> bool:
    """Tell whether this is an average of whole images, without padding."""
    padded = any((*window.before, *window.after))
    return call.op == "average_pool2d" and window.size == call.x.shape[1:3] and not padded


def _mean_of_images(call: Call, bounds: tuple[int, int]) -> Callable[[Array], Array]:
    """Return the average pool of whole images of 8 bits: a table of the results of all sums."""
    cells, shape = _cells(call), call.y.shape
    least, most = (cells * limit for limit in LIMITS[call.x.dtype])
    sums = np.roll(np.arange(least, most + 1), least)  # those below 0 last: there a negative index finds them
    means = store(_rounded_mean(sums, np.asarray(cells)), call.y, bounds)

    def mean(x: Array) -> Array:
        pixels = x.reshape(shape[0], cells, shape[3])
        return np.asarray(means.take(np.add.reduce(pixels, 1, np.int32)).reshape(shape))

    return mean


def _prepared(pool: Pool) -> Prepare:
    def prepare(call: Call) -> Callable[[Array], Array]:
        window = pool_window(call)
        compute = _by_numpy(pool, call, window)
        return in_loop(call, window, compute) if call.x.dtype is DType.FLOAT32 else compute

    return prepare


def _by_numpy(pool: Pool, call: Call, window: Window) -> Callable[[Array], Array]:
    counts = _counts(call.x.shape, window, call.x.dtype.numpy)
    if not _sees_all(call, window):
        return lambda x: _pooled(pool, x, window, counts)
    shape, cells, combine, start = call.y.shape, _cells(call), pool.combine.reduce, pool.start

    def whole(x: Array) -> Array:
        total = combine(x.reshape(shape[0], cells, shape[3]), 1, initial=start)
        return pool.finish(total.reshape(shape), counts)

    return whole


def _counts(shape: Shape, window: Window, dtype: np.dtype[Any]) -> Array:
    """Count the cells inside the input that each window sees: [1, OH, OW, 1]."""
    counted = pad_input(np.ones((1, *shape[1:3], 1), dtype), window)
    return np.asarray(seen(counted, window).sum((3, 4), dtype))


def _pooled(pool: Pool, x: Array, window: Window, counts: Array) -> Array:
    padded = pad_input(pool.enter(x), window, pool.start)
    return pool.finish(_combined(pool, padded, window), counts)


def _combined(pool: Pool, padded: Array, window: Window) -> Array:
    """Combine the cells of each window, in order."""
    cells, pixels = math.prod(window.size), math.prod(window.out)
    batch, height, width, channels = padded.shape
    if pixels == 1 and (height, width) == window.size:
        total = pool.combine.reduce(padded.reshape(batch, cells, channels), 1, initial=pool.start)
        return np.asarray(total.reshape(batch, 1, 1, channels))
    at_once = pixels <= cells or (window.stride[1] > 1 and channels >= MANY)
    if at_once and pool.combine is not np.maximum:
        return np.asarray(pool.combine.reduce(seen(padded, window), (3, 4), initial=pool.start))
    total = empty((batch, *window.out, channels), padded.dtype)
    combine_cells(pool.combine, padded, window, total)
    return total


def combine_cells(combine: np.ufunc, padded: Array, window: Window, out: Array) -> None:
    """Write what combines the cells of each window: of its rows first, which are long, then of its columns.

    Some rows of the result at a time, for which the CPU's cache is large enough.
    """
    (height, width), (down, right) = window.size, window.stride
    line, rows = padded.shape[2:], window.out[0]
    step = max(1, AT_ONCE // max(1, math.prod(line)))
    for image, first in itertools.product(range(len(padded)), range(0, rows, step)):
        count = min(step, rows - first)
        of_rows = scratch("rows", (count, *line), padded.dtype)
        _combine_steps(combine, padded[image, first * down :], height, down, of_rows)
        part = out[image, first : first + count].swapaxes(0, 1)
        _combine_steps(combine, of_rows.swapaxes(0, 1), width, right, part)


def _combine_steps(combine: np.ufunc, x: Array, size: int, stride: int, out: Array) -> None:
    """Write what combines `size` elements along the first axis, from every `stride`-th one on."""
    taps = [x[k : k + (len(out) - 1) * stride + 1 : stride] for k in range(size)]
    if size == 1:
        out[...] = taps[0]
        return
    combine(taps[0], taps[1], out=out)
    for other in taps[2:]:
        combine(out, other, out=out)


_GRADIENTS = pools(lambda back: pool_window(back.call))


def _flops(call: Call) -> int:
    return call.y.size * _cells(call)


def _declare(name: str, pool: Pool) -> Op:
    def reference(x: Array, *, size: Pair, stride: Pair = (1, 1), padding: Padding = "valid") -> Array:
        window = resolve((x.shape[1], x.shape[2]), size, stride, (1, 1), padding)
        return _pooled(pool, x, window, _counts(x.shape, window, x.dtype))

    reference.__doc__ = f"""{name}: x [N, H, W, C] -> [N, OH, OW, C] over windows of `size` (height, width).

    padding: "same", "valid" or ((top, bottom), (left, right)); padded cells do not count. NeuralNetworks.h,
    ANEURALNETWORKS_{name.upper().replace("POOL2D", "POOL_2D")}; TFLite schema, Pool2DOptions.
    """
    quantized = (
        replace(
            Quantized.prepared(_prepared_integer, _integer_kernels, _integer_bounds, QUANTIZED), plain=True
        )
        if name in INTEGER_POOLS
        else None
    )
    return op(
        _infer,
        _kernels,
        name=name,
        flops=_flops,
        unbounded=True,
        algebra=Algebra(border=pool.border),
        divide=by_rows(pool_window),
        accuracy=pool.accuracy,
        fusible=True,
        quantized=quantized,
        prepare=_prepared(pool),
        gradient=_GRADIENTS[name],
    )(reference)


OPS: tuple[Op, ...] = tuple(_declare(name, pool) for name, pool in POOLS.items())
