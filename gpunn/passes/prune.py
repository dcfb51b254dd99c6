"""Removal of operations without an effect, without readers, or that readers do themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gpunn.graph.exchange import replace_inputs, replace_outputs
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.ops.movement.basic import concat
from gpunn.ops.movement.repeat import broadcast_to
from gpunn.ops.movement.strided_slice import selection, strided_slice


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


def bypass_broadcasts(model: Graph) -> Graph:
    """Let operations that broadcast their inputs read what was repeated for them as it was before.

    They do so if another input has the shape of the result.
    """
    sources = {o.outputs[0]: o.inputs[0] for o in model.operations if o.definition is broadcast_to}
    if not sources:
        return model
    operations = [_broadcasting(operation, sources) for operation in model.operations]
    return model if operations == model.operations else prune_unread(model.with_operations(operations))


def bypass_concats(model: Graph) -> Graph:
    """Let slices of a concatenation read the operand that has all that they take."""
    joined: dict[Operand | None, Operation] = {
        o.outputs[0]: o for o in model.operations if o.definition is concat and o.activation is None
    }
    if not joined:
        return model
    operations = [
        _slicing_part(o, joined.get(o.inputs[0])) if o.definition is strided_slice else o
        for o in model.operations
    ]
    return model if operations == model.operations else prune_unread(model.with_operations(operations))


def _slicing_part(taken: Operation, joined: Operation | None) -> Operation:
    """Return a slice of the operand of a concatenation that has all it takes; itself if there is none."""
    if joined is None:
        return taken
    whole = joined.outputs[0].type
    axis, first = joined.call().axis(joined.attrs["axis"], whole.rank), 0
    places = selection(taken.call())[axis]
    for part in joined.inputs if places else ():
        assert part is not None
        count, same = part.type.shape[axis], part.type == whole.with_shape(part.type.shape)
        if same and first <= min(places) <= max(places) < first + count:
            end = places[-1] - first + (1 if places.step > 0 else -1)
            ends = {"begin": places[0] - first, "end": end if end >= 0 else None}
            attrs = {k: (*taken.attrs[k][:axis], v, *taken.attrs[k][axis + 1 :]) for k, v in ends.items()}
            return replace(taken, inputs=(part,), attrs={**taken.attrs, **attrs})
        first += count
    return taken


def _broadcasting(operation: Operation, sources: Mapping[Operand, Operand | None]) -> Operation:
    axes = operation.definition.algebra.axes
    if axes is None or not axes.broadcast:
        return operation
    for given in operation.inputs:
        while given is not None and (source := sources.get(given)) is not None:
            inputs = tuple(source if i is given else i for i in operation.inputs)
            shapes = [i.type.shape for i in inputs if i is not None]
            if np.broadcast_shapes(*shapes) != operation.outputs[0].type.shape:
                break
            operation, given = replace(operation, inputs=inputs), source
    return operation
