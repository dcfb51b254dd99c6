"""Where reading a TFLite graph stops because a shape depends on values, and how it goes on with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpunn.errors import FormatError, ModelError, UnsupportedError
from gpunn.importers.tflite_file import FileGraph
from gpunn.importers.tflite_node import Computed, ComputedError, Node, RefusedError, is_short
from gpunn.model import Model
from gpunn.operation import Operand, Operation
from gpunn.ops.op import like, op
from gpunn.rest import Rest
from gpunn.types import Array, DType, TensorType

GoOn = Callable[[Model, dict[int, Operand], int], None]  # read operators from n on into a model


@dataclass(frozen=True, slots=True)
class Halt:
    """Reading has come to operator `position`, which wants the values of `needed`.

    `computed` says how the host makes its results of them; without it the operator is read again.
    """

    position: int
    code: str
    origin: str
    reason: str
    needed: tuple[Operand, ...]
    computed: Computed | None = None


def halt_for_values(position: int, code: str, node: Node, error: ComputedError) -> Halt:
    """Stop for the value of an operand, and for whatever else the operator reads that may be a shape."""
    others = (o for o in node.inputs if o is not None and o.value is None and is_short(o.type))
    needed = tuple(dict.fromkeys((error.operand, *others)))
    return Halt(position, code, node.origin, f"{error}: what follows is planned for each value", needed)


def halt_for_results(position: int, code: str, node: Node, computed: Computed) -> Halt:
    """Stop for results whose shapes follow from values."""
    reason = "the shape of the result follows from values: what follows is planned for each shape"
    return Halt(position, code, node.origin, reason, computed.inputs, computed)


def rest_of(halt: Halt, graph: FileGraph, model: Model, operands: Mapping[int, Operand], go_on: GoOn) -> Rest:
    """The rest of a subgraph, of whose tensors `operands` are known."""
    remaining = graph.operators[halt.position :]
    wanted = {*graph.outputs, *(i for operator in remaining for i in operator.inputs)}
    known = {index: operand for index, operand in operands.items() if index in wanted}
    as_values = () if halt.computed else halt.needed
    crossing = tuple(dict.fromkeys(o for o in known.values() if o.value is None and o not in as_values))

    def build(results: Sequence[Array]) -> Model:
        rest = Model(model.name)
        new = {o: rest.input(o.name, o.type) for o in crossing}
        new.update((o, rest.constant(o.name, v, o.type)) for o, v in zip(as_values, results, strict=False))
        there = {index: new.get(operand, operand) for index, operand in known.items()}
        if halt.computed:
            outputs = remaining[0].outputs
            if len(outputs) != len(results):
                raise ModelError(f"{halt.origin}: has {len(results)} results, got {len(outputs)} outputs")
            for index, value in zip(outputs, results, strict=True):
                there[index] = rest.input(
                    graph.tensors[index].name, TensorType(DType.of(value.dtype), value.shape)
                )
        try:
            go_on(rest, there, halt.position + (1 if halt.computed else 0))
        except FormatError as error:  # not the file's fault, but that of values
            raise ModelError(str(error)) from None
        return rest

    return Rest(_on_host(halt), halt.reason, crossing, halt.computed is None, build)


def _on_host(halt: Halt) -> Operation:
    """What the host does before the rest."""

    def read_back(*values: Array) -> tuple[Array, ...]:
        return values

    def compute(*values: Array) -> tuple[Array, ...]:
        assert halt.computed is not None
        stored = (np.asarray(v, o.type.dtype.numpy) for v, o in zip(values, halt.needed, strict=True))
        try:
            return halt.computed.function(*stored)
        except RefusedError as refusal:
            raise UnsupportedError(f"{halt.origin}: {refusal}") from None
        except FormatError as error:
            raise ModelError(str(error)) from None

    name = halt.code.lower() if halt.computed else "read_back"
    declare = op(like, name=name, host_reason=halt.reason, raw=True, strings=True)
    definition = declare(compute if halt.computed else read_back)
    return Operation(name, halt.needed, (), {}, halt.origin, definition)
