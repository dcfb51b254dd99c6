"""Ways between reals and their stored integers: quantize, dequantize."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gpunn.kernel import Kernel, Loop, Param, Read, Unsupported, ceil_div, flat_threads, size_of
from gpunn.ops.accuracy import BASIC
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import ELEMENTWISE, Axes, Space, alike
from gpunn.ops.call import Call
from gpunn.ops.check import QUANTIZED, expect_float, expect_int
from gpunn.ops.compiled import integer_loops
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.compiled.row_copies import TOGETHER
from gpunn.ops.compiled.sharing import OF_COPIES, rows_divided
from gpunn.ops.elementwise.unary_kernel import elementwise
from gpunn.ops.fixed_point import affine
from gpunn.ops.fixed_point.affine import (
    LIMITS,
    clamped,
    is_scale,
    quantize_multiplier,
    rescale,
    scale_of,
    store,
)
from gpunn.ops.fixed_point.tables import every_value, read_table, table_kernel, write_table
from gpunn.ops.kernels.sort import ascending
from gpunn.ops.memory import by_blocks, empty, scratch
from gpunn.ops.op import EIGHT_BITS, Op, Quantized, op
from gpunn.types import Array, DType, Quantization, TensorType


def _infer_dequantize(call: Call) -> TensorType:
    if call.x.dtype is not DType.FLOAT16:
        if call.x.quantization is None or call.x.dtype not in LIMITS:
            call.fail(f"input 0 must be quantised or float16, got {call.x}")
        _expect_scales(call, call.x.quantization)
    return TensorType(DType.FLOAT32, call.x.shape)


def _expect_scales(call: Call, quantization: Quantization) -> None:
    """Raise ModelError for scales and zero points that stand for no real numbers; dead channels have 0."""
    low, high = LIMITS[call.x.dtype]
    wrong = [scale for scale in quantization.scale if scale != 0 and not is_scale(scale)]
    if wrong or not all(low <= zero <= high for zero in quantization.zero_point):
        among = f", among them {wrong[0]}" if wrong and not quantization.per_tensor else ""
        call.fail(
            f"scales must be 0 or positive in float32, and zero points in {low} ... {high}, got "
            f"{quantization}{among}"
        )


def _dequantize_kernel(call: Call) -> Kernel:
    quantization = call.x.quantization
    if call.x.dtype not in QUANTIZED:
        raise Unsupported(f"{call.x.dtype.value} has too many values for a table of the results")
    if quantization is not None and not quantization.per_tensor:
        return _dequantize_axis_kernel(call, quantization)
    every = every_value(call.x)
    with np.errstate(over="ignore"):
        return table_kernel(call, affine.dequantize(every, call.x.with_shape(every.shape)))


def _dequantize_axis_kernel(call: Call, quantization: Quantization) -> Kernel:
    """Multiply in float32, which rounds once as the reference does: scales are normal float32 numbers."""
    exact = np.array(quantization.scale)
    scales = exact.astype(np.float32)
    if (scales != exact).any() or scales.min() < np.finfo(np.float32).smallest_normal:
        raise Unsupported("the scales along an axis are no normal float32 numbers")
    axis, shape = quantization.axis, call.x.shape
    return Kernel(
        body="dequantize_axis",
        threads=flat_threads(call.x.size),
        reads=(
            Read("x", 0),
            Read("scale", None, value=scales),
            Read("zero", None, value=np.resize(np.array(quantization.zero_point, np.int32), len(scales))),
        ),
        params={"count": call.x.size, "length": shape[axis], "inner": size_of(shape[axis + 1 :])},
        reason="element by element",
    )


@op(
    _infer_dequantize,
    lambda call: elementwise(call, "x"),
    quantized=Quantized(
        lambda call, x: affine.dequantize(x, call.x),
        _dequantize_kernel,
        dtypes=(*QUANTIZED, DType.INT32),
    ),
    dtypes=(DType.FLOAT16,),
    algebra=Algebra(axes=ELEMENTWISE),
    accuracy=BASIC,
)
def dequantize(x: Array) -> Array:
    """Compute the real numbers of x in float32: scale * (stored - zero_point), or x itself if it is float16.

    Shapes: any; the result has x's shape. dtype: quantised uint8, int8, int16 or int32, with one scale or one
    for each index along an axis, or float16. Accuracy: the exact product, rounded once. Raises ModelError for
    any other dtype, for scales that are neither 0 nor positive in float32, and for zero points that the dtype
    cannot hold. NeuralNetworks.h, ANEURALNETWORKS_DEQUANTIZE; TFLite schema, DequantizeOptions.
    """
    return np.asarray(x, np.result_type(x.dtype, np.float32))


AT_ONCE = 1 << 16  # reals that are rounded at a time
_REAL = np.dtype(np.float32)
LEAST_SCALE = 2.0**-118  # numbers below 2^-126 may count as 0; they are no step then, nor is 1 / scale
# The types of results for inputs of which these are not the usual ones, as in LiteRT.
_TARGETS = {DType.INT16: (*QUANTIZED, DType.INT32), DType.INT32: (DType.INT8, DType.INT16)}


def _infer_quantize(call: Call) -> TensorType:
    known = call.x.quantization is not None and call.x.dtype in (*QUANTIZED, DType.INT32)
    if call.x.dtype is not DType.FLOAT32 and not known:
        call.fail(f"input 0 must be float32 or quantised, got {call.x}")
    names = [d.value for d in _TARGETS.get(call.x.dtype, QUANTIZED)]
    if call["dtype"] not in names:
        call.fail(f"dtype must be one of {', '.join(names)}, got {call['dtype']!r}")
    dtype = DType(call["dtype"])
    scale, zero = expect_float(call, "scale"), expect_int(call, "zero_point", call["zero_point"])
    low, high = LIMITS[dtype]
    if not (is_scale(scale) and low <= zero <= high):
        call.fail(
            f"scale must be positive in float32 and zero_point in {low} ... {high}, got {scale} and {zero}"
        )
    return TensorType(dtype, call.x.shape, Quantization((scale,), (zero,)))


def _stored(call: Call, x: Array) -> Array:
    """Convert real numbers to stored integers, or stored integers to another quantisation."""
    if call.x.quantization is None:
        return _nearest(x, call.y.dtype, *scale_of(call, call.y))
    upwards = _upwards(call)
    away = upwards < x.size and (np.arange(x.size) >= upwards).reshape(x.shape)
    return _requantized(call, x, away)


def _prepared_quantize(call: Call) -> Callable[..., Array]:
    """Return _stored() for many runs: between types of 8 bits a table for each rounding of halves."""
    if call.x.quantization is None:
        return _Rounding(call.y.dtype, *scale_of(call, call.y))
    if not {call.x.dtype, call.y.dtype} <= {*EIGHT_BITS}:
        return partial(_stored, call)
    upwards, away = (_requantized(call, every_value(call.x), rule) for rule in (False, True))
    first = min(_upwards(call), call.x.size)
    steps = upwards.view(np.uint8) ^ np.arange(256, dtype=np.uint8)
    moved = (steps == steps[0]).all() and (upwards == away).all()  # as from uint8 to int8 of the same scale

    def compute(x: Array) -> Array:
        loops, values = integer_loops(), x.reshape(-1)
        if loops is None:
            if moved:
                return np.asarray(np.bitwise_xor(x.view(np.uint8), steps[0]).view(call.y.dtype.numpy))
            result = np.asarray(read_table(x, upwards))
            result.reshape(-1)[first:] = read_table(values[first:], away)
            return result
        result = empty(x.shape, call.y.dtype.numpy)
        target = result.reshape(-1)
        if moved:
            bytes, to = values.view(np.uint8), target.view(np.uint8)
            loops.flipped(rows_divided(x.size, x.size, TOGETHER, OF_COPIES), bytes, int(steps[0]), to)
        else:
            write_table(loops, values[:first], upwards, target[:first])
            write_table(loops, values[first:], away, target[first:])
        return of_loops(result)

    return compute


def _requantized(call: Call, x: Array, away: Array | bool) -> Array:
    (from_scale, from_zero), (scale, zero) = scale_of(call, call.x), scale_of(call, call.y)
    factor = quantize_multiplier(from_scale / scale)
    scaled = rescale(x.astype(np.int64) - from_zero, *factor, away)
    return store(scaled + zero, call.y, LIMITS[call.y.dtype])


def _upwards(call: Call) -> int:
    """Return how many elements, from the first one on, round halves upwards between two quantisations.

    As in LiteRT's default kernels, whose vector instructions take sixteen 8-bit elements at a time.
    """
    eight_bits = {call.x.dtype, call.y.dtype} <= {*EIGHT_BITS}
    return call.x.size - call.x.size % 16 if eight_bits else 0


def _space(call: Call) -> Space | None:
    """Return the axes that x and the result share; None if not all elements round in the same way."""
    mixed = call.x.quantization is not None and 0 < _upwards(call) < call.x.size
    return None if mixed else alike(call)


def _nearest(x: Array, dtype: DType, scale: float, zero: int) -> Array:
    """Return the stored integers of reals."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _Rounding(dtype, scale, zero)(x)


class _Rounding:
    """Rounds reals to stored integers by counting half steps, of which a cast to integers drops fractions.

    The nearest step, halves away from zero, is half of the next half step upwards, rounded down, and for
    negative reals half of the half step itself. Integers of twice the result's bits hold half steps.
    """

    def __init__(self, dtype: DType, scale: float, zero: int) -> None:
        self._dtype, self._bounds = dtype.numpy, LIMITS[dtype]
        self._kind = np.dtype(np.int32 if dtype is DType.INT16 else np.int16)
        bits = 8 * self._kind.itemsize
        self._sign = np.array(bits - 1, self._kind)  # arrays, which numpy takes sooner than its scalars
        self._more = np.array(2 * zero + 1, self._kind)
        self._least, self._most = (2.0 * (bound - zero) for bound in self._bounds)
        self._far = 2.0 ** (bits - 2)  # beyond all results
        step = np.array(scale, _REAL)
        self._exact = (step / 2) * 2 == step  # as it is for normal numbers: halves of others are rounded
        self._step = np.asarray(step / 2) if self._exact else step

    def __call__(self, x: Array) -> Array:
        """Return the stored integers of reals. The caller has numpy ignore overflow and the like."""
        return by_blocks(self._write, x, self._dtype, AT_ONCE)

    def _write(self, x: Array, out: Array) -> None:
        halves = np.divide(x, self._step, out=scratch("halves", x.shape, _REAL), dtype=_REAL)
        if not self._exact:
            halves *= 2
        least, most = np.minimum.reduce(halves, axis=None), np.maximum.reduce(halves, axis=None)
        if not (-self._far < least and most < self._far):  # nor is it so for NaN
            halves[np.isnan(halves)] = 0
            halves.clip(-self._far, self._far, out=halves)
        stored = scratch("stored", x.shape, self._kind)
        stored[...] = halves
        stored += np.right_shift(stored, self._sign, out=scratch("signs", x.shape, self._kind))
        stored += self._more
        stored >>= 1
        if not (self._least <= least and most <= self._most):
            stored = clamped(stored, self._bounds)
        out[...] = stored


def thresholds(dtype: DType, scale: float, zero: int) -> Array:
    """Return for each stored value the smallest float32 that reaches it; for the lowest, -inf."""
    low, high = LIMITS[dtype]
    values, stored = np.arange(low, high + 1), _Rounding(dtype, scale, zero)
    with np.errstate(over="ignore", invalid="ignore"):
        least = ((values - zero - 0.5) * scale).astype(np.float32)
        for _ in range(4):
            least = np.where(stored(least) < values, np.nextafter(least, np.inf), least)
        for _ in range(8):
            below = np.nextafter(least, np.float32(-np.inf))
            least = np.where(stored(below) >= values, below, least)
    least[0] = -np.inf
    return least


def _rescaling_kernel(call: Call) -> Kernel:
    (from_scale, from_zero), (scale, zero) = scale_of(call, call.x), scale_of(call, call.y)
    multiplier, shift = quantize_multiplier(from_scale / scale)
    low, high = LIMITS[call.y.dtype]
    rescaled = "rescale(x - p.how.x, p.how.y, p.how.z, true)"
    return elementwise(
        call,
        f"clamp({rescaled}, p.ends.x, p.ends.y) + p.ends.z",
        {"how": (from_zero, multiplier, shift, 0), "ends": (low - zero, high - zero, zero, 0)},
        ("affine",),
    )


def _quantize_kernel(call: Call) -> Kernel:
    if call.x.dtype is DType.INT32:
        return _rescaling_kernel(call)
    if call.x.quantization is not None:
        upwards, away = (_requantized(call, every_value(call.x), rule) for rule in (False, True))
        first = _upwards(call)
        return table_kernel(call, upwards, (first, away)) if first else table_kernel(call, away)
    scale, zero = scale_of(call, call.y)
    low, high = LIMITS[call.y.dtype]
    least = ascending(thresholds(call.y.dtype, scale, zero))
    count = ceil_div(call.x.size, 4)
    params: dict[str, Param] = {"count": count, "ends": (low, zero, 0, 0)}
    constants, libraries, reason = {"HALF": least.size // 2}, ("steps",), "a search among all steps"
    loops = 4 * Loop(8 * call.y.dtype.itemsize).iterations
    if LEAST_SCALE <= scale <= 1 / LEAST_SCALE:
        params |= {"inverse": 1 / scale, "bottom": float(low - zero), "top": float(high - zero)}
        least = np.append(least, np.int32(2**31 - 1))
        constants, libraries, reason = {}, ("near_steps",), "a product, and the steps beside it"
        loops = 0
    return Kernel(
        body="quantize",
        threads=flat_threads(count),
        reads=(Read("x", 0, width=4), Read("least", None, value=least)),
        params=params,
        constants=constants,
        libraries=libraries,
        lanes=4,
        loop_iterations=loops,
        reason=reason,
    )


@op(
    _infer_quantize,
    host_reason="the result stands for no reals",
    quantized=Quantized(
        _stored, _quantize_kernel, dtypes=(*QUANTIZED, DType.INT32), mixed=True, prepare=_prepared_quantize
    ),
    algebra=Algebra(axes=Axes(space=_space)),
)
def quantize(x: Array, *, dtype: str, scale: float, zero_point: int = 0) -> Array:
    """Compute the stored integers of x: x / scale to nearest, halves away from zero, plus zero_point.

    Shapes: any; the result has x's shape. x: float32, or a quantised tensor, whose real numbers count. The
    result is uint8, int8 or int16 as `dtype` says, clamped to its range; NaN becomes the zero point. Of int16
    it may be int32, of int32 only int8 or int16. Exact on
    every backend: the quotient is float32's, as in TFLite's AffineQuantize, and between two quantisations the
    arithmetic is fixed-point, as in its Requantize: an int32 less its zero point, and shifted to the left if
    its scale is the larger one, wraps around in 32 bits first. Raises ModelError for any other dtype, a scale
    that is not positive and finite in float32, and a zero point out of range. TFLite schema, QuantizeOptions.
    """
    return _nearest(x, DType(dtype), scale, zero_point)


OPS: tuple[Op, ...] = (dequantize, quantize)
