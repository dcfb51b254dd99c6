"""The gradients of activations, and of the larger of two: one op for what would be three or more.

A line of TABLE is an op of two operands as in binary.py, but floats only. `<activation>_gradient` multiplies
the gradient g of an activation's result with the activation's derivative, which it finds from the result y,
or for hard_swish from the operand x. Where a derivative jumps it is that of the flat side: relu's is 0 at 0.
share_of_maximum is what the derivative of max(a, b) with respect to a is: 1 where a is greater, 1/2 where
both are equal, else 0.
Shapes: g and y broadcast. dtype: float32, float16. Raises ModelError for other dtypes and for shapes that do
not broadcast. Meaning: the derivatives of the activations in NeuralNetworks.h and in NeuralNetwork.proto of
Core ML, whose updatable layers need them.
Accuracy: the general promise (atol 1e-5, rtol 5 eps of float32).
"""

from __future__ import annotations

import numpy as np

from gpunn.ops.check import FLOATS
from gpunn.ops.elementwise.binary_declaration import Binary, declare
from gpunn.ops.elementwise.choice import chosen
from gpunn.ops.op import Op
from gpunn.types import Array


def _between(name: str, low: float, high: float | None) -> Binary:
    """Make the line of an activation that clips."""

    def meaning(g: Array, y: Array) -> Array:
        inside = y > low if high is None else (y > low) & (y < high)
        return chosen(inside, g, np.zeros((), g.dtype))

    above = "" if high is None else f" && b < T({float(high)})"
    return Binary(f"{name}_gradient", meaning, f"select(T(0), a, b > T({float(low)}){above})", FLOATS)


def _logistic(g: Array, y: Array) -> Array:
    return np.asarray(g * (y * (1 - y)))


def _tanh(g: Array, y: Array) -> Array:
    return np.asarray(g * (1 - y * y))


def _elu(g: Array, y: Array) -> Array:
    return chosen(y >= 0, g, np.asarray(g * (y + 1)))


def _hard_swish(g: Array, x: Array) -> Array:
    return np.asarray(g * np.where(x <= -3, 0, np.where(x < 3, (2 * x + 3) / 6, 1)), g.dtype)


def _share(a: Array, b: Array) -> Array:
    return np.asarray(np.where(a > b, 1, np.where(a == b, 0.5, 0)), a.dtype)


TABLE = (
    _between("relu", 0, None),
    _between("relu01", 0, 1),
    _between("relu1", -1, 1),
    _between("relu6", 0, 6),
    Binary("logistic_gradient", _logistic, "a * (b * (T(1) - b))", FLOATS),
    Binary("tanh_gradient", _tanh, "a * (T(1) - b * b)", FLOATS),
    Binary("elu_gradient", _elu, "select(a * (b + T(1)), a, b >= T(0))", FLOATS),
    Binary(
        "hard_swish_gradient",
        _hard_swish,
        "a * select(select(T(1), (T(2) * b + T(3)) / T(6), b < T(3)), T(0), b <= T(-3))",
        FLOATS,
    ),
    Binary("share_of_maximum", _share, "select(select(T(0), T(0.5), a == b), T(1), a > b)", FLOATS),
)

OPS: tuple[Op, ...] = tuple(declare(line) for line in TABLE)
