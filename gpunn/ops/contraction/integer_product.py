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
from gpunn.ops.contraction.prepared import Sums, kept
from gpunn.ops.contraction.product_rescaling import Rescaling, Rounding, Steps, rescaling
from gpunn.ops.contraction.requantization import Conversion, ManySteps, by_block, few_steps
from gpunn.ops.elementwise.unary import apply_activation
from gpunn.ops.fixed_point.affine import (
    LIMITS,
    activation_bounds,
    dequantize,
    rescale,
    rescale_int64,
    rescale_upwards,
    rescale_whole,
    scale_of,
)
from gpunn.ops.memory import empty
from gpunn.types import Array, DType, Quantization

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
    allowed = [DType.INT32, *([DType.INT64] if call.x.dtype is DType.INT16 else [])]
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
    call: Call,
    real: Callable[..., Array],
    axis: int,
    rounding: Rounding,
    sums: Callable[[Array], Sums] | None = None,
) -> Callable[..., Array]:
    """Return what computes the stored result of an op whose real reference is `real`, from stored operands.

    `axis`: of the filter's output channels. `sums`: makes what computes the sums of a filter, which are exact
    (_reach); without it the op's real reference does. A real input meets the real values of its quantised
    filter.
    """
    attrs = {k: v for k, v in call.attrs.items() if k != "activation"}
    if call.x.quantization is None:
        return lambda x, filter, bias=None: _of_reals(call, real, attrs, x, filter, bias)
    how = rescaling(call, rounding)

    def by_reference(filter: Array) -> Sums:
        return lambda x: real(x, filter, None, **attrs)

    weights = kept(call, partial(_Weights.of, call, how, axis, sums or by_reference))

    def compute(x: Array, filter: Array, bias: Array | None = None) -> Array:
        made = weights(filter, bias)
        exact = made.exact
        centred = np.subtract(x, exact.type(how.zero_x), out=empty(x.shape, exact), dtype=exact)
        return by_block(call, made.sums(centred), made.conversion)

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
    """Values kept for a filter and a bias: a type with exact sums, their function, and its conversion."""

    exact: np.dtype[Any]
    sums: Sums
    conversion: Conversion

    @classmethod
    def of(
        cls,
        call: Call,
        how: Rescaling,
        axis: int,
        sums: Callable[[Array], Sums],
        filter: Array,
        bias: Array | None,
    ) -> _Weights:
        """Return what follows from a filter and a bias."""
        centred = filter.astype(np.float32) - np.float32(how.zero_w)
        low, high = LIMITS[call.x.dtype]
        reach = _reach(centred, axis, max(high - how.zero_x, how.zero_x - low))
        biases = np.zeros(1, np.int64) if bias is None else bias.astype(np.int64)
        exact = centred.astype(np.float32 if reach < 2**24 else np.float64, copy=False)
        conversion: Conversion
        if how.steps is not Steps.TWICE:
            conversion = ManySteps(call, how, partial(_rescaled_int64, how, biases))
        elif reach + float(np.abs(biases).max(initial=0)) < 2**31 and (how.shift <= 0).all():
            conversion = few_steps(call, how, biases)
        else:
            conversion = ManySteps(call, how, partial(_rescaled, how, biases))
        return cls(exact.dtype, sums(exact), conversion)


def _rescaled_int64(how: Rescaling, bias: Array, total: Array) -> Array:
    return _RESCALE_INT64[how.steps](total + bias, how.multiplier, how.shift)


_RESCALE_INT64 = {
    Steps.SHORT: rescale_int64,
    Steps.WHOLE: rescale_whole,
    Steps.UPWARDS: rescale_upwards,
}


def _rescaled(how: Rescaling, bias: Array, total: Array) -> Array:
    """Rescale sums that may leave 32 bits, and then wrap around, also by factors above 1."""
    return rescale(total + bias, how.multiplier, how.shift, np.arange(total.shape[1]) >= how.upwards)


def _reach(filter: Array, axis: int, largest: int) -> float:
    """Return a bound of all partial sums, in any order, of integers up to `largest` times the filter.

    It is `largest` times the sum of a channel's absolute weights. float32 counts to 2^24, float64 to 2^53,
    which no filter reaches.
    """
    others = tuple(k for k in range(filter.ndim) if k != axis)
    return float(largest * np.abs(filter).sum(axis=others, dtype=np.float64).max(initial=0))
