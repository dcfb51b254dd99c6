"""softmax of quantised tensors in 32-bit fixed point, as in TFLite's reference kernel (softmax.h).

The exponential of an element depends on its distance from the row's maximum, so a table of 256 contains all
exponentials. Their sum has steps of 2^-19; its reciprocal comes from Newton's iteration. Formulas: gemmlowp,
fixedpoint.h, exp_on_negative_values and one_over_one_plus_x_for_x_in_0_1. A number with n integer bits has
steps of 2^(n - 31). Sums of long rows, which TFLite's kernel does not take, are exact in 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import integer_loops
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.compiled.sharing import OF_EXPONENTIALS, rows_divided
from gpunn.ops.fixed_point.affine import (
    LIMITS,
    divide_by_power,
    high_multiply,
    quantize_multiplier,
    rescale,
    scale_of,
    store,
)
from gpunn.ops.fixed_point.tables import KEPT
from gpunn.ops.memory import empty
from gpunn.ops.normalization.rows import IntegerRows, as_31_bits
from gpunn.types import Array

ONE = 2**31 - 1
DIFFERENCE_BITS = 5  # integer bits of a scaled difference: exp(-32) counts as 0
SUM_BITS = 12  # integer bits of a sum of exponentials
MOST = 2**SUM_BITS - 1  # elements of a row whose sum cannot overflow these
FEW_NUMBERS = 20  # of a row for which Python's numbers take less time than arrays
AT_ONCE = 1 << 16  # elements of rows
FEW_ROWS = 4  # that take less time one by one than as arrays
# Newton's iteration for 1 / x, x in 1/2 ... 1, begins at START - SLOPE x.
START = round(48 / 17 * 2**29)
SLOPE = round(32 / 17 * 2**29)


def _why_not(call: Call) -> str:
    scale, zero = scale_of(call, call.y)
    if (scale, zero) != (1 / 256, LIMITS[call.y.dtype][0]):
        return "integer softmax yields 256 steps from 0 to 1, another output quantisation is declared"
    return ""


def differences(call: Call) -> tuple[Array, Array]:
    """List 0, -1, ... -255 steps below a row's maximum, with DIFFERENCE_BITS, and which of them count."""
    return _differences(*_scales(call))


def _scales(call: Call) -> tuple[float, float]:
    return scale_of(call, call.x)[0], float(call.attrs.get("beta", 1.0))


def _differences(scale: float, beta: float) -> tuple[Array, Array]:
    factor = min(beta * float(np.float32(scale)) * 2 ** (31 - DIFFERENCE_BITS), ONE)
    multiplier, shift = quantize_multiplier(factor)
    radius = math.floor(float((2**DIFFERENCE_BITS - 1) * 2 ** (31 - DIFFERENCE_BITS)) / 2.0**shift)
    steps = -np.arange(256, dtype=np.int64)
    known = steps >= -radius
    return rescale(np.where(known, steps, 0), multiplier, shift), known


def exponentials(call: Call) -> Array:
    """List exp of 0, -1, ... -255 steps below a row's maximum, as int32 with no integer bits."""
    return _exponentials(*_scales(call))


@lru_cache(KEPT)
def _exponentials(scale: float, beta: float) -> Array:
    scaled, known = _differences(scale, beta)
    table: Array = np.where(known, _exp(scaled), 0).astype(np.int32)
    table.flags.writeable = False  # whoever asks gets this array
    return table


def _exp(x: Array) -> Array:
    """Compute exp of x <= 0 with DIFFERENCE_BITS integer bits.

    The remainder of x to a multiple of 1/4 goes through a Taylor series, and each higher bit is a factor.
    """
    quarter = 2 ** (29 - DIFFERENCE_BITS)
    rest = (x & (quarter - 1)) - quarter
    result = _exp_of_quarter(rest << DIFFERENCE_BITS)
    for exponent in range(-2, DIFFERENCE_BITS):
        factor = round(math.exp(-(2.0**exponent)) * 2**31)
        bit = quarter << (exponent + 2)
        result = np.where((rest - x) & bit, high_multiply(result, factor), result)
    return np.where(x == 0, ONE, result)


def _exp_of_quarter(x: Array) -> Array:
    """Compute exp of x in [-1/4, 0), expanded around -1/8 to the fourth power."""
    constant = round(math.exp(-1 / 8) * 2**31)
    x = x + 2**28
    square = high_multiply(x, x)
    cube, fourth = high_multiply(square, x), high_multiply(square, square)
    thirds = high_multiply(divide_by_power(fourth, 2) + cube, round(2**31 / 3)) + square
    return np.asarray(np.minimum(constant + high_multiply(x + divide_by_power(thirds, 1), constant), ONE))


def leading_zeros(x: Array) -> Array:
    """Count the zero bits before the first one bit of positive 32-bit numbers."""
    return np.asarray(32 - np.frexp(x.astype(np.float64))[1].astype(np.int64))


def over(half: Array) -> Array:
    """Compute 1 / x with no integer bits, from half of an x from 1 to 2."""
    if half.size > FEW_ROWS:
        return np.asarray(np.minimum(_newton(half, high_multiply), ONE))
    found = [min(_newton(number, _multiply), ONE) for number in half.reshape(-1).tolist()]
    return np.array(found, np.int64).reshape(half.shape)


def _newton(half: Any, high_multiply: Callable[[Any, Any], Any]) -> Any:
    x = START + high_multiply(half, -SLOPE)
    for _ in range(3):
        x = x + (high_multiply(x, 2**29 - high_multiply(half, x)) << 2)
    return x << 1


def _multiply(a: int, b: int) -> int:
    """Compute high_multiply() of two numbers."""
    return min((a * b + 2**30) >> 31, ONE)


def sum_of_row(call: Call, below: Array) -> tuple[Array, Array]:
    """Return the sum of the exponentials of each row, and how many of its 31 bits are integer bits.

    below: the distances of the elements from the row's maximum.
    """
    weights, terms = _weights(*_scales(call))
    wide = below.shape[call["axis"]] > MOST
    total = (weights if wide else terms)[below].sum(axis=call["axis"], keepdims=True)
    return as_31_bits(total) if wide else (total, np.array(SUM_BITS))


def _each(total: Array, bits: Array) -> tuple[Any, Any]:
    """Return by how many bits each total is too large for a quotient of 31 bits, and its reciprocal."""
    leading = leading_zeros(total)
    return bits - leading, over(total << (leading - 1))


def _only(total: Array, bits: Array) -> tuple[int, int]:
    """Compute _each() of one total: Python's numbers take less time than arrays of one."""
    return _of_number(int(total.item()), int(bits.item()))


def _of_number(total: int, bits: int) -> tuple[int, int]:
    leading = 32 - total.bit_length()
    return bits - leading, min(_newton(total << (leading - 1), _multiply), ONE)


def shares(weights: Array, total: Array, bits: Array, fraction: int) -> Array:
    """Return weights, with no integer bits, over a total of about 1 or more, in steps of 2^-fraction."""
    down, reciprocal = _only(total, bits) if total.size == 1 else _each(total, bits)
    down += 31 - fraction
    found = high_multiply(weights, reciprocal)
    # Nothing is negative, so halves that go away from zero go upwards.
    return np.asarray((found + (np.int64(1) << (down - 1))) >> down)


def _reference(call: Call, x: Array) -> Array:
    if not x.size:
        return x
    weights, _ = _weights(*_scales(call))
    below = x.max(axis=call["axis"], keepdims=True).astype(np.int64) - x
    found = shares(weights[below], *sum_of_row(call, below), 8)
    return store(found + LIMITS[call.y.dtype][0], call.y, LIMITS[call.y.dtype])


def _prepared(call: Call) -> Callable[[Array], Array]:
    """Return the reference for many runs of a call; rows whose sums have 31 bits need fewer steps."""
    axis, rank = call.axis(call["axis"], call.x.rank), call.x.rank
    if not 0 < call.x.shape[axis] <= MOST:
        return partial(_reference, call)
    weights, terms = _weights(*_scales(call))
    single = call.x.size == call.x.shape[axis]
    bits, lowest = np.array(SUM_BITS), np.uint8(LIMITS[call.y.dtype][0] % 256)
    dtype, length = call.y.dtype.numpy, call.x.shape[axis]
    known = int(np.flatnonzero(weights).max(initial=0)) + 1
    tables = weights[:known].copy(), terms[:known].copy()

    def by_loop(x: Array) -> Array:
        loops = integer_loops()
        if loops is None:
            return otherwise(x)
        result = empty(x.shape, dtype)
        source, target = x.reshape(-1, length), result.reshape(-1, length)
        parts = rows_divided(len(source), x.size, each=OF_EXPONENTIALS)
        ends = LIMITS[call.y.dtype][0]
        loops.softmax(parts, source, *tables, (START, SLOPE), (SUM_BITS, 8), ends, target)
        return of_loops(result)

    def rows(x: Array, axis: int) -> Array:
        below = (x.max(axis, keepdims=True) - x).view(np.uint8)  # at most 255: the lower 8 bits are all of it
        found = shares(weights.take(below), terms.take(below).sum(axis, keepdims=True), bits, 8)
        results = np.minimum(found, 255).astype(np.uint8)
        return (results + lowest).view(dtype)

    in_blocks = axis == rank - 1 and call.x.size > AT_ONCE
    otherwise: Callable[[Array], Array] = partial(_in_blocks, rows) if in_blocks else partial(rows, axis=axis)
    if single and call.x.size <= FEW_NUMBERS:
        otherwise = _row_of_numbers(call, weights.tolist(), terms.tolist())
    return by_loop if axis == rank - 1 else otherwise


def _in_blocks(compute: Callable[[Array, int], Array], x: Array) -> Array:
    """Compute rows along the last axis, some at a time: what they need is large."""
    result = empty(x.shape, x.dtype)
    rows, found = x.reshape(-1, x.shape[-1]), result.reshape(-1, x.shape[-1])
    step = max(1, AT_ONCE // x.shape[-1])
    for first in range(0, len(rows), step):
        found[first : first + step] = compute(rows[first : first + step], 1)
    return result


def _row_of_numbers(call: Call, weights: list[int], terms: list[int]) -> Callable[[Array], Array]:
    """Return the reference for a single row of so few elements that Python's numbers take less time."""
    shape, dtype, lowest = call.x.shape, call.y.dtype.numpy, LIMITS[call.y.dtype][0]

    def row(x: Array) -> Array:
        stored = x.reshape(-1).tolist()
        top = max(stored)
        below = [top - value for value in stored]
        down, reciprocal = _of_number(sum([terms[k] for k in below]), SUM_BITS)
        down += 31 - 8
        half = 1 << (down - 1)
        found = [(_multiply(weights[k], reciprocal) + half) >> down for k in below]
        return np.array([min(share, 255) + lowest for share in found], dtype).reshape(shape)

    return row


@lru_cache(KEPT)
def _weights(scale: float, beta: float) -> tuple[Array, Array]:
    """List exponentials() as int64, and what each adds to a sum."""
    weights = _exponentials(scale, beta).astype(np.int64)
    return weights, divide_by_power(weights, SUM_BITS)


def softmax_functions(call: Call) -> dict[str, str]:
    """Return the functions of shaders/normalize.wgsl; they read `table` and call lib/softmax.wgsl."""
    low, high = LIMITS[call.y.dtype]
    wide = INTEGER.wide(call)
    total = "wide_total(sum, upper)" if wide else f"Total(sum, {SUM_BITS})"
    over = f"over_total({total})" if wide else "settled"
    return {
        "lowest": "T(-2147483648)",
        "measure": "x",
        "relative": "top - x",
        "term": "load_table(u32(r))" if wide else f"divide_by_power(load_table(u32(r)), {SUM_BITS}u, true)",
        **({} if wide else {"settle": f"over_total({total})"}),
        "finish": f"min(softmax_share(load_table(u32(r)), {over}, {total}, 8) + ({low}), {high})",
    }


INTEGER = IntegerRows(
    _why_not, _reference, softmax_functions, ("softmax",), MOST, table=exponentials, prepare=_prepared
)
