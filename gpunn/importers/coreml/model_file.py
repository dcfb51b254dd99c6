"""read_model(): an .mlmodel file with neural networks becomes a Graph."""

from __future__ import annotations

from collections.abc import Sequence

from gpunn.errors import FormatError, ModelError
from gpunn.graph.complete import complete
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.importers.common.names import Names
from gpunn.importers.common.refusals import Refusals
from gpunn.importers.common.template import checked, template
from gpunn.importers.coreml.contradictions import warnings_of
from gpunn.importers.coreml.features import classes_of, inputs_of
from gpunn.importers.coreml.file import Model, decoded, model_of
from gpunn.importers.coreml.layer import CustomOperators
from gpunn.importers.coreml.pipeline import layers_in, reader_of
from gpunn.importers.coreml.undecided import undecided
from gpunn.limits import Limits
from gpunn.types import DType


def read_model(data: bytes, name: str, limits: Limits, custom: CustomOperators) -> Graph:
    """Return the Graph of an .mlmodel file's bytes; `name` is the file's, for messages.

    `custom` says what custom layers stand for, by their class. If the declared shapes of inputs do not run,
    but others may, all layers are pending: see undecided(). Raises FormatError, ModelError, LimitError, and
    UnsupportedError with everything that is unsupported at once.
    """
    message, chunks = decoded(data, name)
    model = model_of(message, name, chunks)
    count = layers_in(model)
    limits.check("operators", count, f"{name}: the file has {count} layers")
    refusals, names = Refusals(name), Names()
    inputs = Graph()
    features = inputs_of(model, refusals)
    for feature in features:
        title, real = names.unique(feature.name), feature.type.dtype is DType.FLOAT32
        inputs.input(title, feature.type, open=feature.open, default=feature.default, rounds=real)
    if refusals:
        refusals.fail()

    def read_layers(graph: Graph, operands: Sequence[Operand | None]) -> tuple[()]:
        _read(model, graph, [operand for operand in operands if operand is not None], custom)
        return ()

    unread = template(name, inputs.inputs, read_layers)
    try:
        made = complete(unread, unread.input_types)
    except (FormatError, ModelError) as error:
        made = undecided(model, features, unread, read_layers, error)
    made.classes = classes_of(model)
    made.labels = () if made.classes is None else tuple(map(str, made.classes.labels))
    made.warnings = warnings_of(model, made)
    made.template = template(name, inputs.inputs, checked(read_layers), made)
    made.template.contents = lambda: (data, {"custom": custom, "limits": limits})
    return made


def _read(model: Model, graph: Graph, inputs: Sequence[Operand], custom: CustomOperators) -> None:
    """Read a model on the graph's inputs, and declare its outputs.

    Raises UnsupportedError with everything that is unsupported at once.
    """
    names, refusals = Names(), Refusals(model.file)
    given = {names.unique(operand.name): operand for operand in inputs}
    reader = reader_of(model, graph, names, refusals, custom)
    wanted = [feature.name for feature in reader.outputs]
    found = reader.read(given, {name: name if name in given else names.unique(name) for name in wanted})
    if refusals:
        refusals.fail()
    graph.output(*(operand for operand in map(found.get, wanted) if operand is not None))
