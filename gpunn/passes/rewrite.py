"""What passes do to single operations: exchange the operands that they read or write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpunn.model import Operand, Operation


def replace_inputs(operation: Operation, exchange: Mapping[Operand, Operand]) -> Operation:
    """The operation reading other operands."""
    if not any(i in exchange for i in operation.inputs if i is not None):
        return operation
    inputs = tuple(None if i is None else exchange.get(i, i) for i in operation.inputs)
    return replace(operation, inputs=inputs)


def replace_outputs(operation: Operation, exchange: Mapping[Operand, Operand]) -> Operation:
    """The operation writing other operands."""
    if not any(o in exchange for o in operation.outputs):
        return operation
    return replace(operation, outputs=tuple(exchange.get(o, o) for o in operation.outputs))
