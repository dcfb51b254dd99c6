"""The error function on the host, and the activations that a normal distribution gates: erf, gelu, gelu_tanh.

In float64 they are exact to its precision. float32 goes through functions that numpy computes with vectors:

    erf(x) = tanh(x R(x^2))        gelu(x) = x / (1 + e^(-2 u)), u = (x / sqrt 2) R(x^2 / 2)

R is the polynomial that makes the largest relative error of erf least, 9.5e-8 in exact arithmetic: a linear
program in float64 at 600 places up to SURE. Rounding included, erf is off by up to 3 eps of itself, gelu by 2
eps of itself above 0, and below by 2 eps of 1, as x (1 + erf(x / sqrt 2)) / 2 is, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from gpunn.ops.compiled.gates import form_of
from gpunn.ops.elementwise.gates import by_loop, gated
from gpunn.ops.memory import by_blocks
from gpunn.types import Array

SURE = 3.9  # from here on erf(x) is 1 in float32
_R = (1.12837927, 1.02769055e-1, -1.9182887e-4, -6.19786096e-4, 8.76376751e-5, -5.66850551e-6, 1.41853172e-7)


def _each(function: Callable[[float], float], x: Array) -> Array:
    """Apply a function of Python's math to each element; the result is float64."""
    return np.fromiter(map(function, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


def _single(number: float) -> Array:
    """Return a number as an array without axes, which numpy takes sooner than its scalars."""
    return np.array(number, np.float32)


_LEAST = _single(-10)  # where gelu is 0 in float32's absolute terms, and e^(-2 u) still is finite
_ONE = _single(1)


def _odd(x: Array, squares: Array, coefficients: Sequence[Array], out: Array) -> None:
    """Write x times a polynomial in `squares`, from its lowest coefficient on, by Horner's scheme."""
    first, *others, last = coefficients
    np.multiply(squares, last, out=out)
    for coefficient in reversed(others):
        np.add(out, coefficient, out=out)
        np.multiply(out, squares, out=out)
    np.add(out, first, out=out)
    np.multiply(out, x, out=out)


_ERF = [_single(r) for r in _R]
_ERF_SQUARE = _single(SURE**2)


def _write_erf(x: Array, out: Array) -> None:
    squares = np.multiply(x, x)
    np.minimum(squares, _ERF_SQUARE, out=squares)
    _odd(x, squares, _ERF, out)
    np.tanh(out, out=out)


def erf(x: Array) -> Array:
    """Compute the error function. NeuralNetwork.proto, ErfLayerParams."""
    return by_blocks(_write_erf, x) if x.dtype == np.float32 else _each(math.erf, x).astype(x.dtype)


class _Gate:
    """A function x / (1 + e^(x P(x^2))) of a polynomial P, whose argument is at most `square`."""

    def __init__(self, coefficients: Sequence[float], square: float) -> None:
        self._form = form_of(coefficients, float(_LEAST), square)
        self._exponents, self._square = [_single(c) for c in coefficients], _single(square)

    def write(self, x: Array, out: Array) -> None:
        """Write the function of each element."""
        if by_loop(x, self._form, out):
            return
        above = np.maximum(x, _LEAST)  # so that -inf becomes no NaN
        squares = np.multiply(above, above)
        np.minimum(squares, self._square, out=squares)
        _odd(above, squares, self._exponents, out)
        np.exp(out, out=out)
        np.add(out, _ONE, out=out)
        np.divide(above, out, out=out)


_GELU = _Gate([-math.sqrt(2) * r / 2**k for k, r in enumerate(_R)], 2 * SURE**2)


def gelu(x: Array) -> Array:
    """Compute x times the cumulative normal distribution at x; 0 if x is -inf. TFLite schema, GeluOptions."""
    if x.dtype == np.float32:
        return gated(_GELU.write, x)
    # The cumulative normal distribution at x is half of erfc(-x / sqrt(2)).
    return _closed(x, 0.5 * _each(math.erfc, -math.sqrt(0.5) * x.astype(np.float64)))


def _closed(x: Array, gate: Array) -> Array:
    """Compute x * gate; 0 if x is -inf."""
    return np.asarray(np.where(x == -np.inf, 0, x * gate), x.dtype)


_INNER = -2 * math.sqrt(2 / math.pi)
_GELU_TANH = _Gate([_INNER, _INNER * 0.044715], math.inf)


def gelu_tanh(x: Array) -> Array:
    """Compute x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3); 0 if x is -inf.

    TFLite schema, GeluOptions (approximate).
    """
    if x.dtype == np.float32:
        return gated(_GELU_TANH.write, x)
    # That is x / (1 + e^(-2 u)), which loses nothing below 0.
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x.astype(np.float64) ** 3)
    with np.errstate(over="ignore"):
        return _closed(x, 1 / (1 + np.exp(-2 * inner)))
