"""Functions of one 16-bit number from interpolation tables, as in TFLite.

exp and similar functions have tables of 513 points in float32, 128 stored values apart (LUTPopulate and
LUTLookup in TFLite's common.h). logistic and tanh share a table of the logistic function: 256 points with 16
bits of fraction, 1/24 apart (reference/integer_ops/logistic.h and tanh.h). At scales that are powers of two
TFLite's default kernels are gemmlowp's (fixed16.py). This module computes all 65,536 results once, for both
backends to read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.fixed_point import fixed16
from gpunn.ops.fixed_point.affine import LIMITS, round_half_away, scale_of
from gpunn.ops.fixed_point.tables import every_value, real_table
from gpunn.types import Array, DType

Function = Callable[[Array], Array]

INTERVALS = 512  # of a table; 128 arguments lie in each
_LOW, _HIGH = LIMITS[DType.INT16]
_SIGMOID = 256  # points of the logistic function
_STEPS = 3 * 2**12  # to 1, that arguments of the logistic function are counted in; 512 lie between two points


def points(meaning: Function, low: float, high: float, factor: float, number: type[np.floating]) -> Array:
    """Make an interpolation table: a function at 513 places from low to high, times a factor, in 16 bits.

    Each point is lowered by half of the line's error in the middle of the next interval. NaN counts as 0.
    `number`: the dtype of the computation, except for the function itself.
    """
    first, end, by = number(low), number(high), number(factor)
    step = (end - first) / number(INTERVALS)
    count = np.arange(INTERVALS).astype(number)

    def scaled(places: Array) -> Array:
        return np.asarray(meaning(places).astype(number) * by)

    with np.errstate(all="ignore"):  # functions where they are not defined, and results beyond float32
        at = first + count * step
        sample = round_half_away(scaled(at))
        line = round_half_away((scaled(first + (count + number(1)) * step) + sample) / number(2))
        middle = round_half_away(scaled(at + step / number(2)))
        lowered = sample - round_half_away((line - middle) / number(2))
        last = round_half_away(scaled(np.array([end])))
    found = np.nan_to_num(np.clip(np.concatenate([lowered, last]), _LOW, _HIGH))
    return np.asarray(found, np.int64)


def between(x: Array, table: Array) -> Array:
    """Interpolate a table at x, 16-bit numbers from one end of the table's range to the other; in 16 bits."""
    index, part = (x >> 7) + INTERVALS // 2, x & 127
    slope = _wrapped(table[index + 1] - table[index])
    return _wrapped(table[index] + ((slope * part + 64) >> 7))


def _wrapped(x: Array) -> Array:
    wrapped: Array = x.astype(np.int16).astype(np.int64)
    return wrapped


def table(
    function: Function, beyond: int | None = None, *, single: Function | None = None
) -> Callable[[Call], Array]:
    """Make all results of a call from an interpolation table; of `function` where TFLite has none.

    beyond: which end of the result's range, 0 or 1, the function has for numbers up to 0. single: the
    function in float32, if it is not the real function rounded to nearest.
    """

    def results(call: Call) -> Array:
        (scale, zero), (to_scale, to_zero) = scale_of(call, call.x), scale_of(call, call.y)
        with np.errstate(over="ignore"):
            low, high, *ends = (
                np.float32(s) * np.float32(e) for s in (scale, to_scale) for e in (_LOW, _HIGH)
            )
            factor = np.float32(2**16) / (ends[1] - ends[0])
        if zero or to_zero or not np.isfinite([high - low, ends[1] - ends[0], factor]).all():
            return real_table(call, function)

        def meaning(x: Array) -> Array:
            reals = function(x.astype(np.float64)).astype(np.float32) if single is None else single(x)
            return reals if beyond is None else np.where(x > 0, reals, ends[beyond])

        found = points(meaning, float(low), float(high), float(factor), np.float32)
        return between(every_value(call.x), found).astype(np.int16)

    return results


def gelu(x: Array) -> Array:
    """Compute gelu as TFLite's gelu.h, operation by operation, in float32."""
    scaled = (x * np.float32(-math.sqrt(0.5))).astype(np.float64)
    complement = np.fromiter((math.erfc(v) for v in scaled), np.float64, x.size).astype(np.float32)
    return np.float32(0.5) * x * complement


def gelu_tanh(x: Array) -> Array:
    """Compute the approximation of gelu as TFLite's gelu.h, operation by operation, in float32."""
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    return np.float32(0.5) * x * (np.float32(1) + np.tanh(inner.astype(np.float64)).astype(np.float32))


@functools.cache
def _sigmoid() -> Array:
    """Make the table of the logistic function at 0, 1/24, ... with 16 bits, raised by half of the line's
    error.
    """

    def at(k: Array) -> Array:
        return np.asarray(2**16 / (1 + np.exp(-k / 24)))

    k = np.arange(_SIGMOID)
    missed = at(k + 0.5) - (at(k) + at(k + 1)) / 2
    found = np.floor(at(k) + missed / 2 + 0.5).astype(np.int64)
    found[-1] = 2**16 - 1
    return found


def _interpolated(size: Array, bits: int, beyond: int) -> Array:
    """Compute the logistic function with 16 + bits bits of fraction, 2^bits arguments between two points."""
    place, part = size >> bits, size & (2**bits - 1)
    a, b = (_sigmoid()[np.minimum(place + k, _SIGMOID - 1)] for k in (0, 1))
    return np.where(place >= _SIGMOID - 1, beyond, (a << bits) + part * (b - a))


def _logistic(steps: Array) -> Array:
    value = _interpolated(np.abs(steps), 9, _HIGH << 10)
    return np.where(steps >= 0, value + 2**9, 2**25 - value + 2**9 - 1) >> 10


def _tanh(steps: Array) -> Array:
    """Compute tanh as 2 logistic(2 x) - 1."""
    value = _interpolated(np.abs(steps), 8, (2**16 - 1) << 8) - 2**23
    return np.where(steps >= 0, value + 2**7, -value + 2**7 - 1) >> 8


def _sigmoidal(
    function: Function, of_steps: Function, exact: Mapping[float, Function]
) -> Callable[[Call], Array]:
    """Make all results of a call; `exact`: functions of stored values for these scales."""

    def results(call: Call) -> Array:
        (scale, zero), x = scale_of(call, call.x), every_value(call.x)
        multiplier, shift = float(np.float32(scale)) * _STEPS, 0
        if zero or multiplier > _HIGH or scale_of(call, call.y) != (2.0**-15, 0):
            return real_table(call, function)
        if scale in exact:
            return exact[scale](x).astype(np.int16)
        while multiplier <= _HIGH / 2 and shift <= 30:
            multiplier, shift = multiplier * 2, shift + 1
        return of_steps((x * int(multiplier) + ((1 << shift) >> 1)) >> shift).astype(np.int16)

    return results


def logistic(function: Function) -> Callable[[Call], Array]:
    """Make all results of a call of logistic; of `function` where TFLite has no table."""
    return _sigmoidal(function, _logistic, {2.0**-12: fixed16.logistic})


def _gemmlowp_tanh(factor: int, x: Array) -> Array:
    return fixed16.tanh(fixed16.saturate(x * factor), 3)


def tanh(function: Function) -> Callable[[Call], Array]:
    """Make all results of a call of tanh; of `function` where TFLite has no table."""
    exact = {2.0**-12 * k: functools.partial(_gemmlowp_tanh, k) for k in (1, 2)}
    return _sigmoidal(function, _tanh, exact)
