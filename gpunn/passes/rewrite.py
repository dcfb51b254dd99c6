"""Helpers of passes: absorb operations with one reader, go into bodies."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from gpunn.errors import ModelError
from gpunn.graph.bodies import with_bodies
from gpunn.graph.exchange import replace_inputs
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation

# The operation that computes an operand, where nobody else reads that and it is no result of the model.
Private = Callable[[Operand | None], Operation | None]


def single(operation: Operation) -> tuple[Graph, tuple[Operand, ...]]:
    """Make a model of one operation; also return the operands that its inputs stand for."""
    sources = tuple(dict.fromkeys(o for o in operation.inputs if o is not None and o.value is None))
    model = Graph(operation.origin or operation.op)
    stand_ins = {o: model.input(o.name, o.type) for o in sources}
    model = model.with_operations([replace_inputs(operation, stand_ins)])
    model.output(*operation.outputs)
    return model, sources


def absorb(
    model: Graph, merge: Callable[[Operation, Private], tuple[Operation, tuple[Operation, ...]] | None]
) -> Graph:
    """Walk the graph in order and let `merge` make one operation of several.

    It gets the last of them and a way to the others, and answers with the operation that does the work of
    all, and those that it absorbed, or None. The one that remains writes what the last one wrote.
    """
    readers = Counter(operand for operation in model.operations for operand in operation.inputs)
    results = model.results
    producer: dict[Operand, Operation] = {}
    kept: dict[Operation, None] = {}

    def private(operand: Operand | None) -> Operation | None:
        writer = None if operand is None else producer.get(operand)
        return None if writer is None or operand in results or readers[operand] != 1 else writer

    changed = False
    for operation in model.operations:
        found = merge(operation, private)
        if found is not None:
            changed = True
            operation, absorbed = found
            for gone in absorbed:
                del kept[gone]
        kept[operation] = None
        for result in operation.outputs:
            producer[result] = operation
    return model.with_operations(kept) if changed else model


def absorb_pairs(model: Graph, merge: Callable[[Operation, Operation, Operand], Operation | None]) -> Graph:
    """Run absorb() for two operations: `merge` gets the first, the second, and the operand between them."""

    def pair(second: Operation, private: Private) -> tuple[Operation, tuple[Operation]] | None:
        for between in second.inputs:
            first = private(between)
            if first is None or between is None:
                continue
            merged = merge(first, second, between)
            if merged is not None:
                return merged, (first,)
        return None

    return absorb(model, pair)


def allowed(operation: Operation) -> bool:
    """Tell whether the op takes these attributes: a window may become larger than check_window() allows."""
    try:
        operation.definition.infer(operation.call())
    except ModelError:
        return False
    return True


def keeps_scale(move: Operation) -> bool:
    """Tell whether an operation that moves elements keeps their real values."""
    call = move.call()
    return call.x.quantization == call.y.quantization


def with_changes(model: Graph, change: Callable[[Operation], Operation]) -> Graph:
    """Return the graph with each operation changed; the graph itself if all stay."""
    operations = list(map(change, model.operations))
    same = all(map(operator.is_, operations, model.operations))
    return model if same else model.with_operations(operations)


def with_others(model: Graph, instead: Mapping[Operation, Sequence[Operation]]) -> Graph:
    """Return the graph with others in the place of some operations; the graph itself if there are none."""
    if not instead:
        return model
    return model.with_operations([made for o in model.operations for made in instead.get(o, (o,))])


def everywhere(step: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
    """Make a pass that also changes the graphs inside operations, after those around them."""

    @functools.wraps(step)
    def apply(model: Graph) -> Graph:
        changed = step(model)
        return with_changes(changed, lambda operation: with_bodies(operation, apply))

    return apply
