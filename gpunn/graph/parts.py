"""Graphs with pending operations, as given inputs complete them: one part after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpunn.errors import ModelError, UnsupportedError
from gpunn.graph.complete import Cut, cut, without_state
from gpunn.graph.graph import Graph
from gpunn.graph.reshape import rebuilt
from gpunn.types import Array, TensorType

Evaluate = Callable[[Graph, Sequence[Array]], tuple[Array, ...]]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a graph and its inputs.

    `graph` is everything that was left. If something follows, `cut` says where it is cut, and `following` are
    the inputs of the next part.
    """

    graph: Graph
    inputs: tuple[Array, ...]
    cut: Cut | None = None
    following: tuple[Array, ...] = ()

    @property
    def front(self) -> Graph:
        """Return what runs at once."""
        return self.graph if self.cut is None else self.cut.front


@dataclass(frozen=True, slots=True)
class OpenBody:
    """A graph as an attribute (gpunn.ops.control.Body) that is completed for the shapes of each call.

    `relaxed`: it is compiled so, whatever is around it.
    """

    model: Graph
    relaxed: bool = False

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        return self.model.input_types

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        return self.model.output_types

    @property
    def fixed(self) -> bool:
        """Return False: it takes inputs of any shapes."""
        return False

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...] | None:
        """Return the types of the outputs for inputs of these types; None where only a run tells."""
        try:
            graph = rebuilt(self.model, [type.shape for type in inputs])
        except (ModelError, UnsupportedError):  # which matters if it runs, and is raised then
            return None
        return None if graph.pending else graph.output_types

    def evaluate(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        return self.computed(inputs, Graph.evaluate)

    def computed(self, inputs: Sequence[Array], evaluate: Evaluate) -> tuple[Array, ...]:
        """Return the outputs, with each part of the graph computed by a function."""
        shapes = [x.shape for x in inputs]
        same = shapes == [i.type.shape for i in self.model.inputs]
        last = parts(self.model if same else rebuilt(self.model, shapes), inputs, evaluate)[-1]
        return evaluate(last.graph, last.inputs)[: len(self.model.outputs)]


def walk(graph: Graph) -> Iterator[Graph]:
    """Yield a graph and then the bodies of its operations, with theirs, as known before a run."""
    yield graph
    pending = (entry.operation for entry in graph.pending if entry.operation is not None)
    for operation in (*graph.operations, *pending):
        for body in operation.attrs.values():
            if isinstance(body, OpenBody):
                yield from walk(body.model)
            elif isinstance(body, Graph):
                yield from walk(body)


def constant_bytes(graph: Graph) -> int:
    """Return the bytes of a graph's constants and of the first values of variables, bodies included.

    Each array counts once, and what it repeats by strides of 0 takes no memory.
    """
    arrays: dict[int, Array] = {}
    for body in walk(graph):
        read = [*(o.inputs for o in body.operations), *(entry.inputs for entry in body.pending), body.outputs]
        values = (o.value for operands in read for o in operands if o is not None and o.value is not None)
        arrays.update((id(value), value) for value in (*values, *body.variables.values()))
    return sum(
        value.itemsize * math.prod(n for n, step in zip(value.shape, value.strides, strict=True) if step)
        for value in arrays.values()
    )


def parts(graph: Graph, inputs: Sequence[Array], evaluate: Evaluate) -> tuple[Part, ...]:
    """Return the parts of a graph, in order, for these inputs and its initial state; most graphs have one.

    `evaluate` computes a part, the last one excepted.
    """
    if not graph.pending:
        return (Part(graph, tuple(inputs)),)
    arrays = (*inputs, *graph.variables.values())
    found: list[Part] = []
    while graph.pending:
        split = cut(without_state(graph))
        following = split.run_operations(split.operations, evaluate(split.front, arrays))
        found.append(Part(graph, arrays, split, following))
        graph, arrays = _settled(split, following), following
    return (*found, Part(graph, arrays))


def _settled(split: Cut, inputs: Sequence[Array]) -> Graph:
    """Return what follows a cut, completed with all values of its inputs that it asks for."""
    numbers: tuple[int, ...] = ()
    wanted = split.asked
    while True:
        numbers = (*numbers, *wanted)
        graph, wanted = split.follow(inputs, numbers)
        if not wanted:
            return graph
