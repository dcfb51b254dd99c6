"""complete(): a graph built again with more known; cut(): a graph divided where values must be known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gpunn.graph.bodies import with_bodies
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.ops.op import as_tuple
from gpunn.types import Array, TensorType

STATED = ("name", "labels", "classes", "pixel_scale", "scoring", "warnings", "limits")  # beside operands
Run = Callable[[Operation, Sequence[Array | None]], tuple[Array, ...]]


def complete(
    graph: Graph, types: Sequence[TensorType | None], values: Mapping[Operand, Array] | None = None
) -> Graph:
    """Return the graph for inputs of these types, in order, and with these values of inputs known.

    An input whose type is None stays unknown.

    Its operations are repeated, and the pending ones added as far as they go: what still waits is pending in
    the result. Values stay operands, for the shapes that follow from them are all that is decided by them.
    Raises ModelError where types or values do not fit the operations.
    """
    made, new = like(graph), dict[Operand, Operand]()
    for operand, type in zip(graph.inputs, types, strict=True):
        new[operand] = same_input(made, operand, type)
        if values is not None and operand in values:
            made.values[new[operand]] = values[operand]
    repeat(graph, made, new)
    made.output(*(new.get(o, o) for o in graph.outputs))
    return made


def like(graph: Graph) -> Graph:
    """Return a graph without operands that has all else that a file states of another one."""
    return stating(Graph(), graph)


def stating(made: Graph, graph: Graph) -> Graph:
    """Let a graph say of itself what another one says, and return it."""
    for name in STATED:
        setattr(made, name, getattr(graph, name))
    return made


def repeat(graph: Graph, made: Graph, new: dict[Operand, Operand]) -> None:
    """Add the variables and operations of a graph to another one, the pending ones as far as they go.

    `new` has what the inputs stand for there, and gets the same for all results.
    """
    for variable, value in graph.variables.items():
        new[variable] = made.variable(variable.name, variable.type, value)
    for operation in graph.operations:
        new.update(zip(operation.outputs, _repeat(made, operation, new), strict=True))
    for entry in graph.pending:
        new.update(zip(entry.outputs, made.resume(entry, _renewed(entry.inputs, new)), strict=True))
    for variable, operand in graph.updates.items():
        made.update(new[variable], new.get(operand, operand))


def same_input(made: Graph, operand: Operand, type: TensorType | None) -> Operand:
    """Add an input like that of another graph, but of this type; None: a run tells its shape."""
    if type is None:
        return made.unknown_input(operand.name, operand.type)
    whole = operand.open is not None and operand.open.extents is None
    axes = operand.open.axes(type.shape) if operand.open else ()
    open = None if whole else axes
    return made.input(operand.name, type, open=open, default=operand.default, rounds=operand.rounds)


def _renewed(inputs: Iterable[Operand | None], new: Mapping[Operand, Operand]) -> list[Operand | None]:
    return [i and new.get(i, i) for i in inputs]


def _repeat(made: Graph, operation: Operation, new: Mapping[Operand, Operand]) -> tuple[Operand, ...]:
    """Add an operation to another graph, with its bodies for the types that its inputs have there."""
    inputs = _renewed(operation.inputs, new)
    return made.add(
        operation.custom or operation.op,
        inputs,
        _bodies_for(operation, [i.type for i in inputs if i is not None]),
        origin=operation.origin,
        names=[result.name for result in operation.outputs],
        quantization=[result.type.quantization for result in operation.outputs],
        open=[result.open for result in operation.outputs],
        hybrid=any(result.hybrid for result in operation.outputs),
    )


def _bodies_for(operation: Operation, types: Sequence[TensorType]) -> Mapping[str, Any]:
    """Return the attributes, with bodies for inputs of these types; each takes the last ones."""

    def fitting(body: Graph) -> Graph:
        wanted = types[len(types) - len(body.inputs) :]
        return complete(body, [i.type.with_shape(t.shape) for i, t in zip(body.inputs, wanted, strict=True)])

    return with_bodies(operation, fitting).attrs


def run_on_host(operation: Operation, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
    """Compute the results of an operation whose shapes only this tells, by its op's reference."""
    return as_tuple(operation.definition.reference(*inputs, **operation.attrs))


class Cut(NamedTuple):
    """A graph with pending operations, cut in two.

    `front` is what can run at once. Its outputs are what the rest needs; the values of the outputs `asked`,
    by number, are asked for. Then the host runs `operations`. The inputs of `following`, in which everything
    is pending, are the first outputs of `front`, those asked for among them, and then the results of
    `operations`. Neither graph has variables: see without_state().
    """

    front: Graph
    asked: tuple[int, ...]
    operations: tuple[Operation, ...]
    following: Graph

    def run_operations(
        self, operations: Sequence[Operation], outputs: Sequence[Array], run: Run = run_on_host
    ) -> tuple[Array, ...]:
        """Let `run` do what the host runs on the outputs of `front`; return the inputs of `following`.

        `operations` are those of this cut, with the same graphs in them or these compiled.
        """
        values = dict(zip(self.front.outputs, outputs, strict=True))
        for operation in operations:
            results = run(
                operation, [None if o is None else values.get(o, o.value) for o in operation.inputs]
            )
            values.update(zip(operation.outputs, results, strict=True))
        return tuple(values[o] for o in self.following.inputs)

    def follow(self, inputs: Sequence[Array], numbers: Iterable[int]) -> tuple[Graph, tuple[int, ...]]:
        """Complete `following` for inputs, and for the values of those of these numbers.

        `numbers` begin with `asked`. Returns the graph and the numbers whose values it asks for next; where
        there are any, it should be completed with these, too.
        """
        operands = self.following.inputs
        types = [o.type.with_shape(x.shape) for o, x in zip(operands, inputs, strict=True)]
        known = {operands[k]: np.asarray(inputs[k], operands[k].type.dtype.numpy) for k in numbers}
        found = complete(self.following, types, known)
        found.values.clear()  # they have decided on types, and are not needed any more
        return found, asked_inputs(found)


def without_state(graph: Graph) -> Graph:
    """Return the graph with variables as its last inputs, and their next values as its last outputs."""
    return replace(
        graph,
        inputs=[*graph.inputs, *graph.variables],
        outputs=[*graph.outputs, *(graph.updates.get(v, v) for v in graph.variables)],
        variables={},
        updates={},
        template=None,
    )


def asked_inputs(graph: Graph) -> tuple[int, ...]:
    """Return the inputs, by number, whose values pending operations ask for."""
    asked = {o for entry in graph.pending for o in entry.asks}
    return tuple(k for k, operand in enumerate(graph.inputs) if operand in asked)


def cut(graph: Graph) -> Cut:
    """Cut a graph without variables in front of its pending operations."""
    waiting = [entry for entry in graph.pending if entry.operation is None]
    running = tuple(entry.operation for entry in graph.pending if entry.operation is not None)
    here = {*graph.inputs, *(o for operation in graph.operations for o in operation.outputs)}
    read = [o for entry in waiting for o in entry.inputs if o in here]
    crossing = list(dict.fromkeys(o for o in (*read, *graph.outputs) if o is not None and o in here))
    asked = {o for entry in waiting for o in entry.asks}
    others = (*asked, *(o for operation in running for o in operation.inputs if o is not None))
    outputs = list(dict.fromkeys((*crossing, *(o for o in others if o.value is None))))
    following = Graph(graph.name, [*crossing, *(o for r in running for o in r.outputs)], list(graph.outputs))
    following.pending.extend(waiting)
    front = replace(graph, outputs=outputs, pending=[], values={}, template=None)
    return Cut(front, tuple(k for k, o in enumerate(outputs) if o in asked), running, following)
