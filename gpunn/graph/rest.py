"""Models whose shapes depend on values: what they come to once these are known."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from gpunn.errors import UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.reshape import rebuilt
from gpunn.ops.op import as_tuple
from gpunn.types import Array, TensorType

Evaluate = Callable[[Graph, Sequence[Array]], tuple[Array, ...]]


@dataclass(frozen=True, slots=True)
class Rest:
    """What follows a model's operations where it cannot be planned without their results.

    The model's variables are inputs of front() then, behind the others, and their next values outputs of the
    last rest, behind the others: nothing that is built for some values can keep them for other ones.
    `operation`, whose inputs are operands of the model, is the host's: its results are values that the rest
    is built for (`by_value`), or further inputs of the rest, built for their shapes. `inputs` are operands of
    the model that are inputs of the rest, in order, before those. `build` makes the rest, which computes the
    outputs, or may have a rest itself; it raises ModelError where the results do not fit.
    """

    operation: Operation
    reason: str
    inputs: tuple[Operand, ...]
    by_value: bool
    build: Callable[[Sequence[Array]], Graph]

    @property
    def where(self) -> str:
        """At which operation the rest begins, and why."""
        return f"{self.operation.origin}: {self.reason}"

    def split(self, outputs: Sequence[Array]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Of what front() gives: the inputs of the rest, and what the rest is built for."""
        count = len(self.inputs)
        reference, attrs = self.operation.definition.reference, self.operation.attrs
        results = as_tuple(reference(*outputs[count:], **attrs))
        inputs = tuple(outputs[:count])
        return (inputs if self.by_value else (*inputs, *results)), results

    def begun(self, rest: Graph) -> Operation:
        """The host's operation once the model that it led to has been built: with results, if it has any."""
        return replace(self.operation, outputs=tuple(rest.inputs[len(self.inputs) :]))

    def key(self, results: Sequence[Array]) -> tuple[Hashable, ...]:
        """What decides on the rest."""
        return tuple((r.shape, r.tobytes() if self.by_value else b"") for r in results)


@dataclass(frozen=True, slots=True)
class OpenBody:
    """A graph as an attribute (gpunn.ops.control.Body) whose shapes only a run tells: it is built for them.

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

    def evaluate(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        shapes = [x.shape for x in inputs]
        same = shapes == [i.type.shape for i in self.model.inputs]
        last = parts(self.model if same else rebuilt(self.model, shapes), inputs, Graph.evaluate)[-1]
        return last.model.evaluate(last.inputs)[: len(self.model.outputs)]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a model, its inputs, and the values that what follows it was built for."""

    model: Graph
    inputs: tuple[Array, ...]
    values: tuple[Array, ...] = ()


def parts(model: Graph, inputs: Sequence[Array], evaluate: Evaluate) -> tuple[Part, ...]:
    """The parts of a model, in order, that the values lead to from its initial state; of most there is one.

    The last one is left to be evaluated.
    """
    found: list[Part] = []
    arrays = tuple(inputs) if model.rest is None else (*inputs, *model.variables.values())
    while model.rest is not None:
        following, values = model.rest.split(evaluate(front(model), arrays))
        found.append(Part(model, arrays, values))
        model, arrays = model.rest.build(values), following
    return (*found, Part(model, arrays))


def expect_whole(model: Graph, what: str) -> Graph:
    """The model, unless it has a rest: then UnsupportedError saying what cannot be done."""
    if model.rest is not None:
        raise UnsupportedError(f"{what} a model with shapes that depend on values: {model.rest.where}")
    return model


def front(model: Graph) -> Graph:
    """The operations that can be planned at once; where there is a rest the outputs are what it needs."""
    if model.rest is None:
        return model
    needed = [o for o in model.rest.operation.inputs if o is not None]
    inputs, outputs = [*model.inputs, *model.variables], [*model.rest.inputs, *needed]
    return replace(model, inputs=inputs, outputs=outputs, variables={}, updates={}, rest=None, source=None)
