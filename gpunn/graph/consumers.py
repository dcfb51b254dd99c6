"""The operations that read an operand."""

from __future__ import annotations

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation


def consumers(model: Graph) -> dict[Operand, list[Operation]]:
    """Return for each operand the operations that read it, once for each time they do."""
    found: dict[Operand, list[Operation]] = {}
    for operation in model.operations:
        for operand in operation.inputs:
            if operand is not None:
                found.setdefault(operand, []).append(operation)
    return found
