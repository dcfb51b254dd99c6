"""Gates, as a loop whose vectors have machine code of their own.

They are x / (1 + e^(x P(x^2))) and 1 / (1 + e^(x P(x^2))), with a polynomial P, and hard_swish; gates.py and
gaussian.py of gpunn.ops.elementwise say which functions these are.

    e^t = 2^n (1 + r + r^2 Q(r)),   n the integer next to t / ln 2,   r = t - n ln 2

Q is the polynomial that makes the largest relative error of e^r least, 3.6e-9 with coefficients of float32:
least squares in float64 at 4,001 places, weighted anew until the errors of all peaks were alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.vectors import Code
from gpunn.types import Array

_Q = (0.49999994, 0.16666521, 0.04166839, 0.0083687454, 0.001381454)
_LEAST, _MOST = -87.0, 88.0  # of t, so that 2^n is a normal number
_FEW_BITS = 355 / 512  # near ln 2; multiplied with n it is exact
_ROUNDING = 1.5 * 2**23  # a sum with it has no digits behind the point, and n in its last bits
_FRACTION = 23  # bits of float32
_OF_X, _OF_ONE, _HARD = range(3)  # kinds of functions: of x / (...), of 1 / (...), and hard_swish
_FORM = 3  # numbers of a form before the coefficients of P
HARD = np.array((_HARD, 0, 0), np.float32)  # the form of hard_swish
_KNEE = 3.0  # hard_swish is 0 below -3, and x above 3


def form_of(
    coefficients: Sequence[float], least: float = _LEAST, most: float = math.inf, of_one: bool = False
) -> Array:
    """Return the form of a function for gated().

    coefficients: of P, the lowest first. least: what stands for a lower x. most: what stands for a greater
    x^2. of_one: it is 1 / (...), not x / (...).
    """
    return np.array((_OF_ONE if of_one else _OF_X, least, most, *coefficients), np.float32)


def gated(some: tuple[int, int], lanes: int, x: Array, form: Array, out: Array) -> None:
    """Write functions of some of float32 x; both are flat, and may be the same.

    form: of form_of(), or HARD.
    """
    begin, end = some
    whole = begin + (end - begin) // lanes * lanes
    for k in range(begin, whole, lanes):
        gated_vector(x, form, (k, lanes), out)
    left = end - whole
    if left:
        rest = np.zeros(lanes, np.float32)
        for k in range(left):
            rest[k] = x[whole + k]
        gated_vector(rest, form, (0, lanes), rest)
        for k in range(left):
            out[whole + k] = rest[k]


def gated_vector(x: Array, form: Array, place: tuple[int, int], out: Array) -> None:
    """Write what gated() writes for some numbers; place: the first one, and how many."""
    first, count = place
    part = slice(first, first + count)
    if form[0] == _HARD:
        out[part] = hard_swish(x[part])
        return
    above = np.maximum(x[part], form[1])
    squares = np.minimum(above * above, form[2])
    *others, factor = form[_FORM:]
    for coefficient in reversed(others):
        factor = factor * squares + coefficient
    out[part] = np.where(form[0] == _OF_ONE, np.float32(1), above) / (1 + np.exp(above * factor))


def hard_swish(x: Array) -> Array:
    """Return x times (x + 3) / 6 between 0 and 1; 0 if x is -inf."""
    above = np.maximum(x, np.float32(-_KNEE))
    gate = (np.minimum(above, np.float32(_KNEE)) + np.float32(_KNEE)) * np.float32(0.5 / _KNEE)
    return np.asarray(above * gate)


def hard_swish_code(code: Code, hard: Any, places: Iterable[Any]) -> None:
    """Write the code that makes hard_swish of vectors in memory, if `hard` is not 0."""
    with code.builder.if_then(code.builder.icmp_signed("!=", hard, code.index(0))):
        for place in places:
            code.builder.store(_hard_swish(code, code.builder.load(place)), place)


def _hard_swish(code: Code, x: Any) -> Any:
    """Return what hard_swish() makes of a vector."""
    of = code.builder
    below, knee, share = (x.type([number] * code.lanes) for number in (-_KNEE, _KNEE, 0.5 / _KNEE))
    above = code.bounded("<", x, below)
    return of.fmul(above, of.fmul(of.fadd(code.bounded(">", above, knee), knee), share))


def gated_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of gated_vector()."""
    x, form, (first, _), out = operands
    of = code.builder
    kind = code.of(x.data.type.pointee)
    one, target = kind([1.0] * code.lanes), of.gep(out.data, [first])

    def number(place: Any) -> Any:
        return of.load(of.gep(form.data, [place]))

    def is_kind(known: int) -> Any:
        return of.fcmp_ordered("==", number(code.index(0)), form.data.type.pointee(known))

    given = code.load(of.gep(x.data, [first]), kind)
    with of.if_else(is_kind(_HARD)) as (hard, by_exponential):
        with hard:
            code.store(_hard_swish(code, given), target)
        with by_exponential:
            least, most = (code.splat(number(code.index(k))) for k in (1, 2))
            above = code.bounded("<", given, least)
            square = code.bounded(">", of.fmul(above, above), most)
            last = of.sub(of.extract_value(form.shape, 0), code.index(1))
            sum = code.utils.alloca_once(of, kind)
            of.store(code.splat(number(last)), sum)
            with code.utils.for_range(of, of.sub(last, code.index(_FORM))) as step:
                before = code.splat(number(of.sub(of.sub(last, step.index), code.index(1))))
                of.store(code.times_plus(of.load(sum), square, before), sum)
            below = of.fadd(one, exponential(code, of.fmul(above, of.load(sum))))
            over = of.select(is_kind(_OF_ONE), one, above)
            code.store(of.fdiv(over, below), target)


def exponential(code: Code, t: Any) -> Any:
    """Return e^t of a vector of float32, within the bounds of t; NaN stays."""
    of, kind, whole = code.builder, t.type, code.vector

    def constant(number: float) -> Any:
        return kind([number] * code.lanes)

    t = code.bounded(">", code.bounded("<", t, constant(_LEAST)), constant(_MOST))
    shifted = code.times_plus(t, constant(1 / math.log(2)), constant(_ROUNDING))
    n = of.fsub(shifted, constant(_ROUNDING))
    r = code.times_plus(n, constant(-_FEW_BITS), t)
    r = code.times_plus(n, constant(_FEW_BITS - math.log(2)), r)
    sum = constant(_Q[-1])
    for coefficient in reversed(_Q[:-1]):
        sum = code.times_plus(sum, r, constant(coefficient))
    near = of.fadd(code.times_plus(of.fmul(r, r), sum, r), constant(1))
    power = of.shl(of.bitcast(shifted, whole), whole([_FRACTION] * code.lanes))
    return of.bitcast(of.add(of.bitcast(near, whole), power), kind)
