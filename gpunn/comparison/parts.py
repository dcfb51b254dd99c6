"""Models whose shapes depend on values, as given inputs make them: part by part, or joined to one graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpunn.comparison.exact import run_exact
from gpunn.model import Model
from gpunn.operation import Operand, Operation
from gpunn.ops.op import as_tuple
from gpunn.passes.rewrite import replace_inputs
from gpunn.rest import front
from gpunn.types import Array


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a model, its exact inputs, and the values that what follows it was built for."""

    model: Model
    inputs: tuple[Array, ...]
    values: tuple[Array, ...] = ()


def parts(model: Model, inputs: Sequence[Array]) -> tuple[Part, ...]:
    """The parts of a model, in order, as the exact values lead to them; of most models there is one."""
    found: list[Part] = []
    arrays = tuple(inputs)
    while model.rest is not None:
        following, values = model.rest.split(run_exact(front(model), arrays))
        found.append(Part(model, arrays, values))
        model, arrays = model.rest.build(values), following
    return (*found, Part(model, arrays))


def run_parts(model: Model, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """The exact outputs of a model in its initial state."""
    last = parts(model, inputs)[-1]
    return run_exact(last.model, last.inputs)


def path(found: Sequence[Part]) -> tuple[object, ...]:
    """What decides on the parts: samples for which it is the same have the same ones."""
    return tuple(part.model.rest.key(part.values) for part in found if part.model.rest is not None)


def joined(found: Sequence[Part], change: Callable[[Model], Model]) -> Model:
    """The parts, changed one by one, as one model; what the host does between them is an operation there."""
    if len(found) == 1:
        return change(found[0].model)
    exchange: dict[Operand, Operand] = {}
    operations: list[Operation] = []
    for part, following in zip(found, (*found[1:], None), strict=True):
        changed = change(front(part.model))
        operations += (replace_inputs(o, exchange) for o in changed.operations)
        rest = part.model.rest
        if rest is None or following is None:
            break
        begun = rest.begun(following.model)
        if begun.outputs:
            operations.append(replace_inputs(_led_along(begun, part.values), exchange))
        given = [exchange.get(o, o) for o in rest.inputs]
        exchange.update(zip(following.model.inputs, given, strict=False))
    first, last = found[0].model, found[-1].model
    whole = front(first).with_operations(operations)
    whole.outputs = [exchange.get(o, o) for o in last.outputs]
    return whole


def _led_along(operation: Operation, values: tuple[Array, ...]) -> Operation:
    """The host's operation in a model that was made for its results, which it gives in place of others.

    So a backend whose own values lead to other shapes goes on with the exact ones.
    """
    definition = operation.definition

    def follow(*inputs: Array) -> tuple[Array, ...]:
        found = as_tuple(definition.reference(*inputs))
        return found if [v.shape for v in found] == [v.shape for v in values] else values

    return replace(operation, custom=replace(definition, reference=follow))
