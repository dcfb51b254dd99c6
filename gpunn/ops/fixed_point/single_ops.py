"""Stored results of single ops, for the integer arithmetic of ops that are written in other ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpunn.ops.call import Call
from gpunn.ops.fixed_point.affine import through_reals
from gpunn.ops.op import Op
from gpunn.types import Array, TensorType

Stored = tuple[Array, TensorType]  # stored integers, and the quantised tensor that they belong to


def compute_op(op: Op, inputs: Sequence[Stored], y: TensorType, **attrs: Any) -> Stored:
    """Compute the result of an op, of type `y`, from quantised tensors as they are stored.

    It rounds and saturates as an operation of a graph does: by the op's integer arithmetic, or through real
    numbers if it has none for the inputs.
    """
    types = tuple(type for _, type in inputs)
    full = {**{k: v for k, v in op.attributes.items() if k not in attrs}, **attrs}
    call, values = Call(op.name, "", types, full, (y,)), [value for value, _ in inputs]
    if op.quantized is not None and types[0].dtype in op.quantized.dtypes:
        return op.quantized.reference(call, *values), y
    return through_reals(call, op.reference, *values), y
