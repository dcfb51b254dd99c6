"""Reader: adds the layers of an .mlmodel file to a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpunn.errors import FormatError, ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.importers.common.builder import Builder
from gpunn.importers.common.names import Names
from gpunn.importers.common.node import RefusedError
from gpunn.importers.common.refusals import Refusals
from gpunn.importers.coreml.features import Feature, into_network
from gpunn.importers.coreml.file import CoreMLFile, shown
from gpunn.importers.coreml.layer import Layer, Output
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.node import Node
from gpunn.importers.coreml.rules.table import RULES

OVERWRITES = "copy"  # the one layer type that may give a tensor a new value


class Reader:
    """Reads the layers of a file into a graph. `features` are the file's inputs."""

    def __init__(self, file: CoreMLFile, features: Sequence[Feature], graph: Graph) -> None:
        self.file = file
        self.features = features
        self.graph = graph
        self.legacy = file.legacy
        self.builder = Builder(graph, Names())
        self.refusals = Refusals(file.name)
        self.tensors: dict[str, Operand | None] = {}  # None: a layer that is refused computes it
        self.outputs = _outputs(file)

    def read(self, inputs: Sequence[Operand]) -> None:
        """Read the layers on the graph's inputs, and declare its outputs.

        Raises FormatError and ModelError for what contradicts itself, UnsupportedError with all that is
        unsupported.
        """
        given = iter(inputs)
        for operand in inputs:
            self.builder.names.unique(operand.name)
        for feature in self.features:
            self.tensors[feature.name] = self._input(feature, given)
        for number, layer in enumerate(self.file.network.layers):
            self._expect_rule(number, layer)
        for number, layer in enumerate(self.file.network.layers):
            self._layer(number, layer)
        if self.refusals:
            self.refusals.fail()
        self.graph.output(*(self._output(name, title) for title, name in self.outputs.items()))

    def _input(self, feature: Feature, given: Iterator[Operand]) -> Operand:
        """Return the tensor of the network that an input becomes."""
        origin = f"{self.file.name}: input {shown(feature.name)}"
        if feature.default is not None:
            node = Node(origin, ())
            full = node.add("fill", node.scalar(feature.default), shape=feature.type.shape)
            ((operand,), _) = self.builder.add(node.answer(full), origin, [f"{feature.name} (default)"])
        else:
            operand = next(given)
        node = Node(origin, (operand,))
        answer = node.answer(into_network(self.file, feature, node))
        ((found,), _) = self.builder.add(answer, origin, [f"{feature.name} (tensor)"])
        return found

    def _expect_rule(self, number: int, layer: Message) -> None:
        """Note a layer without a rule: before any other error, as it may be why nothing else fits."""
        kind = layer.WhichOneof("layer")
        if kind is None:
            self.refusals.add("its type is not in the format's document", "a layer", _place(number, layer))
        elif kind not in RULES:
            self.refusals.add("there is no rule for this layer type", kind, _place(number, layer))

    def _layer(self, number: int, layer: Message) -> None:
        """Add what stands for one layer, or note why nothing does."""
        kind, place = layer.WhichOneof("layer"), _place(number, layer)
        if kind not in RULES:
            self.tensors.update(dict.fromkeys(layer.output))
            return
        try:
            self._add(layer, kind, f"{self.file.name}: {place}, {kind}")
        except RefusedError as refusal:
            self.refusals.add(str(refusal), kind, place)
            self.tensors.update(dict.fromkeys(layer.output))
        except (FormatError, ModelError):
            if not self.refusals:
                raise
            self.tensors.update(dict.fromkeys(layer.output))

    def _add(self, layer: Message, kind: str, origin: str) -> None:
        """Add the ops of a layer that has a rule."""
        self._check(layer, kind, origin)
        inputs = [self.tensors[name] for name in layer.input]
        if None in inputs:
            self.tensors.update(dict.fromkeys(layer.output))
            return
        added = Layer(kind, origin, getattr(layer, kind), self.legacy, self._titles(layer))
        self.tensors.update(zip(layer.output, added.add(self.graph, inputs), strict=True))

    def _check(self, layer: Message, kind: str, origin: str) -> None:
        """Raise FormatError for inputs that nothing computes, and for outputs that are there already."""
        for name in layer.input:
            if name not in self.tensors:
                raise FormatError(f"{origin}: input {shown(name)} is computed by no layer before")
        for name in layer.output:
            if (name in self.tensors and kind != OVERWRITES) or list(layer.output).count(name) > 1:
                raise FormatError(f"{origin}: output {shown(name)} is there already")

    def _titles(self, layer: Message) -> tuple[str, ...]:
        """Return what a layer's outputs are called in the graph.

        Outputs of the network get their names when they have the shape that callers get.
        """
        names = self.builder.names
        hidden = self.outputs.values()
        return tuple(names.unique(f"{name} (tensor)" if name in hidden else name) for name in layer.output)

    def _output(self, name: str, title: str) -> Operand:
        """Return an output as callers get it."""
        operand = self.tensors.get(name)
        if operand is None:
            self.file.fail(f"output {shown(title)}: no layer computes {shown(name)}")
        if operand in self.graph.inputs and operand.name == title:
            return operand
        origin = f"{self.file.name}: output {shown(title)}"
        added = Output("output", origin, None, self.legacy, (self.builder.names.unique(title),))
        (found,) = added.add(self.graph, (operand,))
        return found


def _place(number: int, layer: Message) -> str:
    """Return where a layer stands, for messages."""
    return f"layer {number} {shown(layer.name)}"


def _outputs(file: CoreMLFile) -> dict[str, str]:
    """Return the names of outputs, each with the name of its tensor in the network.

    A classifier gives the probabilities of its classes. The name of the best class is no tensor.
    """
    found: dict[str, str] = {}
    description = file.description
    for message in description.output:
        if message.name in found:
            file.fail(f"output {shown(message.name)} is there twice")
        if file.classes is None or message.type.WhichOneof("Type") in ("multiArrayType", "imageType"):
            found[message.name] = message.name
        elif message.type.WhichOneof("Type") == "dictionaryType":
            found[message.name] = file.probabilities
    if file.classes is not None and file.probabilities not in found.values():
        found[description.predictedProbabilitiesName or file.probabilities] = file.probabilities
    if not found:
        file.fail("has no outputs")
    return found
