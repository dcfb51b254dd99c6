"""The TFLite format: .tflite files are recognised here; the reader is imported with the first one."""

from __future__ import annotations

from collections.abc import Mapping

from gpunn.custom import CustomOperator
from gpunn.graph.graph import Graph
from gpunn.importers.common.format import Format, later
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


FORMAT = Format(
    name="TensorFlow Lite",
    suffixes=(".tflite",),
    recognise=recognise,
    read=read,
    min_bytes=MIN_BYTES,
    mark=f"{IDENTIFIER.decode()!r} at byte 4",
    found=lambda data: repr(data[4:8]),
    options=("custom",),
    with_constants=later("gpunn.importers.tflite.rewriting", "with_constants"),
    with_classes=later("gpunn.importers.tflite.classes", "with_classes"),
)
