"""read_model(): a .tflite file becomes a Graph; weights are views of the file's bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpunn.custom import CustomOperator
from gpunn.graph.classes import only_scores
from gpunn.graph.complete import complete
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.importers.common.names import Names
from gpunn.importers.common.template import Read, checked, template
from gpunn.importers.tflite.context import Context
from gpunn.importers.tflite.custom import CUSTOM_OPERATORS
from gpunn.importers.tflite.file import TfliteFile
from gpunn.importers.tflite.labels import labels
from gpunn.importers.tflite.pixels import pixel_scale
from gpunn.importers.tflite.reader import Reader
from gpunn.importers.tflite.scores import scoring
from gpunn.importers.tflite.subgraph import FileGraph
from gpunn.importers.tflite.target import Target
from gpunn.limits import Limits


def read_model(data: bytes, name: str, limits: Limits, custom: Mapping[str, CustomOperator]) -> Graph:
    """Return the Graph of a .tflite file's bytes; `name` is the file's, for messages.

    `custom` says what custom operators stand for, by the names that the file has for them.
    Raises FormatError, ModelError, LimitError, and UnsupportedError with everything that is unsupported at
    once.
    """
    file, unread, read_operators = opened(data, name, limits, custom)
    model = complete(unread, unread.input_types)
    model.labels = labels(data, [o.type for o in model.outputs])
    model.classes = only_scores(model.labels, model.outputs)
    model.pixel_scale = pixel_scale(file, tuple(operand.type for operand in model.inputs))
    model.scoring = scoring(file, data, [operand.type for operand in model.outputs])
    model.warnings = file.tell_warnings()
    model.template = template(name, unread.inputs, checked(read_operators), model)
    model.template.contents = lambda: (data, {"custom": custom, "limits": limits})
    return model


def opened(
    data: bytes,
    name: str,
    limits: Limits,
    custom: Mapping[str, CustomOperator],
    begun: Callable[[Context], object] = lambda context: None,
) -> tuple[TfliteFile, Graph, Read]:
    """Return a file, a graph of its inputs in which all operators are pending, and what reads them.

    Whenever they are read, `begun` is told the context first. Arguments and errors are those of read_model().
    """
    file, operators = TfliteFile(data, name), {**CUSTOM_OPERATORS, **custom}
    graph = file.graph(0)
    taken = [graph.tensors[i] for i in graph.inputs if graph.tensors[i].type is not None]

    def read_operators(model: Graph, inputs: Sequence[Operand | None]) -> tuple[()]:
        given = [operand for operand in inputs if operand is not None]
        # The file's shapes hold as long as only extents that it leaves open are others.
        as_stored = all(t.open.admits(o.type.shape) for t, o in zip(taken, given, strict=True))
        context = Context(file, operators, as_stored, limits)
        begun(context)
        Reader(context, graph, Target.outer(context, model)).read_model(given)
        return ()

    return file, template(name, _inputs(file, graph), read_operators), read_operators


def _inputs(file: TfliteFile, graph: FileGraph) -> Sequence[Operand]:
    """Return what the model's inputs are like, but for those of types that tensors cannot have."""
    like, names, taken = Graph(), Names(), set[int]()
    for index in graph.inputs:
        tensor = graph.tensors[index]
        if index in taken:
            file.fail(f"{tensor} is an input of the model twice")
        taken.add(index)
        if tensor.type is not None:
            like.input(names.unique(tensor.name), tensor.type, open=tensor.open.axes(tensor.stored))
    return like.inputs
