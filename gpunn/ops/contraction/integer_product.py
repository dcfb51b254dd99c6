"""Integer sums of products: the common part of quantised conv2d, depthwise_conv2d and fully_connected.

y = zy + rescale(sum of (x - zx) * (w - zw) + bias, sx * sw / sy), clamped to the fused activation, where s
and z are scales and zero points: Jacob et al., Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference, section 2. The filter may have a scale for each output channel; the bias is
int32 in steps of sx * sw. product_rescaling.py converts the sums to results; product_kernel.py has the GPU's
kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.check import QUANTIZED
from gpunn.ops.contraction.product_rescaling import Rescaling, Rounding, rescaling
from gpunn.ops.elementwise.unary import apply_activation
from gpunn.ops.fixed_point.affine import (
    LIMITS,
    activation_bounds,
    dequantize,
    rescale,
    rescale_int64,
    scale_of,
    store,
)
from gpunn.types import Array, DType, Quantization

BLOCK = 1 << 14  # sums that the CPU rescales at a time
FEW = 64  # channels
MIXED = (DType.UINT8, DType.INT8)
PAIRS = (
    (DType.UINT8, DType.UINT8),
    (DType.INT8, DType.INT8),
    MIXED,
    (DType.INT16, DType.INT8),
)  # input, filter
BIAS_TOLERANCE = 1e-3  # by which a bias's scale may miss input * filter: files state all three as float32
_TINY = float(np.finfo(np.float32).tiny)  # scales below have fewer digits; those of dead channels do


def check_types(call: Call, axis: int, more: tuple[tuple[DType, DType], ...] = ()) -> None:
    """Raise ModelError unless input, filter (with its output channels at `axis`) and bias fit together.

    Their types are one of PAIRS or of `more`. Real tensors pass, also with a quantised filter.
    """
    x, filter = call.x, call.input(1)
    if any(t is not None and t.dtype is DType.COMPLEX64 for t in call.inputs):
        call.fail(f"takes no complex numbers, got {x} and {filter}")
    if x.quantization is None:
        if x.dtype in QUANTIZED:
            call.fail(f"an input of {x.dtype.value} needs a scale and a zero point")
        return
    if (x.dtype, filter.dtype) not in (*PAIRS, *more) or filter.quantization is None:
        call.fail(f"a quantised {x} does not go with a filter of {filter} and {filter.quantization}")
    scale_x, _ = scale_of(call, x)
    activation_bounds(call, x)
    scales, channels = filter.quantization.scale, filter.shape[axis]
    low, high = LIMITS[filter.dtype]
    zeros = filter.quantization.zero_point
    if not all(0 <= s < math.inf for s in scales) or not all(low <= z <= high for z in zeros):
        call.fail(f"a filter of {filter.dtype.value} cannot have {filter.quantization}")
    if not filter.quantization.per_tensor:
        if filter.quantization.axis != axis or len(scales) != channels:
            call.fail(f"a filter of {channels} channels along axis {axis} has {filter.quantization}")
        if any(zeros):
            call.fail("a filter with a scale for each channel must have zero points of 0")
    _check_bias(call, scale_x * np.asarray(scales))


def _check_bias(call: Call, products: Array) -> None:
    """Raise ModelError unless the bias has steps of `products`, or has no scale, or a scale of 0."""
    if not call.has(2):
        return
    bias = call.input(2)
    allowed = [DType.INT32] if call.input(1).dtype is not DType.INT16 else []
    allowed += [DType.INT64] if call.x.dtype is DType.INT16 else []
    if bias.dtype not in allowed:
        names = " or ".join(d.value for d in allowed)
        call.fail(f"the bias of a quantised operation must be {names}, got {bias}")
    why = "" if bias.quantization is None else bias_misfit(bias.quantization, products)
    if why:
        call.fail(why)


def bias_misfit(bias: Quantization, products: Array) -> str:
    """Say why a bias does not have steps of `products`; empty if it does, or has a scale of 0."""
    scales = np.asarray(bias.scale)
    if any(bias.zero_point) or len(scales) not in (1, len(products)):
        return f"the bias must have the zero point 0 and the filter's scales, got {bias}"
    wrong = np.abs(scales - products) > BIAS_TOLERANCE * products + _TINY
    if not scales.any() or not wrong.any():
        return ""
    wanted, got = (np.broadcast_to(s, wrong.shape)[wrong][0] for s in (products, scales))
    return f"the bias's scale must be that of input * filter, {wanted}, got {got}"


def integer_product(
    call: Call, real: Callable[..., Array], axis: int, rounding: Rounding
) -> Callable[..., Array]:
    """Return what computes the stored result of an op whose real reference is `real`, from stored operands.

    `axis`: of the filter's output channels. The op's real reference computes the sums, which are exact
    (_reach). A real input meets the real values of its quantised filter.
    """
    attrs = {k: v for k, v in call.attrs.items() if k != "activation"}
    if call.x.quantization is None:
        return lambda x, filter, bias=None: _of_reals(call, real, attrs, x, filter, bias)
    how = rescaling(call, rounding)
    known: list[tuple[Array, Array | None, _Weights]] = []  # of constants, from one run to the next

    def weights(filter: Array, bias: Array | None) -> _Weights:
        for of_filter, of_bias, found in known:
            if of_filter is filter and of_bias is bias:
                return found
        found = _Weights.of(call, how, axis, filter, bias)
        if constants_only(call):
            known[:] = [(filter, bias, found)]
        return found

    def compute(x: Array, filter: Array, bias: Array | None = None) -> Array:
        made = weights(filter, bias)
        exact = made.filter.dtype
        return made.stored(real(x.astype(exact) - exact.type(how.zero_x), made.filter, None, **attrs))

    return compute


def _of_reals(
    call: Call,
    real: Callable[..., Array],
    attrs: Mapping[str, Any],
    x: Array,
    filter: Array,
    bias: Array | None,
) -> Array:
    reals = dequantize(filter, call.input(1)).astype(x.dtype)
    biases = bias if bias is None or not call.input(2).quantization else dequantize(bias, call.input(2))
    return apply_activation(real(x, reals, biases, **attrs), call.attrs.get("activation"))


@dataclass(frozen=True, slots=True)
class _Weights:
    """The filter without its zero point, in a type with exact sums, and what makes results of these sums."""

    filter: Array
    stored: Callable[[Array], Array]

    @classmethod
    def of(cls, call: Call, how: Rescaling, axis: int, filter: Array, bias: Array | None) -> _Weights:
        """Return what follows from a filter and a bias."""
        centred = filter.astype(np.float32) - np.float32(how.zero_w)
        low, high = LIMITS[call.x.dtype]
        reach = _reach(centred, axis, max(high - how.zero_x, how.zero_x - low))
        biases = np.zeros(1, np.int64) if bias is None else bias.astype(np.int64)
        exact = centred.astype(np.float32 if reach < 2**24 else np.float64, copy=False)
        convert: Callable[[Array, Array], None]
        if has_int64_sums(call):
            convert = partial(_rescaled_int64, call, how, biases)
        elif reach + float(np.abs(biases).max(initial=0)) < 2**31 and (how.shift <= 0).all():
            convert = _Requantization.of(call, how, biases).convert
        else:
            convert = partial(_rescaled, call, how, biases)
        return cls(exact, partial(_by_block, call, convert=convert))


def constants_only(call: Call) -> bool:
    """Tell whether filter and bias are constants, so that all that follows from them can be kept."""
    return call.constant[1] and (not call.has(2) or call.constant[2])


def has_int64_sums(call: Call) -> bool:
    """Tell whether sums have 64 bits: those of 16-bit inputs, except with a 32-bit bias."""
    return call.x.dtype is DType.INT16 and not (call.has(2) and call.input(2).dtype is DType.INT32)


def _by_block(call: Call, sums: Array, convert: Callable[[Array, Array], None]) -> Array:
    """Convert sums of products to stored results, in blocks that stay in the CPU's cache.

    `convert` gets sums, rows of int64 that it may change, and writes the results of these.
    """
    channels = sums.shape[-1]
    rows = sums.reshape(-1, channels) if channels else sums.reshape(0, 0)
    result = np.empty(rows.shape, call.y.dtype.numpy)
    block = max(1, BLOCK // max(1, channels))
    total = np.empty((min(block, len(rows)), rows.shape[1]), np.int64)
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        here = total[: len(result[part])]
        here[...] = rows[part]
        convert(here, result[part])
    return result.reshape(sums.shape)


def _rescaled_int64(call: Call, how: Rescaling, bias: Array, total: Array, result: Array) -> None:
    rescaled = rescale_int64(total + bias, how.multiplier, how.shift)
    result[...] = store(rescaled + how.zero_y, call.y, how.bounds)


def _rescaled(call: Call, how: Rescaling, bias: Array, total: Array, result: Array) -> None:
    """Convert sums that may leave 32 bits, and then wrap around, also by factors above 1."""
    away = np.arange(total.shape[1]) >= how.upwards
    rescaled = rescale(total + bias, how.multiplier, how.shift, away)
    result[...] = store(rescaled + how.zero_y, call.y, how.bounds)


@dataclass(frozen=True, slots=True)
class _Requantization:
    """rescale() of sums that stay within 32 bits, by factors up to 1, in few steps.

    (x m + 2^30) >> 31 and then (. + half) >> right are one shift: (x m + 2^30 + half 2^31) >> (31 + right).
    Where halves go away from zero, 2^31 less is added below 0 (`below`). The zero point is added before the
    shift, too, unless that leaves 64 bits; then it is `zero`. `first` is bias m + 2^30, and if no channel
    asks for the sign in between, it is all that is added; else `last` is the rest.
    """

    multiplier: Array
    first: Array
    below: Array | None
    last: Array
    right: Array
    bounds: tuple[int, int]
    zero: int

    @classmethod
    def of(cls, call: Call, how: Rescaling, bias: Array) -> _Requantization:
        """Return the steps for a bias."""
        right = 31 - how.shift
        half = (np.int64(1) << (right - 1)) >> 31 << 31  # 0 if right is 31
        away = (np.arange(call.y.shape[-1]) >= how.upwards) & (half > 0)
        first, last, zero = bias * how.multiplier + (1 << 30), half, how.zero_y
        if abs(zero) << int(right.max(initial=0)) <= 1 << 60:
            last, zero = last + (zero << right), 0
        return cls(
            _spread(how.multiplier),
            _spread(first if away.any() else first + last),
            _spread(np.where(away, np.int64(-(1 << 31)), np.int64(0))) if away.any() else None,
            _spread(last),
            _spread(right),
            (how.bounds[0] - zero, how.bounds[1] - zero),
            zero,
        )

    def convert(self, total: Array, result: Array) -> None:
        """Write the results of sums, which change."""
        count = len(total)
        total *= self.multiplier[:count]
        total += self.first[:count]
        if self.below is not None:
            sign = total >> 63
            sign &= self.below[:count]
            total += sign
            total += self.last[:count]
        total >>= self.right[:count]
        np.clip(total, *self.bounds, out=total)
        if self.zero:
            total += self.zero
        result[...] = total


def _spread(values: Array) -> Array:
    """Return a number for each channel as rows for a block of sums, as is quickest: numpy likes long loops.

    Equal numbers are one. A row of few is repeated for all rows of a block.
    """
    if values.size and (values == values[0]).all():
        return values[:1].reshape(1, 1)
    rows = BLOCK // max(1, values.size) if values.size < FEW else 1
    return np.tile(values, (rows, 1))


def _reach(filter: Array, axis: int, largest: int) -> float:
    """Return a bound of all partial sums, in any order, of integers up to `largest` times the filter.

    It is `largest` times the sum of a channel's absolute weights. float32 counts to 2^24, float64 to 2^53,
    which no filter reaches.
    """
    others = tuple(k for k in range(filter.ndim) if k != axis)
    return float(largest * np.abs(filter).sum(axis=others, dtype=np.float64).max(initial=0))
