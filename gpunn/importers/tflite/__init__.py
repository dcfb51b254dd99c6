"""The TFLite format: .tflite files are recognised here; the reader is imported with the first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpunn.custom import CustomOperator
from gpunn.graph.graph import Graph
from gpunn.importers.common.format import Format
from gpunn.importers.common.rewriting import NewLayer
from gpunn.limits import Limits

IDENTIFIER = b"TFL3"  # TensorFlow Lite schema, file_identifier
MIN_BYTES = 12  # root offset, identifier, and at least the root table's own offset


def recognise(data: bytes) -> bool:
    """Tell whether the bytes say that they are a .tflite file."""
    return len(data) >= MIN_BYTES and data[4:8] == IDENTIFIER


def read(data: bytes, name: str, limits: Limits, custom: Mapping[str, CustomOperator] | None = None) -> Graph:
    """Return the Graph of a .tflite file's bytes; see model_file.read_model().

    Only here are the reader, its rules and the schema imported, which takes longer than reading most models.
    """
    from gpunn.importers.tflite.model_file import read_model

    return read_model(data, name, limits, custom or {})


def with_constants(data: bytes, name: str, options: Mapping[str, Any], graph: Graph) -> bytes:
    """Return the file with the constants of a graph; see rewriting.with_constants()."""
    from gpunn.importers.tflite import rewriting

    return rewriting.with_constants(data, name, options, graph)


def with_classes(
    data: bytes,
    name: str,
    options: Mapping[str, Any],
    graph: Graph,
    layer: NewLayer | None,
    labels: Sequence[str],
) -> bytes:
    """Return the file of a classifier for other classes; see classes.with_classes()."""
    from gpunn.importers.tflite import classes

    return classes.with_classes(data, name, options, graph, layer, labels)


FORMAT = Format(
    name="TensorFlow Lite",
    suffixes=(".tflite",),
    recognise=recognise,
    read=read,
    min_bytes=MIN_BYTES,
    mark=f"{IDENTIFIER.decode()!r} at byte 4",
    found=lambda data: repr(data[4:8]),
    options=("custom",),
    with_constants=with_constants,
    with_classes=with_classes,
)
