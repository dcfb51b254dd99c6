"""The gradients of element-wise functions, by the names of their lines in unary.TABLE and binary.TABLE.

An operand that was broadcast gets the gradient of the result's shape, which is summed afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from gpunn.ops.elementwise.fake_quant import params
from gpunn.ops.elementwise.halves import halved
from gpunn.ops.gradient import Backward, Gradient, Partial, Symbol, by_operand, passed, zero


def _from_result(back: Backward) -> Symbol:
    """Use the op of slopes.py that finds the derivative from the result."""
    return back.g.of(f"{back.call.op}_gradient", back.y)


def _from_operand(back: Backward) -> Symbol:
    """Use the op of slopes.py that finds the derivative from the operand."""
    return back.g.of(f"{back.call.op}_gradient", back.x)


def _leaky(x: Symbol, g: Symbol, factor: Symbol | float) -> Symbol:
    """Return g where x is above 0, and g times the factor elsewhere."""
    below = x.of("less_equal", 0.0)
    return below.of("select", g * factor, g)


def _silu(back: Backward) -> Symbol:
    gate = back.x.of("logistic")
    return back.g * gate * (back.x * (1.0 - gate) + 1.0)


def _gelu(back: Backward) -> Symbol:
    x = back.x
    normal = (x * math.sqrt(0.5)).of("erf") * 0.5 + 0.5
    density = (x * x * -0.5).of("exp") * (1 / math.sqrt(2 * math.pi))
    return back.g * (normal + x * density)


def _gelu_tanh(back: Backward) -> Symbol:
    x, k = back.x, math.sqrt(2 / math.pi)
    squared = x * x
    t = (x * (squared * (0.044715 * k) + k)).of("tanh")
    inner = squared * (3 * 0.044715 * k) + k
    return back.g * ((t + 1.0) * 0.5 + x * (1.0 - t * t) * inner * 0.5)


def _fake_quant(back: Backward) -> Symbol:
    """Let the gradient through inside the range, as if nothing was rounded there."""
    numbers = params(back.call)
    low, high = numbers["low"], numbers["high"]
    assert isinstance(low, float) and isinstance(high, float)
    inside = back.x.of("greater_equal", low).of("logical_and", back.x.of("less_equal", high))
    return inside.of("select", back.g, back.g.symbol(0.0))


UNARY: Mapping[str, Partial] = {
    **dict.fromkeys(("relu", "relu01", "relu1", "relu6", "logistic", "tanh", "elu"), _from_result),
    "silu": _silu,
    "hard_swish": _from_operand,
    **dict.fromkeys(("sign_bit", "floor", "ceil", "round", "sign", "zeros_like"), zero),
    "leaky_relu": lambda back: _leaky(back.x, back.g, float(back["alpha"])),
    "abs": lambda back: back.g * back.x.of("sign"),
    "neg": lambda back: -back.g,
    "square": lambda back: back.g * back.x * 2.0,
    "exp": lambda back: back.g * back.y,
    "log": lambda back: back.g / back.x,
    "sin": lambda back: back.g * back.x.of("cos"),
    "cos": lambda back: back.g * -back.x.of("sin"),
    "sqrt": lambda back: back.g * 0.5 / back.y,
    "rsqrt": lambda back: back.g * back.y * back.y * back.y * -0.5,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "sinh": lambda back: back.g * back.x.of("cosh"),
    "cosh": lambda back: back.g * back.x.of("sinh"),
    "asinh": lambda back: back.g * (back.x * back.x + 1.0).of("rsqrt"),
    "acosh": lambda back: back.g * (back.x - 1.0).of("rsqrt") * (back.x + 1.0).of("rsqrt"),
    "atanh": lambda back: back.g / ((1.0 - back.x) * (back.x + 1.0)),
    "erf": lambda back: back.g * (-(back.x * back.x)).of("exp") * (2 / math.sqrt(math.pi)),
    "fake_quant": _fake_quant,
}


def _other(back: Backward) -> Symbol:
    return back.input(1)


def _base(back: Backward) -> Symbol:
    """Return g b a^(b - 1), and 0 where b is 0, also at a = 0."""
    a, b = back.x, _other(back)
    value = b.tensor.value
    if value is not None and value.all():
        return back.g * b * a.of("pow", b - 1.0)
    exponent = b.of("equal", 0.0).of("select", b.symbol(1.0), b - 1.0)
    return back.g * b * a.of("pow", exponent)


def _exponent(back: Backward) -> Symbol:
    """Return g y ln(a), and 0 where a is 0."""
    a = back.x
    base = a.of("equal", 0.0).of("select", a.symbol(1.0), a)
    return back.g * back.y * base.of("log")


def _share(back: Backward) -> Symbol:
    return back.x.of("share_of_maximum", _other(back))


def _rest(back: Backward) -> Symbol:
    return _other(back).of("share_of_maximum", back.x)


def _along(coordinate: Callable[[Backward], Symbol]) -> Partial:
    """Make a partial derivative of the angle: g times a coordinate over the squared distance; 0 at (0, 0)."""

    def partial(back: Backward) -> Symbol:
        a, b = back.x, _other(back)
        origin = (a.of("abs") + b.of("abs")).of("equal", 0.0)
        return back.g * coordinate(back) / origin.of("select", a.symbol(1.0), a * a + b * b)

    return partial


_BINARY: Mapping[str, tuple[Partial, Partial]] = {
    "add": (passed, passed),
    "sub": (passed, lambda back: -back.g),
    "mul": (lambda back: back.g * _other(back), lambda back: back.g * back.x),
    "div": (lambda back: back.g / _other(back), lambda back: -(back.g * back.y / _other(back))),
    "maximum": (lambda back: back.g * _share(back), lambda back: back.g * _rest(back)),
    "minimum": (lambda back: back.g * _rest(back), lambda back: back.g * _share(back)),
    "prelu": (
        lambda back: _leaky(back.x, back.g, _other(back)),
        lambda back: back.g * back.x.of("minimum", 0.0),
    ),
    "floor_div": (zero, zero),
    "floor_mod": (passed, lambda back: -(back.g * back.x.of("floor_div", _other(back)))),
    "pow": (_base, _exponent),
    "atan2": (_along(_other), _along(lambda back: -back.x)),
    "squared_difference": (
        lambda back: back.g * (back.x - _other(back)) * 2.0,
        lambda back: back.g * (_other(back) - back.x) * 2.0,
    ),
}


def unary(name: str) -> Gradient | None:
    """Return the gradient of a line of unary.TABLE, if it has one."""
    return by_operand(UNARY[name]) if name in UNARY else None


def binary(name: str) -> Gradient | None:
    """Return the gradient of a line of binary.TABLE, if it has one."""
    return by_operand(*_BINARY[name]) if name in _BINARY else None


def _chosen(back: Backward) -> Symbol:
    return back.x.of("select", back.g, back.g.symbol(0.0))


def _not_chosen(back: Backward) -> Symbol:
    return back.x.of("select", back.g.symbol(0.0), back.g)


def _as_it_was(back: Backward) -> Symbol:
    return back.g.of("cast", dtype=back.x.type.dtype.value)


def _halves(back: Backward, of: Symbol) -> Symbol:
    """Return a tensor with the axis of a rotary embedding divided into halves."""
    x = back.x.shape
    return of.reshaped(halved(of.shape, x, back["axis"] % len(x)))


def _turned(back: Backward, halves: Symbol, first: float) -> Symbol:
    """Return both halves in the other order: the sign of the first one, the other one with the opposite."""
    rank, axis = len(halves.shape), back["axis"] % len(back.x.shape)
    shifts = tuple(int(d == axis) for d in range(rank))
    signs = np.array([first, -first]).reshape(2, *(1,) * (rank - 1 - axis))
    return halves.of("roll", shifts=shifts) * halves.constant(signs)


def _turned_back(back: Backward) -> Symbol:
    cos, sin = (_halves(back, back.input(number)) for number in (1, 2))
    g = _halves(back, back.g)
    return (g * cos + _turned(back, g * sin, 1.0)).reshaped(back.x.shape)


def _of_cosines(back: Backward) -> Symbol:
    products, cos = _halves(back, back.g * back.x), back.input(1)
    return products.summed_to(_halves(back, cos).shape).reshaped(cos.shape)


def _of_sines(back: Backward) -> Symbol:
    turned, sin = _turned(back, _halves(back, back.x), -1.0), back.input(2)
    products = _halves(back, back.g) * turned
    return products.summed_to(_halves(back, sin).shape).reshaped(sin.shape)


SELECT = by_operand(zero, _chosen, _not_chosen)
CAST = by_operand(_as_it_was)
ROTARY = by_operand(_turned_back, _of_cosines, _of_sines)
