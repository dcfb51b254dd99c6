"""Operations and graphs that read or write other operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation


def replace_inputs(operation: Operation, exchange: Mapping[Operand, Operand]) -> Operation:
    """Return the operation with other operands as inputs."""
    if not exchange or not any([i in exchange for i in operation.inputs if i is not None]):
        return operation
    inputs = tuple([None if i is None else exchange.get(i, i) for i in operation.inputs])
    return replace(operation, inputs=inputs)


def replace_outputs(operation: Operation, exchange: Mapping[Operand, Operand]) -> Operation:
    """Return the operation with other operands as outputs."""
    if not exchange or not any([o in exchange for o in operation.outputs]):
        return operation
    return replace(operation, outputs=tuple(exchange.get(o, o) for o in operation.outputs))


def with_operands(graph: Graph, exchange: Mapping[Operand, Operand]) -> Graph:
    """Return the same graph, whose operations, outputs and variables take other operands."""
    changed = graph.with_operations(replace_inputs(o, exchange) for o in graph.operations)
    changed.outputs = [exchange.get(o, o) for o in changed.outputs]
    changed.updates = {v: exchange.get(o, o) for v, o in changed.updates.items()}
    return changed
