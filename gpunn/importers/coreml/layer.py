"""Layer: a layer of a file that can be added to a graph, at once or when what it needs is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpunn.errors import FormatError, ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand
from gpunn.graph.pending import PendingOperation
from gpunn.importers.common.answers import Steps
from gpunn.importers.common.builder import Builder
from gpunn.importers.common.names import Names
from gpunn.importers.common.node import ComputedError, RefusedError
from gpunn.importers.common.refusals import Refusals
from gpunn.importers.coreml.conversion import into_network, out_of_network, to_image
from gpunn.importers.coreml.features import Feature, OutputFeature, pixels_type
from gpunn.importers.coreml.file import Network
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.rules.table import RULES
from gpunn.ops.call import BeyondError
from gpunn.types import DType, OpenShape, TensorType

INSIDE = "{} (tensor)"  # the name of a tensor that callers see in another shape


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of the type `kind` with its parameters; its outputs get the names `titles`.

    Where types of its inputs, or values that its rule asks for, are known only in a run, it becomes a pending
    operation. `shown` are those titles that belong to outputs of the model: a tensor that callers get in
    another shape does not take them.
    """

    kind: str
    origin: str
    params: Message
    legacy: bool
    titles: tuple[str, ...]
    shown: frozenset[str] = frozenset()

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
        except BeyondError as error:
            raise RefusedError(error.reason) from None
        results = tuple(answer.outputs or ())
        if len(results) != len(self.titles):
            node.corrupt(f"expected {len(results)} outputs, got {len(self.titles)}")
        titles = [self._title(k, node.shape(value)) for k, value in enumerate(results)]
        found, _ = Builder(graph, Names()).add(answer, self.origin, titles)
        return found

    def answer(self, node: Node) -> Steps:
        """Return what the rule of the layer's type answers."""
        return node.answer(RULES[self.kind](node))

    def _title(self, index: int, shape: tuple[int, ...] | None) -> str:
        """Return the name of an output; its shape is None if it is unknown."""
        title = self.titles[index]
        return title if title not in self.shown or shape else INSIDE.format(title)

    def _wait(self, graph: Graph, inputs: Sequence[Operand | None], *asks: Operand) -> tuple[Operand, ...]:
        """Keep the layer as pending; return its outputs, whose shapes are unknown."""
        type, open = self._unknown(), OpenShape(None)
        titles = [self._title(k, None) for k in range(len(self.titles))]
        outputs = tuple(Operand(title, type, Lifetime.TEMPORARY, open=open) for title in titles)
        entry = PendingOperation(self.kind, self.origin, tuple(inputs), outputs, self.add_later, asks)
        return graph.pend(entry)

    def _unknown(self) -> TensorType:
        """Return the type of outputs whose shapes are unknown."""
        return TensorType(DType.FLOAT32, ())

    def add_later(self, graph: Graph, inputs: Sequence[Operand | None]) -> tuple[Operand, ...]:
        """Add the layer to a graph that knows more.

        Raises UnsupportedError if it cannot be expressed, ModelError if it contradicts itself then.
        """
        try:
            return self.add(graph, inputs)
        except RefusedError as refusal:
            refusals = Refusals(graph.name)
            refusals.add(str(refusal), self.kind, self.origin)
            refusals.fail()
        except FormatError as error:  # not the file's fault, but that of values
            raise ModelError(str(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Input(Layer):
    """An input as the layers of its network read it; see into_network()."""

    network: Network
    feature: Feature

    def answer(self, node: Node) -> Steps:
        """Return the steps to the tensor that layers read."""
        return node.answer(into_network(self.network, self.feature, node))


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(Layer):
    """An output of the network as callers get it; see out_of_network() and to_image()."""

    feature: OutputFeature

    def add(self, graph: Graph, inputs: Sequence[Operand | None]) -> tuple[Operand, ...]:
        """Add what stands between the tensor and the output, if anything; return the output."""
        (x,) = inputs
        if x is not None and x.name == self.titles[0] and self._fits(graph, x):
            return (x,)
        return Layer.add(self, graph, inputs)

    def add_later(self, graph: Graph, inputs: Sequence[Operand | None]) -> tuple[Operand, ...]:
        """Add the same in a run, which asks for no names."""
        (x,) = inputs
        if x is not None and self._fits(graph, x):
            return (x,)
        return Layer.add_later(self, graph, inputs)

    def answer(self, node: Node) -> Steps:
        """Return the steps to the form that callers get."""
        x: Value = node.only()
        if self.feature.color_space:
            return node.answer(to_image(self.feature, node, x))
        shape = out_of_network(self.legacy, self.feature, node.shape(x))
        return node.answer(node.add("reshape", x, shape=shape))

    def _fits(self, graph: Graph, x: Operand) -> bool:
        """Tell whether callers get the tensor as it is."""
        if self.feature.color_space or graph.waits(x):
            return False
        return out_of_network(self.legacy, self.feature, x.type.shape) == x.type.shape

    def _unknown(self) -> TensorType:
        space = self.feature.color_space
        return pixels_type(space, ()) if space else Layer._unknown(self)
