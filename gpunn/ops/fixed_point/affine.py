"""Affine quantisation and its integer arithmetic: real = scale * (stored - zero_point).

Multiplication by a real factor is done in integers as gemmlowp and TFLite do it: the factor is a 32-bit
fixed-point number in [1/2, 1) and a shift (quantize_multiplier), the product is rounded twice (rescale). In
the second rounding halves go away from zero, as in gemmlowp and TFLite's reference kernels, or upwards, as
in its kernels of vector instructions: each op says which. shaders/lib/affine.wgsl holds the same arithmetic
for the GPU. Formulas: Jacob et al., Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference, section 2.2; gemmlowp, fixedpoint.h, SaturatingRoundingDoublingHighMul and
RoundingDivideByPOT; Arm's SRSHL, a rounding shift, for the other rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gpunn.errors import ModelError
from gpunn.ops.call import Call
from gpunn.types import Array, DType, Quantization, TensorType

LIMITS = {
    DType.UINT8: (0, 255),
    DType.INT8: (-128, 127),
    DType.INT16: (-(2**15), 2**15 - 1),
    DType.INT32: (-(2**31), 2**31 - 1),
}
FEW = 1 << 12  # numbers that two functions of numpy's clamp in less time than clip() takes to begin
_HALF_ROOT_OF_2 = 1518500250  # with 31 bits of fraction
_SINGLE = np.finfo(np.float32)
_ITERATIONS = 5  # of Newton's method


def dequantize(stored: Array, type: TensorType) -> Array:
    """Return the real numbers, float32, of stored integers: scale * (stored - zero_point).

    stored: an array of the type's shape, or one that broadcasts to it. type: for example that of an output,
    model.outputs[0].type. An array whose type has no quantisation is returned unchanged. Raises ModelError
    for what is no array of numbers or does not fit the type, and for scales below 0 or not finite.
    """
    quantization = _quantization_of(type)
    if quantization is None:
        return stored
    stored = _fitting(stored, quantization, type)
    scale, zero = _along(quantization, type)
    single = scale.astype(np.float32)
    if stored.itemsize <= 2 and (single == scale).all():  # float32 holds the difference, and rounds once
        reals = np.asarray(np.subtract(stored, zero.astype(np.float32), dtype=np.float32))
        return np.asarray(np.multiply(reals, single, out=reals if reals.ndim == single.ndim else None))
    return np.asarray(((stored.astype(np.int64) - zero) * scale).astype(np.float32))


def quantize(real: Array, type: TensorType) -> Array:
    """Return the stored integers, of the type's dtype, of real numbers.

    They are the nearest, halves away from zero, and clamped to the dtype. real: an array of the type's shape,
    or one that broadcasts to it; NaN becomes the zero point. type: for example that of an input,
    model.inputs[0].type. An array whose type has no quantisation is returned unchanged. Raises ModelError for
    what is no array of numbers or does not fit the type, for scales that are not above 0 and finite, and for
    zero points that the dtype cannot hold.
    """
    quantization = _quantization_of(type)
    if quantization is None:
        return real
    low, high = LIMITS.get(type.dtype, (1, 0))
    if 0 in quantization.scale or not all([low <= zero <= high for zero in quantization.zero_point]):
        raise ModelError(f"{quantization} do not quantise {type}")
    real = _fitting(real, quantization, type)
    scale, zero = _along(quantization, type)
    scaled = np.nan_to_num(real.astype(np.float64) / scale, nan=0.0)
    stored: Array = np.clip(round_half_away(scaled) + zero, low, high).astype(type.dtype.numpy)
    return stored


def _quantization_of(type: Any) -> Quantization | None:
    """Return the quantisation of a type; raise ModelError for what is no type, and for wrong scales."""
    if not isinstance(type, TensorType):
        raise ModelError(f"the type must be a gpunn.TensorType, got {type!r}")
    found = type.quantization
    if found is not None and not all([scale == 0 or is_scale(scale) for scale in found.scale]):
        raise ModelError(f"{found} do not quantise {type}: scales are float32 of 0 or more")
    return found


def _fitting(values: Any, quantization: Quantization, type: TensorType) -> Array:
    """Return values as an array; raise ModelError unless they are numbers that lie along the scales."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ModelError(f"a quantised tensor cannot be made of {values!r}: {error}") from None
    if array.dtype.kind not in "biuf":
        raise ModelError(f"a quantised tensor is made of numbers, got {array.dtype}")
    if not quantization.per_tensor:
        try:
            np.broadcast_shapes(array.shape, _along(quantization, type)[0].shape)
        except (IndexError, ValueError):
            raise ModelError(
                f"an array {list(array.shape)} does not fit {type} with {quantization}"
            ) from None
    return array


def _along(quantization: Quantization, type: TensorType) -> tuple[Array, Array]:
    """Return scales (float64) and zero points (int64), shaped to broadcast over the tensor."""
    shape = [1] * type.rank
    if not quantization.per_tensor:
        shape[quantization.axis] = len(quantization.scale)
    return (
        np.asarray(quantization.scale, np.float64).reshape(shape),
        np.asarray(quantization.zero_point, np.int64).reshape(
            shape if len(quantization.zero_point) > 1 else ()
        ),
    )


def round_half_away(x: Array) -> Array:
    """Round to the nearest integer, halves away from zero, as C's round()."""
    return np.asarray(np.trunc(x + np.copysign(0.5, x)))


def scale_of(call: Call, type: TensorType) -> tuple[float, int]:
    """Return scale and zero point of a tensor that must be quantised per tensor."""
    quantization = type.quantization
    if quantization is None or not quantization.per_tensor:
        call.fail(f"needs one scale and zero point for each tensor, got {type} with {quantization}")
    scale, zero = quantization.scale[0], quantization.zero_point[0]
    low, high = LIMITS.get(type.dtype, (zero, zero))
    if not is_scale(scale) or not low <= zero <= high:
        call.fail(f"scale {scale} and zero point {zero} do not quantise {type}")
    return scale, zero


def is_scale(scale: float) -> bool:
    """Tell whether a number may be a scale: files and NNAPI have them in float32."""
    return float(_SINGLE.smallest_subnormal) <= scale <= float(_SINGLE.max)


def ratio(a: float, b: float) -> float:
    """Compute a / b in float32, as TFLite's Prepare functions divide scales; infinite on overflow."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float32(a) / np.float32(b))


def times(a: float, b: float) -> float:
    """Compute a * b in float32, infinite on overflow."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float32(a) * np.float32(b))


def fixed_output(x: TensorType, scale: float, above: int) -> TensorType:
    """Return x's type for a result with a known range; the zero point is `above` steps above the lowest
    value.

    For 16 bits the range has half as many steps as there are values on either side of a zero point of 0.
    """
    if x.dtype is DType.INT16:
        return replace(x, quantization=Quantization((scale * 2**8 / 2**15,), (0,)))
    return replace(x, quantization=Quantization((scale,), (LIMITS[x.dtype][0] + above,)))


def through_reals(call: Call, reference: Callable[..., Any], *arrays: Array) -> Array:
    """Compute a stored result through real numbers: dequantise, apply the op's reference, quantise."""
    reals = (dequantize(v, t) for v, t in zip(arrays, call.inputs, strict=True) if t is not None)
    result: Array = reference(*reals, **call.attrs)
    return quantize(result, call.y)


def quantize_multiplier(factor: float) -> tuple[int, int]:
    """Return (m, shift) with factor = m / 2^31 * 2^shift and 2^30 <= m < 2^31.

    (0, 0) for factors below 2^-32, and the largest that fits 32-bit shifts for factors above 2^30.
    """
    m, shift = quantize_multipliers(np.asarray(factor))
    return int(m), int(shift)


def quantize_multipliers(factors: Array) -> tuple[Array, Array]:
    """Return the (m, shift) of quantize_multiplier() for each of many factors, as int64."""
    fractions, shift = np.frexp(np.where(factors > 0, np.minimum(factors, 2.0**30), 0.0))
    m = np.floor(fractions * 2.0**31 + 0.5).astype(np.int64)
    whole = m == 2**31  # rounded to 1, which is 1/2 with another shift
    m, shift = np.where(whole, 2**30, m), shift.astype(np.int64) + whole
    zero, most = shift < -31, shift > 30
    return np.where(zero, 0, np.where(most, 2**31 - 1, m)), np.where(zero, 0, np.minimum(shift, 30))


def rescale(x: Array, m: Array | int, shift: Array | int, away: Array | bool = True) -> Array:
    """Multiply x (int64 of 32-bit values) by m / 2^31 * 2^shift, rounded twice as in TFLite's kernels.

    away: as in divide_by_power().
    """
    left: Array | int
    right: Array | int
    if isinstance(shift, int):
        left, right = max(shift, 0), max(-shift, 0)
    else:
        left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    return divide_by_power(high_multiply(wrap32(x << left), m), right, away)


def short_multiplier(m: Array | int) -> Array:
    """Convert a multiplier of quantize_multiplier() to 15 instead of 31 bits."""
    return np.asarray(np.minimum((np.asarray(m, np.int64) + 2**15) >> 16, 2**15 - 1))


def rescale_int64(x: Array, m: Array | int, shift: Array | int) -> Array:
    """Multiply x (int64 of 48-bit values) by m / 2^31 * 2^shift, with 15 bits of the factor, rounded once.

    TFLite's MultiplyByQuantizedMultiplier does this for sums of 64 bits: halves go upwards. A shift of more
    than 14, which it does not allow, counts as 14.
    """
    down = np.maximum(15 - np.asarray(shift, np.int64), 1)
    return np.asarray((x * short_multiplier(m) + (np.int64(1) << (down - 1))) >> down)


def rescale_whole(x: Array, m: Array | int, shift: Array | int) -> Array:
    """Multiply x (int64) by m / 2^31 * 2^shift, rounded once, halves upwards.

    x is clamped to 47 bits, and to 31 bits for factors from 2^14 on: the results are far outside 16 bits.
    """
    down, m = 31 - np.asarray(shift, np.int64), np.asarray(m, np.int64)
    few, many = np.minimum(down, 16), np.maximum(down, 17)
    near = (np.clip(x, *LIMITS[DType.INT32]) * m + (np.int64(1) << (few - 1))) >> few
    # The lower 16 bits of the product are dropped first, so that nothing leaves 64 bits.
    x = np.clip(x, 1 - 2**47, 2**47 - 1)
    product = (x >> 16) * m + (((x & 0xFFFF) * m) >> 16)
    return np.asarray(np.where(down < 17, near, (product + (np.int64(1) << (many - 17))) >> (many - 16)))


def rescale_upwards(x: Array, m: Array | int, shift: Array | int) -> Array:
    """Multiply x (int64 of 47-bit values) by m / 2^31 * 2^shift, rounded twice as by rescale().

    Halves go upwards both times.
    """
    right = np.maximum(-np.asarray(shift, np.int64), 0)
    return np.asarray((rescale_whole(x, m, np.maximum(shift, 0)) + (np.int64(1) << right >> 1)) >> right)


def high_multiply(a: Array, b: Array | int) -> Array:
    """Compute a * b / 2^31, rounded to nearest, halves upwards (SaturatingRoundingDoublingHighMul).

    gemmlowp truncates the quotient after a nudge of 2^30, or of 1 - 2^30 for a negative product. This equals
    the floor after a nudge of 2^30.
    """
    return np.asarray(np.minimum((a.astype(np.int64, copy=False) * b + 2**30) >> 31, 2**31 - 1))


def divide_by_power(x: Array, exponent: Array | int, away: Array | bool = True) -> Array:
    """Compute x / 2^exponent, rounded to nearest: halves away from zero (RoundingDivideByPOT), or else
    upwards.
    """
    if isinstance(exponent, int) and away is True:
        return x if exponent == 0 else np.asarray((x + (1 << exponent >> 1) - (x < 0)) >> exponent)
    exponent = np.asarray(exponent, np.int64)
    half = (np.int64(1) << exponent) >> 1
    if np.any(away):
        half = half - ((x < 0) & (half > 0) & away)
    return np.asarray((x + half) >> exponent)


def inverse_root(x: Array) -> tuple[Array, Array]:
    """Return (m, shift) with 1 / sqrt(x) = m / 2^31 * 2^shift, for int64 of 0 ... 2^53; 0 counts as 1.

    x is moved to [1/4, 1) of a fixed-point number with three bits before the point. Five steps of Newton's
    method from 1 find its inverse root. TensorFlow Lite, kernels/internal/common.h,
    GetInvSqrtQuantizedMultiplierExp.
    """
    gone = np.maximum(np.frexp(x)[1] - 28, 0) // 2  # pairs of bits, which the kernel drops one by one
    few, near = x <= 1, np.maximum(x >> 2 * gone, 2)
    pairs = (29 - np.frexp(near)[1]) // 2  # of bits, which bring it to 2^27 at least
    half, root = divide_by_power((near << 2 * pairs) >> 1, 1), np.full_like(x, 2**28)
    for _ in range(_ITERATIONS):
        cube = _move_up(high_multiply(high_multiply(root, root), root), 6)
        root = _move_up(high_multiply(root, 3 * 2**27) - high_multiply(half, cube), 3)
    down = 11 + gone - pairs
    m = high_multiply(root, _HALF_ROOT_OF_2) << np.maximum(-down, 0)
    return np.where(few, 2**31 - 1, m), np.where(few, 0, -np.maximum(down, 0))


def _move_up(x: Array, bits: int) -> Array:
    """Compute x * 2^bits, within 32 bits."""
    return np.asarray(np.clip(x << bits, *LIMITS[DType.INT32]))


def wrap32(x: Array) -> Array:
    """Wrap int64 values around as 32-bit arithmetic does."""
    return ((x + 2**31) & (2**32 - 1)) - 2**31


def activation_bounds(call: Call, type: TensorType) -> tuple[int, int]:
    """Return the stored values that a fused activation allows in a result of `type`.

    Raises ModelError for an activation that is not a clamp.
    """
    return clamp_bounds(call, type, call.attrs.get("activation"))


def clamp_bounds(call: Call, type: TensorType, name: str | None) -> tuple[int, int]:
    """Return the stored values that an activation allows in a result of `type`; for None all of them.

    Its bounds are divided by the scale in float32, as TFLite's CalculateActivationRangeQuantized does.
    """
    low, high = LIMITS[type.dtype]
    if name is None:
        return low, high
    if name not in CLAMPS:
        call.fail(f"activation {name} is not defined on quantised tensors, only {', '.join(CLAMPS)}")
    scale, zero = scale_of(call, type)
    far = 2.0**31
    ends = [None if b is None else np.clip(ratio(b, scale), -far, far) for b in CLAMPS[name]]
    bounds = [None if e is None else zero + int(round_half_away(np.asarray(e))) for e in ends]
    return (
        low if bounds[0] is None else max(low, bounds[0]),
        high if bounds[1] is None else min(high, bounds[1]),
    )


CLAMPS: dict[str, tuple[float, float | None]] = {
    "relu": (0, None),
    "relu01": (0, 1),
    "relu1": (-1, 1),
    "relu6": (0, 6),
}


def store(values: Array, type: TensorType, bounds: tuple[int, int]) -> Array:
    """Clamp integer results to `bounds` and convert them to the dtype of `type`."""
    return clamped(values, bounds).astype(type.dtype.numpy)


def clamped(values: Array, bounds: tuple[int, int]) -> Array:
    """Clamp integers to `bounds`."""
    low, high = bounds
    if values.size <= FEW:
        return np.asarray(np.minimum(np.maximum(values, low), high))
    return np.clip(values, low, high)
