"""Operators of a file that wait for types or values which only a run knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpunn.errors import FormatError, ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand
from gpunn.graph.pending import FOR_SHAPES, FOR_VALUES, PendingOperation
from gpunn.graph.tensors import is_short
from gpunn.importers.common.node import ComputedError, RefusedError
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.operator_builder import OperatorBuilder
from gpunn.importers.tflite.subgraph import FileOperator
from gpunn.importers.tflite.target import Target
from gpunn.importers.tflite.tensors import Tensors
from gpunn.types import OpenShape


@dataclass(frozen=True, slots=True)
class Waiting:
    """An operator that is added to a graph once that knows enough (PendingOperation.add).

    Its results are the operator's outputs and then what it makes of the variables among its inputs, at
    `states`; all are called by `titles`. `tensors` are those of its subgraph.
    """

    tensors: Tensors
    operator: FileOperator
    node: Node
    titles: tuple[str, ...]
    states: tuple[int, ...]

    def pend(self, graph: Graph, node: Node, error: ComputedError | None = None) -> tuple[Operand, ...]:
        """Let the operator wait in a graph, for types of its inputs, or for the value that an error names.

        With that it asks for all that may be shapes, which are read back together.
        """
        tensors = self.tensors.graph.tensors
        outputs = []
        for index, title in zip(self.operator.outputs, self.titles, strict=False):
            tensor = tensors[index]
            if tensor.type is None:
                raise RefusedError(f"output {tensor.name} is {tensor.type_name}, which is not supported")
            shape = tensor.open if tensor.open.is_open else OpenShape(None)
            outputs.append(Operand(title, tensor.type, Lifetime.TEMPORARY, open=shape))
        states = zip((node.operand(k) for k in self.states), self.titles[len(outputs) :], strict=True)
        after = (Operand(title, o.type, Lifetime.TEMPORARY, open=OpenShape(None)) for o, title in states)
        others = (o for o in node.inputs if o is not None and is_short(o.type))
        unknown = (o for o in others if graph.value_of(o) is None)
        entry = PendingOperation(
            self.operator.code.lower(),
            node.origin,
            node.inputs,
            (*outputs, *after),
            self,
            () if error is None else tuple(dict.fromkeys((error.operand, *unknown))),
            reason=FOR_SHAPES if error is None else f"{error}: {FOR_VALUES}",
        )
        return graph.pend(entry)

    def __call__(self, graph: Graph, inputs: Sequence[Operand | None]) -> tuple[Operand, ...]:
        """Add the operator to a graph that knows the types of its inputs, and return its results there."""
        context = self.tensors.context.again(graph)
        unfold = context.unfolding.count
        node = replace(self.node, inputs=tuple(inputs), value_of=graph.value_of, unfold=unfold)
        target = Target.alone(graph)
        tensors = Tensors(context, self.tensors.graph, target)
        count = len(self.operator.outputs)
        written_by = (self.operator.inputs[k] for k in self.states)
        tensors.titles.update(
            (i, title) for i, title in zip(written_by, self.titles[count:], strict=True) if i is not None
        )
        try:
            outputs, written = OperatorBuilder(tensors, target).add(node, self.operator, self.titles[:count])
            tensors.store(node.origin, self.operator, outputs)
        except ComputedError as error:
            return self.pend(graph, node, error)
        except RefusedError as refusal:
            context.unsupported.add(str(refusal), self.operator.kind, self.operator.place)
            context.unsupported.fail()
        except FormatError as error:  # not the file's fault, but that of values
            raise ModelError(str(error)) from None
        return (*outputs, *(written.get(k, node.operand(k)) for k in self.states))
