"""Element-wise functions of two tensors, broadcast as numpy broadcasts.

A line of TABLE is an op: its meaning in numpy, the same as a WGSL expression in `a` and `b`, its dtypes.
Both inputs have one dtype; the result has it too and the broadcast shape. On quantised uint8 and int8
the arithmetic is that of gpunn/ops/binary_integer.py; div goes through reals, on the CPU. Raises
ModelError for mixed or wrong dtypes and for shapes that do not broadcast. maximum and minimum give NaN
where either side is NaN; integer results wrap around; x/0 is an infinity or NaN.
Meaning: NeuralNetworks.h, ANEURALNETWORKS_ADD, _SUB, _MUL, _DIV (ranks up to 4 there, any here); TFLite
schema, MaximumMinimumOptions, PRELU; Core ML, ActivationPReLU.
Accuracy: the general promise (atol 1e-5, rtol 5 eps of float32): WGSL's division is good to 2.5 ulp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpunn.kernel import Function, Kernel, Read, Write, ceil_div, flat_threads, vec_width
from gpunn.ops.binary_integer import INTEGER, Combine
from gpunn.ops.check import FLOATS, NUMBERS, QUANTIZED, expect_dtype
from gpunn.ops.op import Call, Op, Quantized, broadcast, op
from gpunn.ops.strides import (
    aligned,
    broadcast_strides,
    by_fours,
    dense,
    merge,
    space_constants,
    space_params,
    splat,
)
from gpunn.ops.unary import activation_function
from gpunn.types import Array, DType, Shape, TensorType

DENSE, REPEAT, SPLAT = range(3)  # how binary_flat.wgsl finds an operand's element


def _add(a: Array, b: Array) -> Array:
    return np.asarray(a + b)


def _sub(a: Array, b: Array) -> Array:
    return np.asarray(a - b)


def _mul(a: Array, b: Array) -> Array:
    return np.asarray(a * b)


def _div(a: Array, b: Array) -> Array:
    return np.asarray(a / b)


def _maximum(a: Array, b: Array) -> Array:
    return np.asarray(np.maximum(a, b))


def _minimum(a: Array, b: Array) -> Array:
    return np.asarray(np.minimum(a, b))


def _prelu(x: Array, alpha: Array) -> Array:
    return np.where(x < 0, alpha * x, x)


@dataclass(frozen=True, slots=True)
class Binary:
    """One line: name, meaning, expression in a and b, dtypes, and whether an activation may be fused."""

    name: str
    meaning: Callable[..., Any]
    expression: str
    dtypes: tuple[DType, ...]
    fusible: bool = False


TABLE = (
    Binary("add", _add, "a + b", NUMBERS, fusible=True),
    Binary("sub", _sub, "a - b", NUMBERS, fusible=True),
    Binary("mul", _mul, "a * b", NUMBERS, fusible=True),
    Binary("div", _div, "a / b", FLOATS, fusible=True),
    Binary("maximum", _maximum, "select(b, a, a > b || !(a == a))", NUMBERS),
    Binary("minimum", _minimum, "select(b, a, a < b || !(a == a))", NUMBERS),
    Binary("prelu", _prelu, "select(a, a * b, a < T(0))", FLOATS),
)


def _infer(line: Binary) -> Callable[[Call], TensorType]:
    def infer(call: Call) -> TensorType:
        types = [expect_dtype(call, index, *line.dtypes) for index in range(2)]
        if len({t.quantization is None for t in types}) > 1:
            call.fail(f"both inputs must be quantised or neither, got {types[0]} and {types[1]}")
        result = broadcast(call)
        if line.name == "prelu" and result.shape != call.x.shape:
            call.fail(f"alpha must broadcast to {list(call.x.shape)}, got {list(call.input(1).shape)}")
        return result

    return infer


def _mode(sizes: Shape, strides: Shape) -> int | None:
    """How a tensor lies in a merged space, None when it takes the general walk."""
    if strides == dense(sizes):
        return DENSE
    if not any(strides):
        return SPLAT
    return REPEAT if strides == (0, 1) else None


def _kernel(line: Binary) -> Callable[[Call], Kernel]:
    combine = Function(("a", "b"), line.expression)
    return lambda call: _place(call, Combine({"combine": combine, **activation_function(call)}))


def _facet(line: Binary) -> Quantized | None:
    if line.name not in INTEGER:
        return None
    reference, combine = INTEGER[line.name]
    return Quantized(reference, lambda call: _place(call, combine(call)))


def _place(call: Call, combine: Combine) -> Kernel:
    """The kernel that applies `combine` to two operands, by the way they broadcast."""
    walks = (broadcast_strides(call.input(k).shape, call.y.shape) for k in range(2))
    sizes, a, b = merge(call.y.shape, *walks)
    modes = _mode(sizes, a), _mode(sizes, b)
    if modes[0] is None or modes[1] is None:
        return _strided(call, combine, sizes, a, b)
    return _flat(call, combine, (modes[0], modes[1]), sizes)


def _flat(call: Call, combine: Combine, modes: tuple[int, int], sizes: Shape) -> Kernel:
    """The kernel for operands that are dense, one element, or repeat over the last merged dimension."""
    repeats = REPEAT in modes
    period = sizes[-1] if repeats else call.y.size
    # A word of four bytes is stored at once; the last one may reach into the padding of the tensors.
    words = call.y.dtype in QUANTIZED and not repeats
    lanes = 4 if words else vec_width(call.y.size, period)
    count = ceil_div(call.y.size, lanes)
    a, b = (Read("ab"[k], k, width=1 if modes[k] == SPLAT else lanes) for k in range(2))
    return Kernel(
        body="binary_flat",
        threads=flat_threads(count),
        workgroup=(64, 1, 1),
        reads=(a, b, *combine.tables),
        writes=(Write(width=lanes),),
        params={"count": count, "period": max(period // lanes, 1), **combine.params},
        constants={"A_MODE": modes[0], "B_MODE": modes[1]},
        functions=combine.functions,
        libraries=combine.libraries,
        lanes=lanes,
        reason="element by element",
    )


def _strided(call: Call, combine: Combine, sizes: Shape, a: Shape, b: Shape) -> Kernel:
    """The kernel for any broadcast: coordinates of the result, dotted with each operand's strides."""
    lanes = 4 if aligned(sizes, a, b) else 1
    if lanes == 4:
        sizes, a, b = by_fours(sizes, a, b)
    count = call.y.size // lanes
    return Kernel(
        body="binary_strided",
        threads=flat_threads(count),
        workgroup=(64, 1, 1),
        reads=(
            Read("a", 0, width=1 if splat(a) else lanes),
            Read("b", 1, width=1 if splat(b) else lanes),
            *combine.tables,
        ),
        writes=(Write(width=lanes),),
        params={"count": count, **space_params(sizes, {"a": a, "b": b}), **combine.params},
        constants={"A_SPLAT": int(splat(a)), "B_SPLAT": int(splat(b)), **space_constants(sizes)},
        functions=combine.functions,
        libraries=combine.libraries,
        lanes=lanes,
        reason="operands broadcast over inner dimensions",
    )


OPS: tuple[Op, ...] = tuple(
    op(_infer(line), _kernel(line), name=line.name, fusible=line.fusible, quantized=_facet(line))(
        line.meaning
    )
    for line in TABLE
)
