"""The operations that compute operands."""

from __future__ import annotations

from collections.abc import Mapping

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation

Writers = Mapping[Operand | None, Operation]


def writers_of(model: Graph) -> Writers:
    """Return for each operand the operation that computes it."""
    return {result: operation for operation in model.operations for result in operation.outputs}


def before_reshapes(writers: Writers, operand: Operand | None) -> Operand | None:
    """Return what an operand was before it, or what it is, got another shape."""
    while (writer := writers.get(operand)) is not None and writer.definition.alias:
        first = writer.inputs[0]
        if first is None or first.type.dtype is not writer.outputs[0].type.dtype:
            break
        operand = first
    return operand
