"""Models whose shapes depend on values, as given inputs make them: the exact parts, joined to one graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpunn.comparison.exact import evaluations, run_exact, start
from gpunn.graph.bodies import with_graphs
from gpunn.graph.exchange import replace_inputs
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.parts import OpenBody, Part, parts
from gpunn.graph.structure import structure
from gpunn.ops.op import as_tuple
from gpunn.passes import optimise
from gpunn.passes.relax import relax
from gpunn.types import Array


def exact_parts(model: Graph, inputs: Sequence[Array]) -> tuple[Part, ...]:
    """Compute the parts that the exact values lead to."""
    return parts(model, inputs, run_exact)


def run_parts(model: Graph, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """Compute the exact outputs of a model in its initial state."""
    last = exact_parts(model, inputs)[-1]
    return run_exact(last.graph, last.inputs)[: len(model.outputs)]


def path(found: Sequence[Part]) -> tuple[object, ...]:
    """Return the key of the parts: samples with the same key have the same parts."""
    return tuple(structure(part.front, part.cut.operations if part.cut else ()) for part in found[1:])


def joined(found: Sequence[Part], *, relaxed: bool = False) -> Graph:
    """Join the parts, optimised one by one, to one model; the host's work between them is an operation.

    `relaxed`: with float16 in place of float32.
    """
    exchange: dict[Operand, Operand] = {}
    operations: list[Operation] = []
    for number, part in enumerate(found):
        changed = optimise(_following(part) if number else part.front)
        changed = relax(changed) if relaxed else changed
        if len(found) == 1:
            return changed
        operations += (replace_inputs(o, exchange) for o in changed.operations)
        if part.cut is not None:
            crossing = dict(zip(part.cut.following.inputs, found[number + 1].graph.inputs, strict=True))
            values = dict(zip(part.cut.following.inputs, part.following, strict=True))
            for operation in part.cut.operations:
                begun = replace(operation, outputs=tuple(crossing.pop(o) for o in operation.outputs))
                led = _led_along(begun, tuple(values[o] for o in operation.outputs), relaxed)
                operations.append(replace_inputs(led, exchange))
            exchange.update((new, exchange.get(old, old)) for old, new in crossing.items())
    first, last = found[0].graph, found[-1].graph
    whole = replace(first.with_operations(operations), updates={}, pending=[])
    whole.outputs = [exchange.get(o, o) for o in last.outputs[: len(first.outputs)]]
    return whole


def _following(part: Part) -> Graph:
    """Return the operations of a later part; if their shapes followed from values, they keep these shapes."""
    values, changed = start(part.front, part.inputs), []
    for operation in evaluations(part.front, values):
        found = tuple(values[o] for o in operation.outputs) if operation.asks else ()
        changed.append(_led_along(operation, found, False) if found else operation)
    return part.front.with_operations(changed)


def _led_along(operation: Operation, values: tuple[Array, ...], relaxed: bool) -> Operation:
    """Return an operation for a model that was made for its results, which replace those of other shapes.

    So a backend whose own values lead to other shapes goes on with the exact ones.
    """
    definition = operation.definition

    def follow(*inputs: Array, **attrs: Any) -> tuple[Array, ...]:
        found = as_tuple(definition.reference(*inputs, **attrs))
        return found if [v.shape for v in found] == [v.shape for v in values] else values

    changed = with_graphs(operation, OpenBody, lambda body: replace(body, relaxed=relaxed))
    return replace(changed, custom=replace(definition, reference=follow))
