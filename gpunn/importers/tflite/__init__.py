"""The TFLite reader: a .tflite file becomes a Graph; weights are views of the file's bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpunn.custom import CustomOperator
from gpunn.errors import FormatError, ModelError
from gpunn.graph.graph import Graph
from gpunn.importers.common.format import Format
from gpunn.importers.tflite.custom import CUSTOM_OPERATORS
from gpunn.importers.tflite.file import TfliteFile
from gpunn.importers.tflite.labels import labels
from gpunn.importers.tflite.reader import Reader
from gpunn.importers.tflite.target import Target
from gpunn.importers.tflite.work import Work
from gpunn.types import Shape

IDENTIFIER = b"TFL3"  # TensorFlow Lite schema, file_identifier
MIN_BYTES = 12  # root offset, identifier, and at least the root table's own offset


def recognise(data: bytes) -> bool:
    """Whether the bytes say that they are a .tflite file."""
    return len(data) >= MIN_BYTES and data[4:8] == IDENTIFIER


def read(data: bytes, name: str, custom: Mapping[str, CustomOperator] | None = None) -> Graph:
    """The Graph of a .tflite file's bytes; `name` is the file's, for messages.

    `custom` says what custom operators stand for, by the names that the file has for them.
    Raises FormatError, ModelError, and UnsupportedError with everything that is unsupported at once.
    """
    file, operators = TfliteFile(data, name), {**CUSTOM_OPERATORS, **(custom or {})}
    graph = file.graph(0)
    stored = [graph.tensors[index] for index in graph.inputs]

    def build(shapes: Sequence[Shape]) -> Graph:
        # The file's shapes hold as long as only extents that it leaves open are others.
        as_stored = all(tensor.open.admits(shape) for tensor, shape in zip(stored, shapes, strict=True))
        model = Graph(name)
        work = Work(file, operators, as_stored)
        Reader(work, graph, Target.outer(work, model)).read_model(shapes)
        return model

    model = build([tensor.stored for tensor in stored])
    model.labels = labels(data, [o.type for o in model.outputs])

    def source(shapes: Sequence[Shape]) -> Graph:
        """The file read again for inputs of other shapes, so that every rule sees the real ones."""
        try:
            changed = build(shapes)
        except FormatError as error:  # not the file's fault, which has been read before
            raise ModelError(str(error)) from None
        changed.labels, changed.source = model.labels, source
        return changed

    model.source = source
    return model


FORMAT = Format(
    name="TensorFlow Lite",
    suffixes=(".tflite",),
    recognise=recognise,
    read=read,
    min_bytes=MIN_BYTES,
    mark=f"{IDENTIFIER.decode()!r} at byte 4",
    found=lambda data: repr(data[4:8]),
    options=("custom",),
)
