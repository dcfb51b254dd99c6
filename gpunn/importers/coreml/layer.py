"""Parts of a file that can be added to a graph, at once or when what they need is known: layers, outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpunn.custom import CustomOperator
from gpunn.errors import FormatError, ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand
from gpunn.graph.pending import FOR_SHAPES, PendingOperation
from gpunn.importers.common.answers import Steps
from gpunn.importers.common.builder import Builder
from gpunn.importers.common.names import Names
from gpunn.importers.common.node import ComputedError, RefusedError
from gpunn.importers.common.refusals import Refusals
from gpunn.importers.coreml.chunks import Chunks
from gpunn.importers.coreml.conversion import into_network, out_of_network, to_image
from gpunn.importers.coreml.features import Feature, OutputFeature, pixels_type
from gpunn.importers.coreml.file import Network
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.rules.table import RULES
from gpunn.ops.call import BeyondError
from gpunn.types import DType, OpenShape, Shape, TensorType

CustomOperators = Mapping[str, CustomOperator]  # by the class of a layer
DRAWN = TensorType(DType.INT64, ())  # how much a layer has drawn
INSIDE = "{} (tensor)"  # the name of a tensor that callers see in another shape


class NotedError(RefusedError):
    """An answer that layers in a body are refused; the refusals of the file have noted which, and why."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Context:
    """The data that all layers of a network in a file share.

    `file` is the file's name. `legacy`: all tensors have five axes. `custom` says what custom layers stand
    for, by their class, `chunks` has the large values of the file.
    """

    file: str
    legacy: bool
    custom: CustomOperators
    refusals: Refusals
    chunks: Chunks

    def again(self) -> Context:
        """Return the same for layers that are read once more, for other shapes."""
        return replace(self, refusals=Refusals(self.file))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Addition:
    """A part of a file, of the type `kind`; its results get the names `titles`.

    Where types of its inputs, or values that it asks for, are known only in a run, it becomes a pending
    operation.
    """

    kind: str
    origin: str
    context: Context
    titles: tuple[str, ...]

    def add(self, graph: Graph, inputs: Sequence[Operand | None]) -> tuple[Operand, ...]:
        """Add the part to a graph, on operands of it; return its results.

        Raises RefusedError if it cannot be expressed, FormatError and ModelError if it contradicts itself.
        """
        if any(map(graph.waits, inputs)):
            return self.wait(graph, inputs)
        try:
            return self.added(graph, inputs)
        except ComputedError as error:
            return self.wait(graph, inputs, error.operand)

    def added(self, graph: Graph, inputs: Sequence[Operand | None]) -> tuple[Operand, ...]:
        """Add the part on operands whose types are known. Raises ComputedError if it needs a value."""
        raise NotImplementedError

    def expected(self, index: int) -> TensorType:
        """Return the type of a result while its shape is unknown."""
        return TensorType(DType.FLOAT32, ())

    def title(self, index: int, shape: Shape | None) -> str:
        """Return the name of a result; its shape is None if it is unknown."""
        return self.titles[index]

    def wait(
        self, graph: Graph, inputs: Sequence[Operand | None], *asks: Operand, reason: str = FOR_SHAPES
    ) -> tuple[Operand, ...]:
        """Keep the part as pending; return its results, whose shapes are unknown."""
        outputs = tuple(
            Operand(self.title(k, None), self.expected(k), Lifetime.TEMPORARY, open=OpenShape(None))
            for k in range(len(self.titles))
        )
        add = self.add_later
        entry = PendingOperation(self.kind, self.origin, tuple(inputs), outputs, add, asks, reason=reason)
        return graph.pend(entry)

    def add_later(self, graph: Graph, inputs: Sequence[Operand | None]) -> tuple[Operand, ...]:
        """Add the part to a graph that knows more. Raises UnsupportedError if it cannot be expressed."""
        again = replace(self, context=self.context.again())
        refusals = again.context.refusals
        try:
            return again.add(graph, inputs)
        except NotedError:
            refusals.fail()
        except RefusedError as refusal:
            refusals.add(str(refusal), self.kind, self.origin)
            refusals.fail()
        except FormatError as error:  # not the file's fault, but that of shapes or values
            raise ModelError(str(error)) from None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Layer(Addition):
    """A layer with its parameters.

    `shown` are those titles that belong to outputs of the model: a tensor that callers get in another shape
    does not take them.
    """

    params: Message = None
    shown: frozenset[str] = frozenset()

    def added(self, graph: Graph, inputs: Sequence[Operand | None]) -> tuple[Operand, ...]:
        """Add what the rule of the layer's type answers; see Addition.added()."""
        node = Node(
            self.origin,
            tuple(inputs),
            value_of=graph.value_of,
            params=self.params,
            legacy=self.context.legacy,
            count=len(self.titles),
            custom=self.context.custom,
            chunks=self.context.chunks,
        )
        try:
            answer = self.answer(node)
        except BeyondError as error:
            raise RefusedError(error.reason) from None
        results = tuple(answer.outputs or ())
        if len(results) != len(self.titles):
            node.corrupt(f"expected {len(results)} outputs, got {len(self.titles)}")
        titles = [self.title(k, node.shape(value)) for k, value in enumerate(results)]
        found, _ = Builder(graph, Names()).add(answer, self.origin, titles)
        return found

    def answer(self, node: Node) -> Steps:
        """Return what the rule of the layer's type answers."""
        return node.answer(RULES[self.kind](node))

    def title(self, index: int, shape: Shape | None) -> str:
        """Return the name of an output; its shape is None if it is unknown."""
        title = self.titles[index]
        return title if title not in self.shown or shape else INSIDE.format(title)


class Drawing(Layer):
    """A layer that draws random numbers; the last input and the last output are how much it has drawn."""

    __slots__ = ()

    def expected(self, index: int) -> TensorType:
        """Return the type of a result while its shape is unknown."""
        return DRAWN if index == len(self.titles) - 1 else Layer.expected(self, index)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Input(Layer):
    """An input as the layers of its network read it; see into_network(). `steps`: see preprocessing_of()."""

    network: Network
    feature: Feature
    steps: Sequence[Message]

    def answer(self, node: Node) -> Steps:
        """Return the steps to the tensor that layers read."""
        return node.answer(into_network(self.network, self.feature, self.steps, node))


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
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
        shape = out_of_network(self.context.legacy, self.feature, node.shape(x))
        return node.answer(node.add("reshape", x, shape=shape))

    def _fits(self, graph: Graph, x: Operand) -> bool:
        """Tell whether callers get the tensor as it is."""
        if self.feature.color_space or graph.waits(x):
            return False
        return out_of_network(self.context.legacy, self.feature, x.type.shape) == x.type.shape

    def expected(self, index: int) -> TensorType:
        """Return the type of the output, with any shape."""
        space = self.feature.color_space
        return pixels_type(space, ()) if space else Layer.expected(self, index)
