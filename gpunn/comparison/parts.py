"""Models whose shapes depend on values, as given inputs make them: the exact parts, joined to one graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpunn.comparison.exact import run_exact
from gpunn.graph.graph import Graph, with_graphs
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.rest import OpenBody, Part, front, parts
from gpunn.ops.op import as_tuple
from gpunn.passes import optimise
from gpunn.passes.relax import relax
from gpunn.passes.rewrite import replace_inputs
from gpunn.types import Array


def exact_parts(model: Graph, inputs: Sequence[Array]) -> tuple[Part, ...]:
    """Compute the parts that the exact values lead to."""
    return parts(model, inputs, run_exact)


def run_parts(model: Graph, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """Compute the exact outputs of a model in its initial state."""
    last = exact_parts(model, inputs)[-1]
    return run_exact(last.model, last.inputs)[: len(model.outputs)]


def path(found: Sequence[Part]) -> tuple[object, ...]:
    """What decides on the parts: samples for which it is the same have the same ones."""
    return tuple(part.model.rest.key(part.values) for part in found if part.model.rest is not None)


def joined(found: Sequence[Part], *, relaxed: bool = False) -> Graph:
    """The parts, optimised one by one, as one model; what the host does between them is an operation there.

    `relaxed`: with float16 in place of float32.
    """
    exchange: dict[Operand, Operand] = {}
    operations: list[Operation] = []
    for number, part in enumerate(found):
        changed = optimise(front(part.model))
        changed = relax(changed) if relaxed else changed
        if len(found) == 1:
            return changed
        operations += (replace_inputs(o, exchange) for o in changed.operations)
        rest = part.model.rest
        if rest is not None:
            following = found[number + 1].model
            begun = rest.begun(following)
            if begun.outputs:
                operations.append(replace_inputs(_led_along(begun, part.values, relaxed), exchange))
            given = [exchange.get(o, o) for o in rest.inputs]
            exchange.update(zip(following.inputs, given, strict=False))
    first, last = found[0].model, found[-1].model
    whole = first.with_operations(operations)
    whole.outputs = [exchange.get(o, o) for o in last.outputs[: len(first.outputs)]]
    whole.rest = None
    return whole


def _led_along(operation: Operation, values: tuple[Array, ...], relaxed: bool) -> Operation:
    """The host's operation in a model that was made for its results, which it gives in place of others.

    So a backend whose own values lead to other shapes goes on with the exact ones.
    """
    definition = operation.definition

    def follow(*inputs: Array, **attrs: Any) -> tuple[Array, ...]:
        found = as_tuple(definition.reference(*inputs, **attrs))
        return found if [v.shape for v in found] == [v.shape for v in values] else values

    changed = with_graphs(operation, OpenBody, lambda body: replace(body, relaxed=relaxed))
    return replace(changed, custom=replace(definition, reference=follow))
