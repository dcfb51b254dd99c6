"""Element-wise functions of one tensor; most also serve as fused activations.

A line of TABLE is an op: its meaning in numpy, the same as a WGSL expression in `x`, and the domain it
is tested on. WGSL's min, max and clamp drop NaN and numpy keeps it, so the expressions use select().

Shapes: any; the result has the input's. dtype: float32, float16, or quantised uint8 or int8, for which every
function is a table of 256 results (gpunn/ops/tables.py). Raises ModelError for other dtypes.
Meaning: NeuralNetworks.h, ANEURALNETWORKS_RELU, _RELU1, _RELU6, _LOGISTIC, _TANH, _FLOOR; TFLite schema,
HARD_SWISH and LeakyReluOptions. Accuracy: the general promise (atol 1e-5, rtol 5 eps of float32).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpunn.kernel import Function, Kernel, Read, Write, flat_threads, vec_width
from gpunn.ops.affine import LIMITS, fixed_output
from gpunn.ops.check import FLOATS, expect_dtype, expect_float
from gpunn.ops.op import Call, Op, Quantized, op
from gpunn.ops.tables import clamped_table, hard_swish_table, real_table, rescale_table, table_facet
from gpunn.types import Array, TensorType


def _relu(x: Array) -> Array:
    return np.asarray(np.maximum(x, x.dtype.type(0)))


def _clip(low: float, high: float) -> Callable[[Array], Array]:
    def clipped(x: Array) -> Array:
        return np.clip(x, x.dtype.type(low), x.dtype.type(high))

    return clipped


def _logistic(x: Array) -> Array:
    small = np.exp(-np.abs(x))  # at most 1: never overflows
    return np.asarray(np.where(x >= 0, x.dtype.type(1), small) / (1 + small))


def _tanh(x: Array) -> Array:
    return np.asarray(np.tanh(x))


def _hard_swish(x: Array) -> Array:
    return np.asarray(x * (np.clip(x + 3, 0, 6) / 6))


def _floor(x: Array) -> Array:
    return np.asarray(np.floor(x))


def _leaky_relu(x: Array, *, alpha: float) -> Array:
    return np.where(x < 0, x.dtype.type(alpha) * x, x)


@dataclass(frozen=True, slots=True)
class Unary:
    """One line: name, meaning, expression, domain (bounds, ends included).

    `fused`: may stand as the attribute `activation` of other ops. `integer`: then also on integers.
    `table`: the 256 results on a quantised tensor, where they are not the rounded real ones. `output`:
    scale and, above the lowest stored value, zero point of a result that the file does not quantise.
    """

    name: str
    meaning: Callable[..., Any]
    expression: str
    domain: tuple[float, float]
    fused: bool = False
    integer: bool = False
    table: Callable[[Call], Array] | None = None
    output: tuple[float, int] | None = None


def _clamped(call: Call) -> Array:
    return clamped_table(call, call.op)


def _leaked(call: Call) -> Array:
    return rescale_table(call, call.x, call.y, LIMITS[call.y.dtype], call["alpha"])


_CLAMP = "select(select(x, T({0}), x < T({0})), T({1}), x > T({1}))"

# WGSL leaves exp and tanh loose where they overflow, so their arguments stop where the result no longer
# moves: exp(-80) is 2e-35, and tanh(10) is 1 - 4e-9. A NaN passes both comparisons of _CLAMP.
TABLE = (
    Unary("relu", _relu, "select(x, T(0), x < T(0))", (-100, 100), fused=True, integer=True, table=_clamped),
    Unary("relu1", _clip(-1, 1), _CLAMP.format(-1, 1), (-3, 3), fused=True, integer=True, table=_clamped),
    Unary("relu6", _clip(0, 6), _CLAMP.format(0, 6), (-10, 10), fused=True, integer=True, table=_clamped),
    Unary(
        "logistic",
        _logistic,
        f"T(1) / (T(1) + exp(-{_CLAMP.format(-80, 80)}))",
        (-200, 200),
        fused=True,
        output=(1 / 256, 0),
    ),
    Unary("tanh", _tanh, f"tanh({_CLAMP.format(-10, 10)})", (-100, 100), fused=True, output=(1 / 128, 128)),
    Unary(
        "hard_swish",
        _hard_swish,
        "x * (select(select(x + 3.0, 0.0, x < -3.0), 6.0, x > 3.0) / 6.0)",
        (-10, 10),
        fused=True,
        table=hard_swish_table,
    ),
    Unary("floor", _floor, "floor(x)", (-100, 100)),
    Unary("leaky_relu", _leaky_relu, "select(x, p.alpha * x, x < T(0))", (-100, 100), table=_leaked),
)

ACTIVATIONS = {line.name: line for line in TABLE if line.fused}


def _infer(line: Unary) -> Callable[[Call], TensorType]:
    def infer(call: Call) -> TensorType:
        for attr in call.attrs:
            expect_float(call, attr)
        x = expect_dtype(call, 0, *FLOATS)
        return x if line.output is None or x.quantization is None else fixed_output(x, *line.output)

    return infer


def _facet(line: Unary) -> Quantized:
    def table(call: Call) -> Array:
        if line.table is not None:
            return line.table(call)
        return real_table(call, lambda x: line.meaning(x, **call.attrs))

    return table_facet(table)


def _kernel(line: Unary) -> Callable[[Call], Kernel]:
    def kernel(call: Call) -> Kernel:
        lanes = vec_width(call.x.size)
        count = call.x.size // lanes
        return Kernel(
            body="unary",
            threads=flat_threads(count),
            workgroup=(64, 1, 1),
            reads=(Read("x", 0, width=lanes),),
            writes=(Write(width=lanes),),
            params={"count": count, **{attr: expect_float(call, attr) for attr in call.attrs}},
            functions={"apply": Function(("x",), line.expression)},
            lanes=lanes,
            reason="element by element",
        )

    return kernel


def check_activation(call: Call) -> None:
    """ModelError unless attribute `activation` is None or names one that fits the first input's dtype."""
    name = call.attrs.get("activation")
    if name is None:
        return
    if name not in ACTIVATIONS:
        call.fail(f"activation must be one of {', '.join(sorted(ACTIVATIONS))}, got {name!r}")
    if call.x.dtype not in FLOATS and not ACTIVATIONS[name].integer:
        call.fail(f"activation {name} needs a float tensor, got {call.x}")


def activation_function(call: Call) -> dict[str, Function]:
    """Kernel.functions for the call's fused activation: `apply`, or nothing (the identity)."""
    name = call.attrs.get("activation")
    return {} if name is None else {"apply": Function(("x",), ACTIVATIONS[name].expression)}


def apply_activation(y: Array, name: str | None) -> Array:
    """`y` after the activation of that name, in the same dtype."""
    return y if name is None else np.asarray(ACTIVATIONS[name].meaning(y))


OPS: tuple[Op, ...] = tuple(
    op(_infer(line), _kernel(line), name=line.name, quantized=_facet(line))(line.meaning) for line in TABLE
)
