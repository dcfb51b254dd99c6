"""Clamps: maxima, minima, activations and changes of sign, one after the other, become one operation.

Formats without an activation ReLU6 write it as -max(-max(x, 0), -6). Results stay the same.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.ops.algebra import Clamp
from gpunn.ops.fixed_point.affine import CLAMPS
from gpunn.passes.rewrite import Private, absorb
from gpunn.types import DType, float32


def fuse_clamps(model: Graph) -> Graph:
    """Replace operations in a row that clamp or change signs by one with the same results, if any has."""
    return absorb(model, _merge)


def _merge(last: Operation, private: Private) -> tuple[Operation, tuple[Operation, ...]] | None:
    """Return the operation that does the work of the longest row that ends with `last`, and the others."""
    found = _clamp(last)
    best: tuple[Operation, tuple[Operation, ...]] | None = None
    chain: list[Operation] = []
    while found is not None:
        whole, x = found
        before = private(x)
        first = None if before is None else _clamp(before)
        if before is None or first is None:
            break
        chain.append(before)
        found = whole.after(first[0]), first[1]
        merged = _written(last, *found)
        best = best if merged is None else (merged, tuple(chain))
    return best


def _clamp(operation: Operation) -> tuple[Clamp, Operand] | None:
    """Return the function of an operation on float32, and its operand; None if it does not clamp."""
    clamp, result = operation.definition.algebra.clamp, operation.outputs[0].type
    if clamp is None or operation.attrs.get("activation") is not None or result.dtype is not DType.FLOAT32:
        return None
    x = next((i for i in operation.inputs if i is not None and i.value is None), None)
    if x is None or x.type != result:
        return None
    others = [i.value for i in operation.inputs if i is not None and i is not x]
    if any(value is None or value.size != 1 for value in others):
        return None
    found = clamp(next((float(value.item()) for value in others if value is not None), None))
    return None if found is None else (found, x)


def _written(last: Operation, clamp: Clamp, x: Operand) -> Operation | None:
    """Return one operation for a function of x, which writes what `last` wrote; None if there is none."""
    bounds = (clamp.low, clamp.high)
    if clamp.sign < 0:
        return _as(last, "neg", x) if bounds == (-math.inf, math.inf) else None
    for name, (low, high) in CLAMPS.items():
        if bounds == (-math.inf if low is None else low, math.inf if high is None else high):
            return _as(last, name, x)
    if math.isinf(clamp.high) == math.isinf(clamp.low):
        return None
    op, value = ("maximum", clamp.low) if math.isinf(clamp.high) else ("minimum", clamp.high)
    number = np.array(value, np.float32)
    constant = Operand(f"{last.outputs[0].name}: {op}", float32(), Lifetime.CONSTANT, number)
    return _as(last, op, x, constant)


def _as(last: Operation, op: str, *inputs: Operand) -> Operation:
    return replace(last, op=op, inputs=inputs, attrs={}, custom=None)
