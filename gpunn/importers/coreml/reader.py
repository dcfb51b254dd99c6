"""Reader: adds the layers of a network to a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gpunn.errors import FormatError, ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.importers.common.builder import Builder
from gpunn.importers.common.names import Names, shown
from gpunn.importers.common.node import RefusedError
from gpunn.importers.common.refusals import Refusals
from gpunn.importers.coreml.features import Feature, OutputFeature, inputs_of, outputs_of
from gpunn.importers.coreml.file import Network
from gpunn.importers.coreml.layer import INSIDE, Input, Layer, Output
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.node import Node
from gpunn.importers.coreml.rules.table import RULES

OVERWRITES = "copy"  # the one layer type that may give a tensor a new value
BODIES = {"loop": ("conditionNetwork", "bodyNetwork"), "branch": ("ifBranch", "elseBranch")}
Tensors = Mapping[str, Operand | None]  # by name; None: a layer that is refused computes it


class Reader:
    """Reads the layers of a network into a graph, whose operands get `names`.

    What cannot be read is noted among the refusals.
    """

    def __init__(self, network: Network, graph: Graph, names: Names, refusals: Refusals) -> None:
        self.network = network
        self.graph = graph
        self.names = names
        self.refusals = refusals
        self.legacy = network.legacy
        self.features = inputs_of(network, refusals)
        self.outputs = outputs_of(network, refusals)
        self.tensors: dict[str, Operand | None] = {}
        self._titles: Mapping[str, str] = {}  # of outputs, by tensor, where callers may get the tensor itself
        self._hidden = {feature.tensor for feature in self.outputs}
        for number, layer in enumerate(network.message.layers):
            self._expect_rule(number, layer)

    def read(self, given: Tensors, titles: Mapping[str, str]) -> Tensors:
        """Read the layers on inputs, by name; return the outputs, also by name.

        `titles` are what the outputs shall be called in the graph. Raises FormatError and ModelError for what
        contradicts itself.
        """
        self._titles = self._direct(titles)
        for feature in self.features:
            self.tensors[feature.name] = self._input(feature, given)
        for number, layer in enumerate(self.network.message.layers):
            self._layer(number, layer)
        if self.refusals:
            return dict.fromkeys(feature.name for feature in self.outputs)
        return {feature.name: self._output(feature, titles[feature.name]) for feature in self.outputs}

    def _direct(self, titles: Mapping[str, str]) -> Mapping[str, str]:
        """Return the titles of tensors that one layer computes and callers get in the same shape, if any."""
        if self.legacy:
            return {}
        writers = Counter(_written(self.network.message.layers))
        arrays = (f for f in self.outputs if not f.color_space)
        return {f.tensor: titles[f.name] for f in arrays if writers[f.tensor] == 1}

    def _input(self, feature: Feature, given: Tensors) -> Operand | None:
        """Return the tensor of the network that an input becomes."""
        origin = f"{self.network.name}: input {shown(feature.name)}"
        operand = given.get(feature.name)
        if feature.name not in given:
            operand = self._default(feature, origin)
        elif operand is not None and (operand.type.dtype, operand.type.quantization) != (
            feature.type.dtype,
            feature.type.quantization,
        ):
            raise FormatError(f"{origin} is {_kind(feature.color_space)}, and {operand!r} is of another type")
        if operand is None:
            return None
        title = self.names.unique(INSIDE.format(feature.name))
        added = Input("input", origin, None, self.legacy, (title,), network=self.network, feature=feature)
        (found,) = added.add(self.graph, (operand,))
        return found

    def _default(self, feature: Feature, origin: str) -> Operand:
        """Return what stands for an optional input that nothing in a pipeline is connected with."""
        if feature.default is None:
            raise FormatError(f"{origin} is neither an input of the pipeline nor an output of a model before")
        node = Node(origin, ())
        full = node.answer(node.add("fill", node.scalar(feature.default), shape=feature.type.shape))
        ((operand,), _) = Builder(self.graph, self.names).add(full, origin, [f"{feature.name} (default)"])
        return operand

    def _expect_rule(self, number: int, layer: Message) -> None:
        """Note a layer without a rule: before any other error, as it may be why nothing else fits."""
        kind, place = layer.WhichOneof("layer"), self._place(number, layer)
        if kind is None:
            self.refusals.add("its type is not in the format's document", "a layer", place)
        elif kind not in RULES:
            self.refusals.add("there is no rule for this layer type", kind, place)

    def _layer(self, number: int, layer: Message) -> None:
        """Add what stands for one layer, or note why nothing does."""
        kind, place = layer.WhichOneof("layer"), self._place(number, layer)
        if kind not in RULES:
            self.tensors.update(dict.fromkeys(layer.output))
            return
        try:
            self._add(layer, kind, f"{self.network.file}: {place}, {kind}")
        except RefusedError as refusal:
            self.refusals.add(str(refusal), kind, place)
            self.tensors.update(dict.fromkeys(layer.output))
        except (FormatError, ModelError):
            if not self.refusals:
                raise
            self.tensors.update(dict.fromkeys(layer.output))

    def _place(self, number: int, layer: Message) -> str:
        """Return where a layer stands, for messages."""
        return self.network.within(f"layer {number} {shown(layer.name)}")

    def _add(self, layer: Message, kind: str, origin: str) -> None:
        """Add the ops of a layer that has a rule."""
        self._check(layer, kind, origin)
        inputs = [self.tensors[name] for name in layer.input]
        if None in inputs:
            self.tensors.update(dict.fromkeys(layer.output))
            return
        titles = tuple(map(self._title, layer.output))
        direct = frozenset(self._titles.values())
        added = Layer(kind, origin, getattr(layer, kind), self.legacy, titles, direct)
        self.tensors.update(zip(layer.output, added.add(self.graph, inputs), strict=True))

    def _check(self, layer: Message, kind: str, origin: str) -> None:
        """Raise FormatError for inputs that nothing computes, and for outputs that are there already."""
        for name in layer.input:
            if name not in self.tensors:
                raise FormatError(f"{origin}: input {shown(name)} is computed by no layer before")
        for name in layer.output:
            if (name in self.tensors and kind != OVERWRITES) or list(layer.output).count(name) > 1:
                raise FormatError(f"{origin}: output {shown(name)} is there already")

    def _title(self, tensor: str) -> str:
        """Return what a tensor is called in the graph.

        Outputs of the network get their names when they have the form that callers get.
        """
        if tensor in self._titles:
            return self._titles[tensor]
        return self.names.unique(INSIDE.format(tensor) if tensor in self._hidden else tensor)

    def _output(self, feature: OutputFeature, title: str) -> Operand:
        """Return an output as callers get it."""
        origin = f"{self.network.name}: output {shown(feature.name)}"
        operand = self.tensors.get(feature.tensor)
        if operand is None:
            raise FormatError(f"{origin}: no layer computes {shown(feature.tensor)}")
        added = Output("output", origin, None, self.legacy, (title,), feature=feature)
        (found,) = added.add(self.graph, (operand,))
        return found


def _written(layers: Sequence[Message]) -> Iterator[str]:
    """Yield the names of tensors that layers write, those in bodies of loops and branches included."""
    for layer in layers:
        yield from layer.output
        for body in BODIES.get(layer.WhichOneof("layer"), ()):
            yield from _written(getattr(getattr(layer, layer.WhichOneof("layer")), body).layers)


def _kind(color_space: int) -> str:
    return "an image" if color_space else "an array"
