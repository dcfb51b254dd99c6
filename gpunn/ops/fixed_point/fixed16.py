"""Logistic function and hyperbolic tangent of 16-bit fixed-point numbers, as in gemmlowp.

Numbers are int64 arrays of 16-bit values with a sign and `bits` bits before the point; results have none:
value / 2^15. gemmlowp, fixedpoint.h, logistic, tanh, exp_on_negative_values and the functions that these
call; its constants are the 32-bit ones, rounded.
"""

from __future__ import annotations

import numpy as np

from gpunn.ops.fixed_point.affine import divide_by_power
from gpunn.types import Array

ONE = 2**15 - 1  # the largest number, which stands for 1
# exp(-2^exponent), in 32 bits, for each bit that a negative number may have before and after the point.
_FACTORS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)
_EXP_OF_EIGHTH, _THIRD = 1895147668, 715827883  # exp(-1/8), 1/3
_48_OVER_17, _32_OVER_17 = 1515870810, -1010580540  # with two bits before the point
_ITERATIONS = 3  # of Newton's method


def saturate(x: Array) -> Array:
    """Clamp x to 16 bits."""
    return np.clip(x, -(2**15), 2**15 - 1)


def multiply(a: Array, b: Array | int) -> Array:
    """Compute a * b / 2^15, to nearest, halves upwards."""
    return np.asarray(np.minimum(np.asarray(a * b + 2**14, np.int64) >> 15, ONE))


def logistic(x: Array) -> Array:
    """Compute 1 / (1 + exp(-x)) of numbers with 3 bits before the point."""
    positive = _move(_reciprocal(_exp(-np.abs(x), 3)), 1)
    result = np.where(x > 0, positive, ONE - positive)
    return np.where(x == 0, 2**14, result)


def tanh(x: Array, bits: int) -> Array:
    """Compute tanh of numbers with `bits` bits before the point, up to 6."""
    result = _move(_reciprocal(_exp(-np.abs(x), bits + 1)) - 2**13, 2)
    return np.where(x == 0, 0, np.where(x < 0, -result, result))


def _move(x: Array, places: int) -> Array:
    """Convert x to that many bits fewer before the point."""
    return saturate(x << places) if places >= 0 else divide_by_power(x, -places)


def _short(constant: int) -> int:
    """Convert a 32-bit constant to 16 bits."""
    return int(divide_by_power(np.asarray(constant, np.int64), 16))


def _exp_near_zero(x: Array) -> Array:
    """Compute exp of numbers from -1/4 to 0, by Taylor's series around -1/8."""
    x = x + 2**12
    second = multiply(x, x)
    third, fourth = multiply(second, x), multiply(second, second)
    rest = divide_by_power(multiply(divide_by_power(fourth, 2) + third, _short(_THIRD)) + second, 1)
    scale = _short(_EXP_OF_EIGHTH)
    return saturate(scale + multiply(x + rest, scale))


def _exp(x: Array, bits: int) -> Array:
    """Compute exp of numbers up to 0 with `bits` bits before the point: of the last quarter, times a factor a
    bit.
    """
    quarter = 1 << (13 - bits)
    last = (x & (quarter - 1)) - quarter
    result = _exp_near_zero(_move(last, bits))
    rest = last - x
    for exponent, factor in _FACTORS:
        if bits > exponent:
            result = np.where(rest & (1 << (15 - bits + exponent)), multiply(result, _short(factor)), result)
    if bits > 5:
        result = np.where(x < -(1 << (20 - bits)), 0, result)
    return np.where(x == 0, ONE, result)


def _reciprocal(x: Array) -> Array:
    """Compute 2 / (1 + x) for x from 0 to 1, with two bits before the point."""
    half = (x + ONE + 1) >> 1
    result = _short(_48_OVER_17) + multiply(half, _short(_32_OVER_17))
    for _ in range(_ITERATIONS):
        result = result + _move(multiply(result, 2**13 - multiply(half, result)), 2)
    return result
