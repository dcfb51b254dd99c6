"""The Core ML format: .mlmodel files are recognised here; the reader is imported with the first one.

So are .mlpackage folders, which hold one.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpunn.custom import CustomOperator
from gpunn.graph.graph import Graph
from gpunn.importers.common.format import Format, later
from gpunn.importers.coreml.package import SUFFIX, model_in
from gpunn.importers.coreml.wire import varint
from gpunn.limits import Limits

MIN_BYTES = 12  # the version, and a description with an input and an output
VERSION, DESCRIPTION = 0x08, 0x12  # the tags of Model's fields 1 and 2
MAX_VERSION = 1000


def recognise(data: bytes) -> bool:
    """Tell whether the bytes begin as an .mlmodel file does: with its version and its description."""
    try:
        version, at = varint(data, 1)
        return data[0] == VERSION and 1 <= version <= MAX_VERSION and data[at] == DESCRIPTION
    except IndexError:
        return False


def read(data: bytes, name: str, limits: Limits, custom: Mapping[str, CustomOperator] | None = None) -> Graph:
    """Return the Graph of an .mlmodel file's bytes; see model_file.read_model().

    Only here are the reader and protobuf imported, which takes longer than reading a small model.
    """
    from gpunn.importers.coreml.model_file import read_model

    return read_model(data, name, limits, custom or {})


FORMAT = Format(
    name="Core ML",
    suffixes=(".mlmodel",),
    recognise=recognise,
    read=read,
    min_bytes=MIN_BYTES,
    mark="a version and a description at byte 0",
    found=lambda data: repr(data[:4]),
    folders=(SUFFIX,),
    file_in=model_in,
    options=("custom",),
    with_constants=later("gpunn.importers.coreml.rewriting", "with_constants"),
    with_classes=later("gpunn.importers.coreml.classes", "with_classes"),
)
