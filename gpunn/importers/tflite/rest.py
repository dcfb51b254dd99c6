"""Where reading a TFLite graph stops because a shape depends on values, and how it goes on with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpunn.errors import FormatError, ModelError, UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.rest import Rest
from gpunn.importers.common.answers import Computed
from gpunn.importers.common.node import ComputedError, RefusedError, is_short
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.scope import Deferred
from gpunn.importers.tflite.subgraph import FileGraph, FileOperator
from gpunn.importers.tflite.target import Held
from gpunn.ops.call import like
from gpunn.ops.op import op
from gpunn.types import Array, DType, TensorType

GoOn = Callable[[Graph, list[dict[int, Operand]], Held], None]  # read on with known operands into a model


_FOR_VALUES = "what follows is planned for each value"
_FOR_SHAPES = "the shape of the result follows from values: what follows is planned for each shape"


@dataclass(frozen=True, slots=True)
class Halt:
    """Reading has come to an operator, and cannot go on without results of the host's `operation`.

    `results` are the tensors that these become, with their types where these follow from no array; the shapes
    do. Where it is None they are the values of the operation's inputs, with which the operator is read again.
    """

    operation: Operation
    reason: str
    results: tuple[tuple[int, TensorType | None], ...] | None = None


class HaltedError(Exception):
    """Reading has stopped in a subgraph that is inlined."""

    def __init__(self, halt: Halt) -> None:
        super().__init__(halt.reason)
        self.halt = halt


@dataclass(frozen=True, slots=True)
class Level:
    """Where reading has stopped in one of the subgraphs that are inlined in one another.

    `operands` are known of its tensors, operators from `position` on have not been read.
    """

    graph: FileGraph
    operands: Mapping[int, Operand]
    position: int

    @property
    def has_state(self) -> bool:
        """Whether the subgraph has variables."""
        return any(tensor.is_variable or tensor.is_handle for tensor in self.graph.tensors)

    def known(self) -> dict[int, Operand]:
        """The operands that are still read."""
        remaining = self.graph.operators[self.position :]
        wanted = {*self.graph.outputs, *(i for operator in remaining for i in operator.inputs)}
        return {index: operand for index, operand in self.operands.items() if index in wanted}


def halt_for_values(node: Node, error: ComputedError) -> Halt:
    """Stop for the value of an operand, and for whatever else the operator reads that may be a shape."""
    others = (o for o in node.inputs if o is not None and o.value is None and is_short(o.type))
    needed = tuple(dict.fromkeys((error.operand, *others)))
    reason = f"{error}: {_FOR_VALUES}"

    def read_back(*values: Array) -> tuple[Array, ...]:
        return tuple(map(np.asarray, values))

    definition = op(like, host_reason=reason, raw=True, strings=True)(read_back)
    operation = Operation(definition.name, needed, (), {}, node.origin, definition)
    return Halt(operation, reason)


def halt_for_results(operator: FileOperator, node: Node, computed: Computed) -> Halt:
    """Stop for results whose shapes follow from values."""

    def compute(*values: Array) -> tuple[Array, ...]:
        stored = (np.asarray(v, o.type.dtype.numpy) for v, o in zip(values, computed.inputs, strict=True))
        try:
            results = computed.function(*stored)
            if len(results) != len(operator.outputs):
                node.corrupt(f"expected {len(results)} outputs, got {len(operator.outputs)}")
            return results
        except RefusedError as refusal:
            raise UnsupportedError(f"{node.origin}: {refusal}") from None
        except FormatError as error:
            raise ModelError(str(error)) from None

    name = operator.code.lower()
    definition = op(like, name=name, host_reason=_FOR_SHAPES, raw=True, strings=True)(compute)
    operation = Operation(name, computed.inputs, (), {}, node.origin, definition)
    return Halt(operation, _FOR_SHAPES, tuple((index, None) for index in operator.outputs))


def halt_for_bodies(operator: FileOperator, node: Node, deferred: Deferred) -> Halt:
    """Stop for what subgraphs give, whose shapes are known when they have run."""
    operation = Operation(deferred.op, deferred.inputs, (), deferred.bodies, node.origin)
    results = tuple((operator.outputs[number], type) for number, type in deferred.types.items())
    return Halt(operation, _FOR_SHAPES, results)


def rest_of(halt: Halt, levels: Sequence[Level], name: str, held: Held, go_on: GoOn) -> Rest:
    """The rest of subgraphs, the outermost first; it hands on what state holds."""
    known = [level.known() for level in levels]
    by_value = halt.results is None
    as_values = tuple(o for o in halt.operation.inputs if o is not None) if by_value else ()
    needed = (*(operand for found in known for operand in found.values()), *held.values())
    crossing = tuple(dict.fromkeys(o for o in needed if o.value is None and o not in as_values))

    def build(results: Sequence[Array]) -> Graph:
        rest = Graph(name)
        new = {o: rest.input(o.name, o.type) for o in crossing}
        new.update((o, rest.constant(o.name, v, o.type)) for o, v in zip(as_values, results, strict=False))
        there = [{index: new.get(o, o) for index, o in found.items()} for found in known]
        for (index, type), value in zip(halt.results or (), results, strict=False):
            found = TensorType(DType.of(value.dtype), value.shape) if type is None else type
            title = levels[-1].graph.tensors[index].name
            there[-1][index] = rest.input(title, found.with_shape(value.shape))
        try:
            go_on(rest, there, {key: new.get(operand, operand) for key, operand in held.items()})
        except FormatError as error:  # not the file's fault, but that of values
            raise ModelError(str(error)) from None
        return rest

    return Rest(halt.operation, halt.reason, crossing, by_value, build)
