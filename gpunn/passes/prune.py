"""Removal of operations without an effect, and of operations without readers."""

from __future__ import annotations

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.passes.rewrite import replace_inputs, replace_outputs


def prune_unread(model: Graph) -> Graph:
    """Drop operations of which no result leads to one of the model: to an output, or into a variable."""
    wanted = model.results
    kept: list[Operation] = []
    for operation in reversed(model.operations):
        if wanted.isdisjoint(operation.outputs):
            continue
        wanted.update(i for i in operation.inputs if i is not None)
        kept.append(operation)
    if len(kept) == len(model.operations):
        return model
    return model.with_operations(reversed(kept))


def bypass_identities(model: Graph) -> Graph:
    """Drop operations that hand their input on as it is; whoever read the result reads the input.

    Where the result is one of the model (an output, a variable's next value), the operation that computes
    the input writes it directly, unless its own result is one too.
    """
    wanted = model.results
    exchange: dict[Operand, Operand] = {}
    renamed: dict[Operand, Operand] = {}
    kept: list[Operation] = []
    for operation in model.operations:
        operation = replace_inputs(operation, exchange)
        source, result = operation.inputs[0], operation.outputs[0]
        if source is None or not _is_identity(operation):
            kept.append(operation)
        elif result not in wanted:
            exchange[result] = source
        elif source.lifetime is Lifetime.TEMPORARY and source not in wanted and source not in renamed:
            renamed[source] = result
        else:
            kept.append(operation)
    if len(kept) == len(model.operations):
        return model
    return model.with_operations([replace_outputs(replace_inputs(k, renamed), renamed) for k in kept])


def _is_identity(operation: Operation) -> bool:
    identity = operation.definition.algebra.identity
    if identity is None or operation.attrs.get("activation") is not None:
        return False
    call = operation.call()
    return call.x.quantization == call.y.quantization and identity(call)
