"""Layer: a layer of a file that can be added to a graph, at once or when what it needs is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand
from gpunn.graph.pending import PendingOperation
from gpunn.importers.common.answers import Steps
from gpunn.importers.common.builder import Builder
from gpunn.importers.common.names import Names
from gpunn.importers.common.node import ComputedError, RefusedError
from gpunn.importers.common.refusals import Refusals
from gpunn.importers.coreml.features import out_of_network
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.node import Node
from gpunn.importers.coreml.rules.table import RULES
from gpunn.types import DType, OpenShape, TensorType


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of the type `kind` with its parameters; its outputs get the names `titles`.

    Where types of its inputs, or values that its rule asks for, are known only in a run, it becomes a pending
    operation.
    """

    kind: str
    origin: str
    params: Message
    legacy: bool
    titles: tuple[str, ...]

    def add(self, graph: Graph, inputs: Sequence[Operand | None]) -> tuple[Operand, ...]:
        """Add the layer to a graph, on operands of it; return its outputs.

        Raises RefusedError if it cannot be expressed, FormatError and ModelError if it contradicts itself.
        """
        if any(map(graph.waits, inputs)):
            return self._wait(graph, inputs)
        node = Node(
            self.origin,
            tuple(inputs),
            value_of=graph.value_of,
            params=self.params,
            legacy=self.legacy,
            count=len(self.titles),
        )
        try:
            answer = self.answer(node)
        except ComputedError as error:
            return self._wait(graph, inputs, error.operand)
        count = len(answer.outputs or ())
        if count != len(self.titles):
            node.corrupt(f"expected {count} outputs, got {len(self.titles)}")
        found, _ = Builder(graph, Names()).add(answer, self.origin, self.titles)
        return found

    def answer(self, node: Node) -> Steps:
        """Return what the rule of the layer's type answers."""
        return node.answer(RULES[self.kind](node))

    def _wait(self, graph: Graph, inputs: Sequence[Operand | None], *asks: Operand) -> tuple[Operand, ...]:
        """Keep the layer as pending; return its outputs, whose shapes are unknown."""
        type, open = TensorType(DType.FLOAT32, ()), OpenShape(None)
        outputs = tuple(Operand(title, type, Lifetime.TEMPORARY, open=open) for title in self.titles)
        entry = PendingOperation(self.kind, self.origin, tuple(inputs), outputs, self.add_later, asks)
        return graph.pend(entry)

    def add_later(self, graph: Graph, inputs: Sequence[Operand | None]) -> tuple[Operand, ...]:
        """Add the layer to a graph that knows more. Raises UnsupportedError if it cannot be expressed."""
        try:
            return self.add(graph, inputs)
        except RefusedError as refusal:
            refusals = Refusals(graph.name)
            refusals.add(str(refusal), self.kind, self.origin)
            refusals.fail()


class Output(Layer):
    """An output of the network as callers get it; see out_of_network()."""

    def answer(self, node: Node) -> Steps:
        """Return the steps to the shape that callers get."""
        x = node.only()
        return node.answer(node.add("reshape", x, shape=out_of_network(self.legacy, x.type.shape)))
