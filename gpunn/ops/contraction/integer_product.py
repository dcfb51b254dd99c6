"""Integer sums of products: the common part of quantised conv2d, depthwise_conv2d and fully_connected.

y = zy + rescale(sum of (x - zx) * (w - zw) + bias, sx * sw / sy), clamped to the fused activation, where s
and z are scales and zero points: Jacob et al., Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference, section 2. The filter may have a scale for each output channel; the bias is
int32 in steps of sx * sw. product_rescaling.py converts the sums to results; product_kernel.py has the GPU's
kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, QUANTIZED
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.contraction.blocks import AtOnce, Block, Room, Sums, Terms
from gpunn.ops.contraction.conversion import Conversion
from gpunn.ops.contraction.prepared import Sum, constants_only, of_operands
from gpunn.ops.contraction.product_rescaling import Rescaling, Rounding, Steps, rescaling
from gpunn.ops.contraction.proven_numbers import EXACT
from gpunn.ops.contraction.requantization import ManySteps, few_steps, only_loops, results_of
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
from gpunn.ops.memory import empty, scratch
from gpunn.ops.op import EIGHT_BITS, KernelFunction, Quantized
from gpunn.types import Array, DType, Quantization, Shape, TensorType

MIXED = (DType.UINT8, DType.INT8)
PAIRS = (
    (DType.UINT8, DType.UINT8),
    (DType.INT8, DType.INT8),
    MIXED,
    (DType.INT16, DType.INT8),
)  # input, filter
BIAS_TOLERANCE = 1e-3  # by which a bias's scale may miss input * filter: files state all three as float32
# Makes, of a filter and a bias, what computes the stored result from x.
MakeProduct = Callable[..., Callable[[Array], Array]]
_TINY = float(np.finfo(np.float32).tiny)  # scales below have fewer digits; those of dead channels do


def check_types(call: Call, axis: int, more: tuple[tuple[DType, DType], ...] = ()) -> None:
    """Raise ModelError unless input, filter (with its output channels at `axis`) and bias fit together.

    Their types are one of PAIRS or of `more`. Reals pass, also with a quantised filter.
    """
    x, filter = call.x, call.input(1)
    if any(t is not None and t.dtype is DType.COMPLEX64 for t in call.inputs):
        call.fail(f"takes no complex numbers, got {x} and {filter}")
    if x.quantization is None:
        if x.dtype in QUANTIZED:
            call.fail(f"an input of {x.dtype.value} needs a scale and a zero point")
        if x.dtype not in FLOATS or (filter.quantization is None and filter.dtype not in FLOATS):
            call.fail(f"takes reals or quantised numbers, got {x} and a filter of {filter}")
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
    sums: Sum | None = None,
) -> MakeProduct:
    """Return what computes the stored result of an op whose real reference is `real`.

    `axis`: of the filter's output channels. `sums`: makes the sums of a filter, which are exact (_Weights);
    without it the op's real reference does. A real input meets the real values of its quantised filter.
    """
    attrs = {k: v for k, v in call.attrs.items() if k != "activation"}
    if call.x.quantization is None:
        return lambda filter, bias=None: partial(_of_reals, call, real, attrs, filter, bias)
    how = rescaling(call, rounding)

    def by_reference(filter: Array, terms: Terms) -> Sums:
        return _Whole(lambda x: real(x, filter, None, **attrs), terms)

    def bind(filter: Array, bias: Array | None = None) -> Callable[[Array], Array]:
        made = _Weights.of(call, how, axis, sums or by_reference, sums is not None, filter, bias)
        return made.product(call.y)

    return bind


def quantized_product(
    make: Callable[[Call], MakeProduct],
    kernel: KernelFunction,
    check: Callable[[Call], Any] | None = None,
) -> Quantized:
    """Return the integer arithmetic of an op by integer_product() of a call."""

    def prepare(call: Call) -> Callable[..., Array]:
        return of_operands(call, make(call))

    def bind(call: Call, *constants: Array | None) -> Callable[[Array], Array]:
        return make(call)(*constants)

    return Quantized.prepared(prepare, kernel, check, QUANTIZED, bind)


class _Whole(NamedTuple):
    """The sums that a function computes of terms, all in one block."""

    function: Callable[[Array], Array]
    terms: Terms
    finished: bool = False
    of_loops: bool = False

    def __call__(self, x: Array, room: Room) -> Iterator[Block]:
        """Yield the sums of x, wherever they are."""
        terms = empty(x.shape, self.terms.dtype)
        self.terms.write(x, terms)
        sums = self.function(terms)
        pixels = math.prod(sums.shape[:-1])
        yield 0, pixels, sums.reshape(pixels, sums.shape[-1])

    def at_once(self, pixels: int) -> None:
        """Return None: the function has its own memory."""


def _of_reals(
    call: Call,
    real: Callable[..., Array],
    attrs: Mapping[str, Any],
    filter: Array,
    bias: Array | None,
    x: Array,
) -> Array:
    reals = dequantize(filter, call.input(1)).astype(x.dtype)
    biases = bias if bias is None or not call.input(2).quantization else dequantize(bias, call.input(2))
    return apply_activation(real(x, reals, biases, **attrs), call.attrs.get("activation"))


class _Weights(NamedTuple):
    """Values kept for a filter and a bias: a type with exact sums, these sums, and their conversion.

    at_once: as of Sums, for the pixels of the call. Sums that are finished have the type of the results, and
    need no conversion. kept: they are those of each run, of constants.
    """

    exact: np.dtype[Any]
    sums: Sums
    at_once: AtOnce | None
    conversion: Conversion | None
    kept: bool

    @classmethod
    def of(
        cls,
        call: Call,
        how: Rescaling,
        axis: int,
        sums: Sum,
        raw: bool,
        filter: Array,
        bias: Array | None,
    ) -> _Weights:
        """Return what follows from a filter and a bias.

        raw: `sums` may be those of x as it is stored; what its zero point adds is then a part of the bias.
        All partial sums, in any order, are at most the largest term times the sum of a channel's absolute
        weights. float32 counts to EXACT, float64 to 2^53, which no filter reaches.
        """
        centred = filter.astype(np.float32) - np.float32(how.zero_w)
        low, high = LIMITS[call.x.dtype]
        others = tuple(k for k in range(filter.ndim) if k != axis)
        totals = np.abs(centred).sum(axis=others, dtype=np.float64)
        most = float(totals.max(initial=0))
        reach = max(high - how.zero_x, how.zero_x - low) * most
        # A factor of 0 makes 0 of any sum, also of one that overflows: files give such channels any bias.
        biases = np.where(how.multiplier == 0, 0, 0 if bias is None else bias.astype(np.int64))
        within = _fit_32_bits(how, max(high - how.zero_x, how.zero_x - low) * totals + np.abs(biases))
        if raw and max(-low, high) * most < EXACT:
            terms = Terms(np.dtype(np.float32), around=how.zero_x, exact=True, most=max(-low, high))
            terms = terms._replace(raw=call.x.dtype in EIGHT_BITS)
            biases = biases - how.zero_x * centred.sum(axis=others, dtype=np.float64).astype(np.int64)
        else:
            dtype = np.dtype(np.float32 if reach < EXACT else np.float64)
            most = max(high - how.zero_x, how.zero_x - low)
            terms = Terms(dtype, how.zero_x, exact=True, most=most)
        ends = low - terms.subtracted, high - terms.subtracted
        reach_of = partial(_range, centred, others, ends)
        simple = within and how.steps is Steps.TWICE
        if simple and constants_only(call):
            terms = terms._replace(results=results_of(call, how, biases, reach_of))
        found = sums(centred.astype(terms.dtype, copy=False), terms)
        at_once = found.at_once(math.prod(call.y.shape[:-1]))
        if found.finished:
            return cls(call.y.dtype.numpy, found, at_once, None, constants_only(call))
        conversion: Conversion
        if how.steps is not Steps.TWICE:
            conversion = ManySteps(call, how, partial(_rescaled_int64, how, biases))
        elif within:
            conversion = few_steps(call, how, biases, terms.dtype, reach_of)
        else:
            conversion = ManySteps(call, how, partial(_rescaled, how, biases))
        return cls(terms.dtype, found, at_once, conversion, constants_only(call))

    def product(self, y: TensorType) -> Callable[[Array], Array]:
        """Return what computes the stored result from the stored x."""
        shape, dtype, exact, sums_of = y.shape, y.dtype.numpy, self.exact, self.sums
        rows, write = (math.prod(shape[:-1]), shape[-1]), self.at_once
        if self.conversion is None:
            return partial(self._finished, shape, dtype, rows)
        by_loops = self.kept and self.sums.of_loops and only_loops(self.conversion)
        convert = self.conversion.write

        def at_once(x: Array) -> Array:
            assert write is not None
            result = empty(shape, dtype)
            sums = scratch("sums", rows, exact)
            write(x, sums)
            convert(sums, result.reshape(rows))
            return of_loops(result) if by_loops else result

        def room(first: int, last: int) -> Array:
            return scratch("sums", (last - first, shape[-1]), exact)

        def in_blocks(x: Array) -> Array:
            result = empty(shape, dtype)
            pixels = result.reshape(rows)
            for first, last, sums in sums_of(x, room):
                convert(sums, pixels[first:last])
            return of_loops(result) if by_loops else result

        return in_blocks if write is None else at_once

    def _finished(self, shape: Shape, dtype: np.dtype[Any], rows: tuple[int, int], x: Array) -> Array:
        """Return the result of x by sums that are finished."""
        result = empty(shape, dtype)
        pixels = result.reshape(rows)
        if self.at_once is not None:
            self.at_once(x, pixels)
        else:
            for _ in self.sums(x, lambda first, last: pixels[first:last]):
                pass
        return of_loops(result) if self.kept and self.sums.of_loops else result


def _fit_32_bits(how: Rescaling, largest: Array) -> bool:
    """Tell whether the sums of each channel, which are at most so `largest`, fit 32 bits moved to the left.

    Those that are multiplied by 0 need not. Where sums move, two more bits are free: a bias that contains
    what the zero point adds is up to three times as large.
    """
    bits = np.where(how.shift > 0, how.shift + 2, 0)
    return bool(((largest * 2.0**bits < 2**31) | (how.multiplier == 0)).all())


def _range(weights: Array, axes: tuple[int, ...], ends: tuple[int, int]) -> tuple[Array, Array]:
    """Return the least and the greatest sum of each channel for terms between these ends."""
    ups, downs = (c(weights, np.float32(0)).sum(axes, np.float64) for c in (np.maximum, np.minimum))
    low, high = ends
    return ups * low + downs * high, ups * high + downs * low


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
