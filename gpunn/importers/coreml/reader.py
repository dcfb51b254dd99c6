"""Reader: adds the layers of a network to a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gpunn.errors import FormatError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.importers.common.builder import Builder
from gpunn.importers.common.names import Names, shown
from gpunn.importers.common.node import RefusedError
from gpunn.importers.common.refusals import Refusals
from gpunn.importers.coreml.conversion import preprocessing_of
from gpunn.importers.coreml.features import Feature, OutputFeature, inputs_of, outputs_of
from gpunn.importers.coreml.file import Network, place_of
from gpunn.importers.coreml.layer import DRAWN, INSIDE, Context, CustomOperators, Input, Output
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.node import Node
from gpunn.importers.coreml.rules.custom import operator_of
from gpunn.importers.coreml.rules.table import RULES
from gpunn.importers.coreml.scope import Scope
from gpunn.importers.coreml.statements import ANY_SEED, BODIES, CONTROL, Block, Drawn, Key, Plain

LAYER_TYPES = frozenset((*RULES, *CONTROL))  # those that are read
Tensors = Mapping[str, Operand | None]  # by name; None: a layer that is refused computes it


class Reader:
    """Reads the layers of a network into a graph, whose operands get `names`.

    What cannot be read is noted among the refusals. `custom` says what custom layers stand for, by class.
    """

    def __init__(
        self, network: Network, graph: Graph, names: Names, refusals: Refusals, custom: CustomOperators
    ) -> None:
        self.network = network
        self.graph = graph
        self.names = names
        self.refusals = refusals
        self.features = inputs_of(network, refusals)
        self.outputs = outputs_of(network, refusals)
        self._preprocessing = preprocessing_of(network, self.features)
        self.context = Context(network.file, network.legacy, custom, refusals, network.chunks)
        self._hidden: set[Key] = {feature.tensor for feature in self.outputs}
        kinds = {layer.WhichOneof("layer") for layer in network.message.layers}
        self._controlled = not kinds.isdisjoint(CONTROL)
        self.scope = self._scope()
        self._expect_rules(network.message, network.within(""))

    def read(self, given: Tensors, titles: Mapping[str, str]) -> Tensors:
        """Read the layers on inputs, by name; return the outputs, also by name.

        `titles` are what the outputs shall be called in the graph. Raises FormatError and ModelError for what
        contradicts itself.
        """
        self.scope.titles = self._direct(titles)
        for feature in self.features:
            self.scope.tensors[feature.name] = self._input(feature, given)
            self.scope.made.add(feature.name)
        block = self._block()
        generators = self._generators(block)
        self.scope.read(block, frozenset((*self._hidden, *generators)))
        for key, variable in generators.items():
            after = self.scope.tensors.get(key)
            if after is not None and after is not variable:
                self.graph.update(variable, after)
        return {feature.name: self._output(feature, titles[feature.name]) for feature in self.outputs}

    def _scope(self) -> Scope:
        """Return a scope that can read the network; few need what reads branches and loops."""
        made: type[Scope] = Scope
        if self._controlled:
            from gpunn.importers.coreml.control_scope import ControlScope

            made = ControlScope
        return made(self.context, self.graph, self.names, {}, hidden=self._hidden)

    def _block(self) -> Block:
        """Return the block of the whole network."""
        if self._controlled:
            from gpunn.importers.coreml.blocks import Blocks

            return Blocks(self.network).whole()
        layers, around = self.network.message.layers, self.network.within("")
        return Block.of([Plain.of(layer, place_of(k, layer, around)) for k, layer in enumerate(layers)])

    def _generators(self, block: Block) -> Mapping[Key, Operand]:
        """Add a variable for how much each layer of random numbers has drawn; return them by name."""
        found: dict[Key, Operand] = {}
        drawn = [key for key in block.effect.reads if isinstance(key, Drawn)]
        for key in sorted(drawn, key=str):
            anywhere = int(np.random.SeedSequence().generate_state(1, np.uint64)[0]) // 4
            start = np.array(anywhere if key.seed == ANY_SEED else 0, np.int64)
            found[key] = self.graph.variable(self.names.unique(str(key)), DRAWN, start)
        self.scope.tensors.update(found)
        return found

    def _direct(self, titles: Mapping[str, str]) -> Mapping[str, str]:
        """Return the titles of tensors that one layer computes and callers get in the same shape, if any."""
        if self.context.legacy:
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
        elif operand is not None and not self._takes(feature, operand):
            raise FormatError(f"{origin} is {_kind(feature)}, and {operand!r} is of another type")
        if operand is None:
            return None
        title = self.names.unique(INSIDE.format(feature.name))
        steps = self._preprocessing.get(feature.name, ())
        added = Input(
            "input", origin, self.context, (title,), network=self.network, feature=feature, steps=steps
        )
        (found,) = added.add(self.graph, (operand,))
        return found

    def _takes(self, feature: Feature, operand: Operand) -> bool:
        """Tell whether an operand is of the type of an input: an array, or an image of as many channels."""
        if feature.color_space and not self.graph.waits(operand):
            pixels = feature.type.with_shape((*operand.type.shape[:-1], feature.type.shape[-1]))
            return operand.type == pixels
        return operand.type == feature.type.with_shape(operand.type.shape)

    def _default(self, feature: Feature, origin: str) -> Operand:
        """Return what stands for an optional input that nothing in a pipeline is connected with."""
        if feature.default is None:
            raise FormatError(f"{origin} is neither an input of the pipeline nor an output of a model before")
        node = Node(origin, ())
        full = node.answer(node.add("fill", node.scalar(feature.default), shape=feature.type.shape))
        ((operand,), _) = Builder(self.graph, self.names).add(full, origin, [f"{feature.name} (default)"])
        return operand

    def _expect_rules(self, network: Message, around: str) -> None:
        """Note layers without a rule: before any other error, as they may be why nothing else fits."""
        for number, layer in enumerate(network.layers):
            kind, place = layer.WhichOneof("layer"), place_of(number, layer, around)
            if kind is None:
                self.refusals.add("its type is not in the format's document", "a layer", place)
            elif kind not in RULES and kind not in CONTROL:
                self.refusals.add("there is no rule for this layer type", kind, place)
            elif kind == "custom":
                try:
                    operator_of(layer.custom, self.context.custom)
                except RefusedError as refusal:
                    self.refusals.add(str(refusal), kind, place)
            for body in BODIES.get(kind, ()):
                self._expect_rules(getattr(getattr(layer, kind), body), f"{place}, ")

    def _output(self, feature: OutputFeature, title: str) -> Operand | None:
        """Return an output as callers get it; None if a layer that is refused would compute it."""
        origin = f"{self.network.name}: output {shown(feature.name)}"
        operand = self.scope.tensors.get(feature.tensor)
        if operand is None and self.refusals:
            return None
        if operand is None:
            raise FormatError(f"{origin}: no layer computes {shown(feature.tensor)}")
        added = Output("output", origin, self.context, (title,), feature=feature)
        (found,) = added.add(self.graph, (operand,))
        return found


def _written(layers: Sequence[Message]) -> Iterator[str]:
    """Yield the names of tensors that layers write, those in bodies of loops and branches included."""
    for layer in layers:
        yield from layer.output
        for body in BODIES.get(layer.WhichOneof("layer"), ()):
            yield from _written(getattr(getattr(layer, layer.WhichOneof("layer")), body).layers)


def _kind(feature: Feature) -> str:
    channels = feature.type.shape[-1]
    return f"an image with channels: {channels}" if feature.color_space else "an array"
