"""softmax of quantised int16, as in TFLite's reference kernel (softmax.h, SoftmaxInt16).

exp over -10 ... 0 and 1 / (1 + x) over 0 ... 1 come from interpolation tables of 513 points with 15 bits of
fraction (ops/fixed_point/interpolation.py). Elements that are 10 or more below a row's maximum count as
exp(-10). shaders/lib/softmax_int16.wgsl has the same for the GPU. Long rows, whose sums that would make too
large, have a table of all exponentials, with 31 bits of fraction, and exact sums.
"""

from __future__ import annotations

import functools

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.fixed_point.affine import quantize_multiplier, rescale, scale_of, store
from gpunn.ops.fixed_point.interpolation import between, points
from gpunn.ops.fixed_point.tables import KEPT
from gpunn.ops.normalization.rows import IntegerRows, as_31_bits
from gpunn.ops.normalization.softmax_integer import shares
from gpunn.types import Array

ONE = 2**15 - 1
RANGE = 10.0  # of the exponential's argument
MOST = 2**16 - 1  # elements of a row whose sum fits 31 bits; that of more is about 3 at least


def _why_not(call: Call) -> str:
    scale, zero = scale_of(call, call.y)
    if (scale, zero) != (2.0**-15, 0):
        return "integer softmax yields 2^15 steps from 0 to 1, another output quantisation is declared"
    return ""


@functools.cache
def _tables() -> tuple[Array, Array]:
    """Make the interpolation tables of exp(x), -10 ... 0, and of 1 / (1 + x), 0 ... 1."""
    return (
        points(np.exp, -RANGE, 0.0, 2.0**15, np.float64),
        points(lambda x: 1 / (1 + x), 0.0, 1.0, 2.0**15, np.float64),
    )


def _factor(call: Call) -> tuple[int, int]:
    """Return the factor from stored steps to steps of the exponential's argument."""
    scale, _ = scale_of(call, call.x)
    return quantize_multiplier(scale * float(call["beta"]) / (RANGE / (2**16 - 1)))


def _reference(call: Call, x: Array) -> Array:
    if not x.size:
        return x
    exponential, reciprocal = _tables()
    values = x.astype(np.int64)
    below = values - np.max(values, axis=call["axis"], keepdims=True)
    terms = between(_saturated(rescale(below, *_factor(call)) + ONE), exponential)
    total = np.sum(terms, axis=call["axis"], keepdims=True)
    digits = np.frexp(total.astype(np.float64))[1].astype(np.int64)
    leading = ((total << (31 - digits)) + (1 << 13)) >> 14
    inverse = between(_saturated(leading - 3 * 2**15), reciprocal)
    shares = (terms * inverse + (np.int64(1) << (digits - 2))) >> (digits - 1)
    return store(shares, call.y, (0, ONE))


def _saturated(x: Array) -> Array:
    return np.asarray(np.clip(x, -(2**15), ONE))


def _functions(call: Call) -> dict[str, str]:
    return {
        "lowest": "T(-32768)",
        "measure": "x",
        "relative": "clamp(rescale(x - top, p.factor.x, p.factor.y, true), -65535, 0)",
        "term": "int16_term(r)",
        "finish": "int16_share(int16_term(r), sum)",
    }


INTEGER = IntegerRows(
    _why_not,
    _reference,
    _functions,
    ("affine", "softmax_int16"),
    MOST,
    table=lambda call: np.concatenate(_tables()).astype(np.int32),
    params=lambda call: {"factor": (*_factor(call), 0, 0)},
)


@functools.lru_cache(KEPT)
def _exponentials(scale: float, beta: float) -> Array:
    """List exp of 0, -1, ... -65535 steps below a row's maximum, with 31 bits of fraction."""
    real = np.exp(-np.arange(2**16, dtype=np.float64) * scale * beta)
    table: Array = np.minimum(np.rint(real * 2**31), 2**31 - 1).astype(np.int32)
    table.flags.writeable = False  # whoever asks gets this array
    return table


def _table_of_long_rows(call: Call) -> Array:
    return _exponentials(scale_of(call, call.x)[0], float(call["beta"]))


def _reference_of_long_rows(call: Call, x: Array) -> Array:
    axis, values = call["axis"], x.astype(np.int64)
    weights = _table_of_long_rows(call).astype(np.int64)[np.max(values, axis=axis, keepdims=True) - values]
    total = as_31_bits(weights.sum(axis=axis, keepdims=True))
    return store(shares(weights, *total, 15), call.y, (0, ONE))


def _functions_of_long_rows(call: Call) -> dict[str, str]:
    total = "wide_total(sum, upper)"
    share = f"softmax_share(load_table(u32(r)), over_total({total}), {total}, 15)"
    own = {"relative": "top - x", "term": "load_table(u32(r))", "finish": f"min({share}, {ONE})"}
    return {**_functions(call), **own}


LONG = IntegerRows(
    _why_not, _reference_of_long_rows, _functions_of_long_rows, ("softmax",), 0, table=_table_of_long_rows
)
