"""Reverse-mode differentiation: from a graph to the graph that also computes gradients of a loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpunn.errors import ModelError, UnsupportedError
from gpunn.graph.exchange import replace_inputs
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.ops.check import FLOATS
from gpunn.ops.gradient import Backward, Symbol, operand_gradients
from gpunn.passes.expand import GraphExpansion, written
from gpunn.types import DType


@dataclass(frozen=True, slots=True)
class Differentiation:
    """A graph with the operations that compute gradients, which has no outputs yet.

    `parameters` are in the order asked for: constants have become variables of the same names, which begin
    with the constants' values; other operands are those of the source. `gradients` have their types. All
    other operands of the source are operands of `graph`, too, and so are its inputs, variables and updates.
    """

    graph: Graph
    loss: Operand
    parameters: tuple[Operand, ...]
    gradients: tuple[Operand, ...]


def differentiate(graph: Graph, loss: Operand, parameters: Sequence[Operand]) -> Differentiation:
    """Return a copy of a graph that also computes the gradients of a loss with respect to parameters.

    loss: one element, float32 or float16. parameters: constants, inputs, variables or results of the graph,
    of the loss's dtype. What is on no way from a parameter to the loss is not differentiated. Gradients of
    operands that are read several times are summed, and where the loss does not depend on a parameter they
    are zeros.

    Raises ModelError for operands that the graph does not have, or not of these types, and for a graph with
    pending operations. Raises UnsupportedError, naming all of them, if operations on the way have no
    gradient.
    """
    _check(graph, loss, parameters)
    exchange, source = _with_variables(graph, parameters)
    chosen = tuple(exchange.get(p, p) for p in parameters)
    source = _in_differentiable_ops(source, loss, chosen)
    road = _road(source.operations, loss, chosen)
    _refuse(road.operations)
    gradients = _Gradients(source, road, loss)
    for operation in reversed(road.operations):
        gradients.go_back(operation)
    return Differentiation(source, loss, chosen, tuple(gradients.of(p) for p in chosen))


def _check(graph: Graph, loss: Operand, parameters: Sequence[Operand]) -> None:
    if graph.pending:
        raise ModelError(f"model {graph.name!r} cannot be differentiated: {graph.pending[0].where}")
    known = {*graph.operands()}
    for operand in (loss, *parameters):
        if operand not in known:
            raise ModelError(f"{operand!r} is no operand of model {graph.name!r}")
        if operand.type.dtype not in FLOATS or operand.type.quantization is not None:
            raise ModelError(f"a gradient needs real numbers, {operand!r} has none")
    if loss.type.size != 1:
        raise ModelError(f"the loss must have one element, got {loss!r}")
    if len({*parameters}) < len(parameters):
        raise ModelError("a parameter is named twice")


def _with_variables(graph: Graph, parameters: Sequence[Operand]) -> tuple[Mapping[Operand, Operand], Graph]:
    """Return a copy without outputs that has variables for constants among the parameters, and which."""
    copy = graph.with_operations(())
    copy.outputs = []
    exchange = {p: copy.variable(p.name, p.type, p.value) for p in parameters if p.value is not None}
    operations = [replace_inputs(o, exchange) for o in graph.operations]
    changed = copy.with_operations(operations)
    changed.updates = {v: exchange.get(o, o) for v, o in graph.updates.items()}
    return exchange, changed


@dataclass(frozen=True, slots=True)
class _Road:
    """The operations between parameters and the loss, and the operands on which the parameters act."""

    operations: tuple[Operation, ...]
    moved: frozenset[Operand]


def _road(operations: Iterable[Operation], loss: Operand, parameters: Iterable[Operand]) -> _Road:
    """Find the operations on which the parameters act by real numbers, and that act on the loss."""
    moved, forwards = {*parameters}, []
    for operation in operations:
        if not moved.isdisjoint(operation.inputs) and any(map(_real, operation.outputs)):
            forwards.append(operation)
            moved.update(filter(_real, operation.outputs))
    acting, found = {loss}, []
    for operation in reversed(forwards):
        if not acting.isdisjoint(operation.outputs):
            found.append(operation)
            acting.update(i for i in operation.inputs if i is not None and _real(i))
    return _Road(tuple(reversed(found)), frozenset(moved & acting))


def _real(operand: Operand) -> bool:
    """Tell whether small changes of an operand act on the loss; those of complex numbers do."""
    type = operand.type
    return type.dtype in (*FLOATS, DType.COMPLEX64) or type.quantization is not None


def _in_differentiable_ops(graph: Graph, loss: Operand, parameters: Sequence[Operand]) -> Graph:
    """Write operations on the road without a gradient in other ops, and fused activations as operations."""
    while True:
        road = {*_road(graph.operations, loss, parameters).operations}
        parts = [o for whole in graph.operations for o in (_parts(whole) if whole in road else (whole,))]
        if parts == graph.operations:
            return graph
        graph = graph.with_operations(parts)


def _parts(operation: Operation) -> Iterator[Operation]:
    """Yield the operations that an operation consists of for its gradient; itself if it cannot be divided."""
    if operation.definition.fusible and operation.activation is not None and not operation.integer:
        yield from _without_activation(operation, operation.activation)
    elif operation.definition.gradient is None and not operation.integer:
        yield from written(operation, operation.definition.formula or operation.definition.expand)
    else:
        yield operation


def _without_activation(operation: Operation, activation: str) -> Iterator[Operation]:
    (result,) = operation.outputs
    before = replace(result, name=f"{result.name}: before {activation}", lifetime=Lifetime.TEMPORARY)
    attrs = {**operation.attrs, "activation": None}
    yield replace(operation, outputs=(before,), attrs=attrs)
    yield Operation(activation, (before,), (result,), {}, operation.origin)


def _refuse(operations: Iterable[Operation]) -> None:
    """Raise UnsupportedError if any of these operations has no gradient."""
    reasons = []
    for operation in operations:
        if operation.integer:
            reasons.append(f"{operation.call().where} computes with quantised integers")
        elif operation.definition.gradient is None:
            reasons.append(f"{operation.call().where} has no gradient")
    if reasons:
        raise UnsupportedError("; ".join(dict.fromkeys(reasons)))


class _Gradients:
    """The gradients of a loss with respect to the operands of a graph, as far as was gone back."""

    def __init__(self, graph: Graph, road: _Road, loss: Operand) -> None:
        self._graph = graph
        self._road = road
        one = graph.constant("gradient of the loss", np.ones(loss.type.shape, loss.type.dtype.numpy))
        self._found: dict[Operand, Operand] = {loss: one}

    def of(self, parameter: Operand) -> Operand:
        """Return the gradient with respect to a parameter; zeros if there is none."""
        type = parameter.type
        found = self._found.get(parameter)
        if found is None:
            zeros = np.broadcast_to(np.zeros((), type.dtype.numpy), type.shape)
            found = self._graph.constant(f"gradient of {parameter.name}", zeros)
        return found

    def go_back(self, operation: Operation) -> None:
        """Add the gradients with respect to the operands of an operation, whose results' are known."""
        gradient = operation.definition.gradient
        assert gradient is not None
        title = f"gradient of {operation.outputs[0].name}"
        to = GraphExpansion(self._graph, title, f"{operation.origin}: gradient")
        wanted = tuple(i is not None and i in self._road.moved for i in operation.inputs)
        back = Backward(
            operation.call(),
            tuple(None if i is None else Symbol(to, i) for i in operation.inputs),
            tuple(Symbol(to, o) for o in operation.outputs),
            tuple(Symbol(to, self._found[o]) if o in self._found else None for o in operation.outputs),
            wanted,
        )
        if all(g is None for g in back.gradients):
            return
        for operand, found in zip(operation.inputs, operand_gradients(gradient, back), strict=True):
            if operand is not None and found is not None:
                self._add(operand, found)

    def _add(self, operand: Operand, found: Symbol) -> None:
        before = self._found.get(operand)
        both = found if before is None else found + Symbol(found.to, before)
        tensor = both.tensor
        assert isinstance(tensor, Operand)
        assert tensor.type == operand.type, (tensor, operand)
        self._found[operand] = tensor
