"""log_softmax of 8-bit tensors in 32-bit fixed point, as in TFLite's reference kernel.

Exponentials and their sum are those of softmax_integer.py. The logarithm of the sum is that of a power of two
and of a quotient of polynomials. Formulas: TFLite, log_softmax.h, and log_x_for_x_greater_than_or_equal_to_1
of common.h. A number with n integer bits has steps of 2^(n - 31).
"""

from __future__ import annotations

import math

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.fixed_point.affine import LIMITS, divide_by_power, high_multiply, scale_of, store
from gpunn.ops.normalization.rows import IntegerRows
from gpunn.ops.normalization.softmax_integer import (
    MOST,
    ONE,
    SUM_BITS,
    differences,
    exponentials,
    leading_zeros,
    over,
    softmax_functions,
    sum_of_row,
)
from gpunn.types import Array

LOG_2, SQRT_HALF, CENTRE = (round(x * 2**31) for x in (math.log(2), 2**-0.5, 2**-0.25))
ABOVE = round(11 / 240 * 2**0.25 * 2**31)  # the coefficients of the polynomials around CENTRE
BELOW = tuple(round(x * 2**31) for x in (2**0.75 - 2**0.25, 2**0.25 / 20, 2**0.25 / 4))
LEAST = -(2**30)  # of a logarithm: -16


def _why_not(call: Call) -> str:
    if scale_of(call, call.y) != (16 / 256, LIMITS[call.y.dtype][1]):
        return "integer log_softmax yields 256 steps from -16 to 0, another output quantisation is declared"
    return ""


def logarithm(total: Array, bits: Array) -> Array:
    """Compute the logarithm, with DIFFERENCE_BITS integer bits, of `total` of about 1 or more.

    The total is 2^p r with r near CENTRE; p + 1/4 is the larger of two candidates, in steps of 2^-25.
    """
    leading = leading_zeros(total)
    headroom = leading_zeros(high_multiply(total, SQRT_HALF)) - 1
    shorter = high_multiply(total << (leading - 1), SQRT_HALF) << 1
    r = np.minimum(np.minimum(shorter, total << headroom), ONE)
    power = np.maximum(
        ((bits - leading) << 25) + 2**23,
        ((bits - headroom) << 25) - 2**23,
    )
    middle, apart = (r + CENTRE + 1) >> 1, (r - CENTRE) << 1
    square = high_multiply(apart, apart)
    above = high_multiply(apart, r) + high_multiply(high_multiply(apart, square), ABOVE)
    below = high_multiply(middle, BELOW[0] + apart + high_multiply(square, BELOW[1]))
    below = below + high_multiply(apart, BELOW[2])
    quotient = high_multiply(divide_by_power(above, 6), over((below + 2**31) >> 1))
    return (high_multiply(power, LOG_2) + quotient) << 1


def _table(call: Call) -> Array:
    """List exponentials(), then their logarithms with DIFFERENCE_BITS; differences that do not count are
    LEAST.
    """
    scaled, known = differences(call)
    logarithms = np.where(known, np.maximum(scaled, LEAST), LEAST)
    return np.concatenate([exponentials(call), logarithms.astype(np.int32)])


def _reference(call: Call, x: Array) -> Array:
    if not x.size:
        return x
    _, logarithms = _table(call).astype(np.int64).reshape(2, 256)
    values = x.astype(np.int64)
    below = np.max(values, axis=call["axis"], keepdims=True) - values
    low, high = LIMITS[call.y.dtype]
    results = divide_by_power(logarithms[below] - logarithm(*sum_of_row(call, below)), 22)
    return store(results + high, call.y, (low, high))


def _functions(call: Call) -> dict[str, str]:
    low, high = LIMITS[call.y.dtype]
    wide = INTEGER.wide(call)
    sum = f"log_of_sum(Total(sum, {SUM_BITS}))"
    if wide:  # -16 less a sum of more than 16 leaves 32 bits, and gives the lowest result
        sum = f"min(log_of_sum(wide_total(sum, upper)), {-LEAST})"
    own = {} if wide else {"settle": sum}
    result = f"divide_by_power(load_table(256u + u32(r)) - {sum if wide else 'settled'}, 22u, true)"
    return {**softmax_functions(call), **own, "finish": f"clamp({result} + {high}, {low}, {high})"}


INTEGER = IntegerRows(_why_not, _reference, _functions, ("softmax",), MOST, table=_table)
