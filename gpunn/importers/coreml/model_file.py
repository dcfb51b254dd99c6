"""read_model(): an .mlmodel file with a neural network becomes a Graph."""

from __future__ import annotations

from collections.abc import Sequence

from gpunn.graph.complete import complete
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.importers.common.names import Names
from gpunn.importers.common.node import RefusedError
from gpunn.importers.common.refusals import Refusals
from gpunn.importers.common.template import checked, template
from gpunn.importers.coreml.features import Feature, feature_of
from gpunn.importers.coreml.file import CoreMLFile, shown
from gpunn.importers.coreml.reader import Reader


def read_model(data: bytes, name: str) -> Graph:
    """Return the Graph of an .mlmodel file's bytes; `name` is the file's, for messages.

    Raises FormatError, ModelError, and UnsupportedError with everything that is unsupported at once.
    """
    file = CoreMLFile(data, name)
    features = _features(file)

    def read_layers(graph: Graph, inputs: Sequence[Operand | None]) -> tuple[()]:
        Reader(file, features, graph).read([operand for operand in inputs if operand is not None])
        return ()

    like, names = Graph(), Names()
    for feature in features:
        if feature.default is None:
            like.input(names.unique(feature.name), feature.type, open=feature.open)
    unread = template(name, like.inputs, read_layers)
    model = complete(unread, unread.input_types)
    model.labels = file.classes or ()
    model.template = template(name, like.inputs, checked(read_layers), model.labels)
    return model


def _features(file: CoreMLFile) -> list[Feature]:
    """Return the inputs. Raises UnsupportedError with all that cannot be inputs here."""
    refusals, found = Refusals(file.name), []
    names = [message.name for message in file.description.input]
    for message in file.description.input:
        if names.count(message.name) > 1:
            file.fail(f"input {shown(message.name)} is there twice")
        try:
            found.append(feature_of(file, message))
        except RefusedError as refusal:
            refusals.add(str(refusal))
    if refusals:
        refusals.fail()
    return found
