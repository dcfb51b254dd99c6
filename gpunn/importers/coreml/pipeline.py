"""PipelineReader: adds the models of a pipeline to a graph, joined by names of inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping

from gpunn.errors import FormatError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.importers.common.names import Names, shown
from gpunn.importers.common.refusals import Refusals
from gpunn.importers.coreml.features import OutputFeature, outputs_of
from gpunn.importers.coreml.file import Model, Network, Pipeline
from gpunn.importers.coreml.layer import Context, CustomOperators, Output
from gpunn.importers.coreml.reader import Reader, Tensors
from gpunn.importers.coreml.statements import count_layers


def reader_of(
    model: Model, graph: Graph, names: Names, refusals: Refusals, custom: CustomOperators
) -> Reader | PipelineReader:
    """Return a reader of a network or of a pipeline, which adds it to a graph."""
    if isinstance(model, Network):
        return Reader(model, graph, names, refusals, custom)
    return PipelineReader(model, graph, names, refusals, custom)


def layers_in(model: Model) -> int:
    """Return the number of layers in the networks of a model, with those in branches and loops."""
    if isinstance(model, Network):
        return count_layers(model.message)
    return sum(map(layers_in, model.models))


class PipelineReader:
    """Reads the models of a pipeline into a graph; otherwise as Reader.

    A model reads the inputs of the pipeline and the outputs of the models before it, by name. An output takes
    the place of one with the same name before it.
    """

    def __init__(
        self, pipeline: Pipeline, graph: Graph, names: Names, refusals: Refusals, custom: CustomOperators
    ) -> None:
        self.pipeline = pipeline
        self.graph = graph
        self.names = names
        self.refusals = refusals
        self.context = Context(pipeline.file, False, custom, refusals, pipeline.chunks)
        self.outputs = outputs_of(pipeline, refusals)
        self.parts = [reader_of(model, graph, names, refusals, custom) for model in pipeline.models]

    def read(self, given: Tensors, titles: Mapping[str, str]) -> Tensors:
        """Read the models on inputs, by name; return the outputs, also by name, with these titles.

        Raises FormatError and ModelError for what contradicts itself.
        """
        declared = {message.name for message in self.pipeline.description.input}
        tensors = {name: operand for name, operand in given.items() if name in declared}
        wanted = {feature.tensor: titles[feature.name] for feature in self.outputs}
        last = {feature.name: part for part in self.parts for feature in part.outputs}
        for part in self.parts:
            names = [feature.name for feature in part.outputs]
            final = {name for name in names if name in wanted and last[name] is part}
            own = {name: wanted[name] if name in final else self.names.unique(name) for name in names}
            tensors.update(part.read(tensors, own))
        return {f.name: self._output(f, tensors, titles[f.name]) for f in self.outputs}

    def _output(self, feature: OutputFeature, tensors: Tensors, title: str) -> Operand | None:
        """Return an output, under a name of its own; None if a layer that is refused would compute it."""
        origin = f"{self.pipeline.name}: output {shown(feature.name)}"
        operand = tensors.get(feature.tensor)
        if operand is None and self.refusals:
            return None
        if operand is None:
            raise FormatError(f"{origin} is neither an input of the pipeline nor an output of a model in it")
        if operand.name == title:
            return operand
        alias = OutputFeature(feature.name, feature.tensor)
        added = Output("output", origin, self.context, (title,), feature=alias)
        (renamed,) = added.add(self.graph, (operand,))
        return renamed
