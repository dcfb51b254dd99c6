"""Integer sums of products: the common part of quantised conv2d, depthwise_conv2d and fully_connected.

y = zy + rescale(sum of (x - zx) * (w - zw) + bias, sx * sw / sy), clamped to the fused activation, where s
and z are scales and zero points: Jacob et al., Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference, section 2. The filter may have a scale for each output channel; the bias is
int32 in steps of sx * sw. product_rescaling.py converts the sums to results; product_kernel.py has the GPU's
kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
MIXED = (DType.UINT8, DType.INT8)
PAIRS = (
    (DType.UINT8, DType.UINT8),
    (DType.INT8, DType.INT8),
    MIXED,
    (DType.INT16, DType.INT8),
)  # input, filter
BIAS_TOLERANCE = 1e-3  # by which a bias's scale may miss input * filter: files state all three as float32
_TINY = float(np.finfo(np.float32).tiny)  # scales below have fewer digits; those of dead channels do


def check_types(call: Call, axis: int) -> None:
    """Raise ModelError unless input, filter (with its output channels at `axis`) and bias fit together.

    Real tensors pass, also with a quantised filter.
    """
    x, filter = call.x, call.input(1)
    if any(t is not None and t.dtype is DType.COMPLEX64 for t in call.inputs):
        call.fail(f"takes no complex numbers, got {x} and {filter}")
    if x.quantization is None:
        if x.dtype in QUANTIZED:
            call.fail(f"an input of {x.dtype.value} needs a scale and a zero point")
        return
    if (x.dtype, filter.dtype) not in PAIRS or filter.quantization is None:
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
    has_16_bits = call.x.dtype is DType.INT16
    if bias.dtype is not DType.INT32 and not (has_16_bits and bias.dtype is DType.INT64):
        call.fail(f"the bias of a quantised operation must be int32{' or int64' * has_16_bits}, got {bias}")
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
    call: Call,
    real: Callable[..., Array],
    axis: int,
    rounding: Rounding,
    x: Array,
    filter: Array,
    bias: Array | None = None,
) -> Array:
    """Compute the stored result of an op whose real reference is `real`; filter output channels at `axis`.

    The op's real reference computes the sums, which are exact (exact_type). A real input meets the real
    values of its quantised filter.
    """
    attrs = {k: v for k, v in call.attrs.items() if k != "activation"}
    if call.x.quantization is None:
        real_filter = dequantize(filter, call.input(1)).astype(x.dtype)
        biases = bias if bias is None or not call.input(2).quantization else dequantize(bias, call.input(2))
        return apply_activation(real(x, real_filter, biases, **attrs), call.attrs.get("activation"))
    how = rescaling(call, rounding)
    centred = filter.astype(np.float32) - np.float32(how.zero_w)
    low, high = LIMITS[call.x.dtype]
    exact = exact_type(centred, axis, max(high - how.zero_x, how.zero_x - low))
    sums = real(x.astype(exact) - exact.type(how.zero_x), centred.astype(exact, copy=False), None, **attrs)
    return _stored(call, how, sums, 0 if bias is None else bias.astype(np.int64))


def has_int64_sums(call: Call) -> bool:
    """Tell whether sums have 64 bits: those of 16-bit inputs, except with a 32-bit bias."""
    return call.x.dtype is DType.INT16 and not (call.has(2) and call.input(2).dtype is DType.INT32)


def _stored(call: Call, how: Rescaling, sums: Array, bias: Array | int) -> Array:
    """Convert sums of products to stored results, in blocks that stay in the CPU's cache."""
    channels = sums.shape[-1]
    rows = sums.reshape(-1, channels) if channels else sums.reshape(0, 0)
    result = np.empty(rows.shape, call.y.dtype.numpy)
    away = np.arange(channels) >= how.upwards
    block = max(1, BLOCK // max(1, channels))
    in_int64 = has_int64_sums(call)
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        total = rows[part].astype(np.int64) + bias
        factors = how.multiplier, how.shift
        rescaled = rescale_int64(total, *factors) if in_int64 else rescale(total, *factors, away)
        result[part] = store(rescaled + how.zero_y, call.y, how.bounds)
    return result.reshape(sums.shape)


def exact_type(filter: Array, axis: int, largest: int) -> np.dtype[Any]:
    """Return the narrowest float type in which sums of integers up to `largest` times the filter are exact.

    No partial sum, in any order, exceeds `largest` times the sum of a channel's absolute weights; float32
    counts to 2^24, float64 to 2^53, which no filter reaches.
    """
    others = tuple(k for k in range(filter.ndim) if k != axis)
    reach = largest * np.abs(filter).sum(axis=others, dtype=np.float64).max(initial=0)
    return np.dtype(np.float32 if reach < 2**24 else np.float64)
