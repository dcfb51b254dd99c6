"""Integer arithmetic of reductions of quantised tensors: mean, reduce_sum, reduce_prod.

A mean multiplies the sum of stored values in fixed point, or their mean if the sum may need more than 32
bits. A sum is multiplied in float32 and rounded, as in TFLite's default kernels; this function never falls as
the sum grows, so the GPU looks up which step of the result the sum reaches. A product is scaled to 32 bits
after every factor, by a factor of its own, in the order of the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from gpunn.kernel import Param, Read, size_of
from gpunn.ops.call import Call
from gpunn.ops.check import expect_axes
from gpunn.ops.fixed_point.affine import (
    LIMITS,
    quantize_multiplier,
    ratio,
    rescale,
    rescale_int64,
    round_half_away,
    scale_of,
    short_multiplier,
    store,
    times,
)
from gpunn.ops.op import EIGHT_BITS
from gpunn.ops.reduction.host_sums import OfSums, least_sums, stored_total, sums_in_loop
from gpunn.types import Array, DType

_FAR = 2.0**30  # zero points beyond it would not fit 32 bits
_MOST = 2**31 - 1  # of a product's magnitude
_LONG = 62  # bits of a sum of any number of terms
_NONE = -(2**31)  # stands for a product of nothing so far


@dataclass(frozen=True, slots=True)
class Folding:
    """The functions of a reduction's kernel: expressions as in reduce.Reduction, and the operands that they
    read.

    `enter`: what makes an accumulator, of dtype `accumulator` where it is not the result's, of a term.
    `ordered`: the terms must be joined one after the other. `most`: how many terms one accumulator holds, if
    not all; `last` then folds the results of parts of so many terms.
    """

    initial: float
    fold: str
    finish: str = "acc"
    libraries: tuple[str, ...] = ()
    params: Mapping[str, Param] = field(default_factory=dict)
    tables: tuple[Read, ...] = ()
    constants: Mapping[str, int] = field(default_factory=dict)
    ordered: bool = False
    enter: str = "x"
    accumulator: DType | None = None
    most: int = 0
    last: Folding | None = None


class Integer(NamedTuple):
    """An op's integer arithmetic: its reference for many runs of a call, kernel, and why these do not serve a
    call (empty: they do).

    The kernel depends on how many lanes its vectors have.
    """

    prepare: Callable[[Call], Callable[[Array], Array]]
    folding: Callable[[Call, int], Folding]
    why_not: Callable[[Call], str]


def reduced_axes(call: Call) -> tuple[int, ...]:
    """Return the reduced axes, in order."""
    return expect_axes(call, call["axes"], call.x.rank)


def _count(call: Call) -> int:
    """Return how many elements one element of the result combines."""
    return size_of(tuple(call.x.shape[axis] for axis in reduced_axes(call)))


def _fitting(call: Call) -> int:
    """Return how many stored values have a sum that fits 32 bits, whatever they are."""
    low, high = LIMITS[call.x.dtype]
    return (_MOST - 1) // (high - low)


# ---- mean

_QUOTIENT = "i64_truncated_quotient(acc, i64_from_i32(i32(p.count)))"
_INT64_MEAN = Folding(0, "i64_add(acc, x)", _QUOTIENT, ("int64_division",))

# Means of integers that stand for themselves.
WHOLE_MEAN: Mapping[DType, Folding] = {
    DType.INT64: _INT64_MEAN,
    DType.INT32: replace(
        _INT64_MEAN, finish=f"i64_to_i32({_QUOTIENT})", enter="i64_from_i32(x)", accumulator=DType.INT64
    ),
}


class _MeanRescaling(NamedTuple):
    """The conversion of a sum of stored values to a mean: after + rescale(sum - before, m, shift).

    upwards: for how many of the last dimension's results, the first ones, halves are rounded upwards.
    """

    m: int
    shift: int
    before: int
    after: int
    upwards: int = 0


def _mean_rescaling(call: Call) -> _MeanRescaling:
    """Return the rescaling of TFLite's QuantizedMeanOrSum (reference/reduce.h), or of its Mean over an image.

    The former divides the multiplier by the count, which a power of two brings near it, and rounds down.
    """
    (scale, zero), (to_scale, to_zero) = scale_of(call, call.x), scale_of(call, call.y)
    count = _count(call)
    shifted = ratio(times(zero, scale), to_scale)
    if _over_image(call) and abs(shifted) < _FAR:
        return _image_mean_rescaling(call, shifted)
    m, shift = quantize_multiplier(scale / to_scale)
    up = min(count.bit_length() - 1, 31 + shift)
    return _MeanRescaling((m << up) // count, shift - up, count * zero, to_zero)


def _over_image(call: Call) -> bool:
    """Tell whether an 8-bit mean is over height and width and keeps them: TFLite has a kernel for it."""
    return (
        call.x.dtype in EIGHT_BITS
        and call.x.rank == 4
        and reduced_axes(call) == (1, 2)
        and bool(call["keep_dims"])
    )


def _image_mean_rescaling(call: Call, shifted: float) -> _MeanRescaling:
    """Return the rescaling of optimized_integer_ops::Mean: in float32, zero points added after the product.

    shifted: x's zero point in the result's scale. Vector instructions take sixteen channels at a time and
    round upwards.
    """
    (scale, _), (to_scale, to_zero) = scale_of(call, call.x), scale_of(call, call.y)
    m, shift = quantize_multiplier(ratio(scale, times(_count(call), to_scale)))
    nearest = np.trunc(np.float32(shifted) + np.float32(0.5 if shifted > 0 else -0.5))
    channels = call.x.shape[3]
    return _MeanRescaling(m, shift, 0, to_zero - int(nearest), channels - channels % 16)


def _mean(call: Call) -> Callable[[Array], Array]:
    if _count(call) > _fitting(call):
        return partial(_long_mean, call)
    how, total, y = _mean_rescaling(call), stored_total(call, reduced_axes(call)), call.y
    away = np.arange(y.shape[-1]) >= how.upwards if how.upwards else True

    def mean(x: Array) -> Array:
        rescaled = rescale(total(x) - how.before, how.m, how.shift, away)
        return store(rescaled + how.after, y, LIMITS[y.dtype])

    low, high = LIMITS[call.x.dtype]
    largest = max(abs(_count(call) * end - how.before) for end in (low, high))
    if how.m < 0 or largest << max(how.shift, 0) > _MOST:  # where fixed point would wrap around
        return mean

    def stored(sums: Array, first: bool) -> Array:
        return store(rescale(sums - how.before, how.m, how.shift, not first) + how.after, y, LIMITS[y.dtype])

    factor = how.m * 2.0 ** (how.shift - 31)
    results = OfSums(stored, how.upwards, factor, 0.5 + how.after - how.before * factor)
    return sums_in_loop(call, reduced_axes(call), results, mean)


def _long_factor(call: Call) -> tuple[int, tuple[int, int], int]:
    """Return the factor of means of many terms: bits of fraction, (m, shift), and what is subtracted before.

    TFLite adds up in 32 bits, which overflow. Here a sum of 64 bits is divided to a mean with as many bits of
    fraction as 31 bits hold, and this is rescaled.
    """
    (scale, zero), (to_scale, _) = scale_of(call, call.x), scale_of(call, call.y)
    low, high = LIMITS[call.x.dtype]
    fraction = 30 - (high - low).bit_length()
    return fraction, quantize_multiplier(scale / to_scale / 2**fraction), _count(call) * zero


def _long_mean(call: Call, x: Array) -> Array:
    fraction, factor, before = _long_factor(call)
    total = (stored_total(call, reduced_axes(call))(x) - before) << fraction
    mean = np.sign(total) * (np.abs(total) // _count(call))
    return store(rescale(mean, *factor) + scale_of(call, call.y)[1], call.y, LIMITS[call.y.dtype])


def _long_mean_folding(call: Call) -> Folding:
    fraction, (m, shift), before = _long_factor(call)
    to_zero = scale_of(call, call.y)[1]
    low, high = (limit - to_zero for limit in LIMITS[call.y.dtype])
    total = f"i64_shift_left(i64_subtract(acc, p.before), {fraction}u)"
    mean = f"i64_to_i32(i64_truncated_quotient({total}, i64_from_i32(i32(p.count))))"
    last = Folding(
        0,
        "i64_add(acc, x)",
        f"clamp(rescale({mean}, p.factor.x, p.factor.y, true), p.bounds.x, p.bounds.y) + p.factor.w",
        ("affine", "int64_division"),
        {
            "factor": (m, shift, 0, to_zero),
            "bounds": (low, high, 0, 0),
            "before": (before % 2**32, before % 2**64 >> 32),
        },
        enter="i64_from_i32(x)",
        accumulator=DType.INT64,
    )
    return Folding(0, "acc + x", most=_fitting(call), last=last)


def _mean_folding(call: Call, lanes: int) -> Folding:
    if _count(call) > _fitting(call):
        return _long_mean_folding(call)
    how = _mean_rescaling(call)
    low, high = (limit - how.after for limit in LIMITS[call.y.dtype])
    away = "place % p.channels.x >= p.channels.y"
    scaled = f"rescale(acc - p.factor.z, p.factor.x, p.factor.y, {away})"
    return Folding(
        0,
        "acc + x",
        f"clamp({scaled}, p.bounds.x, p.bounds.y) + p.factor.w",
        ("affine",),
        {
            "factor": (how.m, how.shift, how.before, how.after),
            "bounds": (low, high, 0, 0),
            "channels": (call.x.shape[-1] // lanes if how.upwards else 1, how.upwards // lanes, 0, 0),
        },
    )


# ---- sum


def _stored_sum(call: Call, total: Array) -> Array:
    """Convert sums of stored values to stored results, as QuantizedMeanOrSum of TFLite's default kernels."""
    (scale, zero), (to_scale, to_zero) = scale_of(call, call.x), scale_of(call, call.y)
    factor = np.float32(ratio(scale, to_scale))
    with np.errstate(over="ignore", invalid="ignore"):
        bias = np.float32(-zero) * factor * np.float32(_count(call))
        nearest = np.nan_to_num(round_half_away(total.astype(np.float32) * factor + bias))
    return store(nearest.astype(np.float64) + to_zero, call.y, LIMITS[call.y.dtype])


def _sum(call: Call) -> Callable[[Array], Array]:
    total, (scale, zero), (to_scale, to_zero) = (
        stored_total(call, reduced_axes(call)),
        scale_of(call, call.x),
        scale_of(call, call.y),
    )
    factor = ratio(scale, to_scale)
    stored, summand = partial(_stored_sum, call), 0.5 + to_zero - zero * factor * _count(call)
    results = OfSums(lambda sums, first: stored(sums), 0, factor, summand)
    return sums_in_loop(call, reduced_axes(call), results, lambda x: _stored_sum(call, total(x)))


def sum_thresholds(call: Call, bits: int = 32) -> Array:
    """Return for each stored result the smallest sum, of so many bits, that reaches it."""
    most = 2 ** (bits - 1)
    least = least_sums(partial(_stored_sum, call), call.y.dtype, (1 - most, most - 2))
    return np.array([1 - most, *least], np.int32 if bits == 32 else np.int64)


def _sum_folding(call: Call, _: int) -> Folding:
    least = sum_thresholds(call)
    folding = Folding(
        0,
        "acc + x",
        f"{LIMITS[call.y.dtype][0]} + i32(reached(acc))",
        ("steps",),
        tables=(Read("least", None, value=least),),
        constants={"HALF": len(least) // 2},
    )
    if _count(call) <= _fitting(call):
        return folding
    long = replace(
        folding,
        fold="i64_add(acc, x)",
        libraries=("long_steps",),
        tables=(Read("least", None, value=sum_thresholds(call, _LONG)),),
        enter="i64_from_i32(x)",
        accumulator=DType.INT64,
    )
    return Folding(0, "acc + x", most=_fitting(call), last=long)


# ---- product


def _why_no_product(call: Call) -> str:
    return "" if _count(call) else "the product of no elements"


def _product_factor(call: Call) -> tuple[int, int]:
    """Return the multiplier for each factor of a product, as TFLite's GetQuantProdScaling."""
    (scale, _), (to_scale, _) = scale_of(call, call.x), scale_of(call, call.y)
    return quantize_multiplier(scale / to_scale ** (1 / _count(call)))


def _product(call: Call, x: Array) -> Array:
    """Compute as QuantizedReduceProd (reference/reduce.h), except that 32-bit overflow saturates."""
    (_, zero), (_, to_zero) = scale_of(call, call.x), scale_of(call, call.y)
    factor, axes = _product_factor(call), reduced_axes(call)
    terms = np.moveaxis(x, axes, range(len(axes))).reshape(_count(call), *call.y.shape)
    product, *rest = terms.astype(np.int64) - zero
    for term in rest:
        product = np.clip(rescale_int64(product * term, *factor), -_MOST, _MOST)
    return store(rescale_int64(product, *factor) + to_zero, call.y, LIMITS[call.y.dtype])


def _product_folding(call: Call, _: int) -> Folding:
    zero, to_zero = scale_of(call, call.x)[1], scale_of(call, call.y)[1]
    m, shift = _product_factor(call)
    low, high = (limit - to_zero for limit in LIMITS[call.y.dtype])
    scaled = "rescale_int64(i64_product(acc, x - p.factor.z), p.factor.x, p.factor.y)"
    return Folding(
        _NONE,
        f"select(max({scaled}, {-_MOST}), x - p.factor.z, acc == p.bounds.z)",
        "clamp(rescale_int64(i64_from_i32(acc), p.factor.x, p.factor.y), p.bounds.x, p.bounds.y)"
        " + p.factor.w",
        ("affine_int64",),
        {"factor": (int(short_multiplier(m)), shift, zero, to_zero), "bounds": (low, high, _NONE, 0)},
        ordered=True,
    )


INTEGER: Mapping[str, Integer] = {
    "mean": Integer(_mean, _mean_folding, lambda call: "" if call.x.size else "the mean of no elements"),
    "reduce_prod": Integer(lambda call: partial(_product, call), _product_folding, _why_no_product),
    "reduce_sum": Integer(_sum, _sum_folding, lambda call: ""),
}
