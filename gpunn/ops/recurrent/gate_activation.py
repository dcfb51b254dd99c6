"""Activations of gates: None, one of unary.ACTIVATIONS by name, or one of FORMS, as (name, alpha, beta)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpunn.kernel import Function, Param, keep_nan
from gpunn.ops.call import Call
from gpunn.ops.elementwise.unary import ACTIVATIONS, apply_activation
from gpunn.types import Array, DType

GateActivation = str | tuple[str, float, float] | None


@dataclass(frozen=True, slots=True)
class _Form:
    """A function of x, alpha and beta: meaning, the same in WGSL, and its steepest slope."""

    meaning: Callable[[Array, Any, Any], Array]
    expression: str
    slope: Callable[[float, float], float]


def _scaled_tanh(x: Array, alpha: Any, beta: Any) -> Array:
    return np.asarray(alpha * np.tanh(beta * x))


FORMS = {
    "affine": _Form(lambda x, a, b: a * x + b, "{a} * x + {b}", lambda a, b: abs(a)),
    "hard_sigmoid": _Form(
        lambda x, a, b: np.clip(a * x + b, x.dtype.type(0), x.dtype.type(1)),
        keep_nan("clamp({a} * x + {b}, 0.0, 1.0)", "x"),
        lambda a, b: abs(a),
    ),
    "scaled_tanh": _Form(
        _scaled_tanh,
        keep_nan("{a} * tanh(clamp({b} * x, -10.0, 10.0))", "x"),
        lambda a, b: abs(a * b),
    ),
}


def check_gate(call: Call, attr: str, activation: Any) -> None:
    """Raise ModelError unless an entry of attribute `attr` is an activation of a gate."""
    if activation is None or (isinstance(activation, str) and activation in ACTIVATIONS):
        return
    form = isinstance(activation, tuple) and len(activation) == 3 and activation[0] in FORMS
    if form and all(isinstance(n, int | float) and math.isfinite(n) for n in activation[1:]):
        return
    names, forms = ", ".join(sorted(ACTIVATIONS)), ", ".join(sorted(FORMS))
    call.fail(f"{attr} must be one of {names}, or one of {forms} with two numbers, got {activation!r}")


def apply_gate(x: Array, activation: GateActivation) -> Array:
    """Apply an activation to an array, in the same dtype."""
    if not isinstance(activation, tuple):
        return apply_activation(x, activation)
    name, alpha, beta = activation
    return FORMS[name].meaning(x, x.dtype.type(alpha), x.dtype.type(beta))


def slope_of(activation: GateActivation) -> float:
    """Return how steep an activation is at most."""
    if isinstance(activation, tuple):
        name, alpha, beta = activation
        return FORMS[name].slope(alpha, beta)
    fused = None if activation is None else ACTIVATIONS[activation].fused
    return 1.0 if fused is None else fused.slope


def gate_function(role: str, activation: GateActivation) -> tuple[Function, dict[str, Param]]:
    """Return an activation as a generated WGSL function, and the parameters that it reads, for this role."""
    if not isinstance(activation, tuple):
        expression = "x" if activation is None else ACTIVATIONS[activation].expression_for(DType.FLOAT32)
        return Function(("x",), expression), {}
    name, alpha, beta = activation
    params: dict[str, Param] = {f"{role}_alpha": float(alpha), f"{role}_beta": float(beta)}
    expression = FORMS[name].expression.format(a=f"p.{role}_alpha", b=f"p.{role}_beta")
    return Function(("x",), expression), params
