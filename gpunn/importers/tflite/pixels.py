"""The scale of pixels in the TFLite metadata of a file.

The metadata is a flatbuffer inside the model's, of metadata_schema.fbs (file identifier M001). No package
that gpunn needs has classes for it, so its few fields are read by their places in the tables.
"""

from __future__ import annotations

import struct

import numpy as np
from flatbuffers.number_types import Float32Flags, Uint8Flags
from flatbuffers.table import Table

from gpunn.errors import FormatError
from gpunn.graph.pixels import Numbers, PixelScale
from gpunn.importers.tflite.file import CORRUPT, TfliteFile
from gpunn.types import TensorType

ENTRY = b"TFLITE_METADATA"
IDENTIFIER = b"M001"
NORMALIZATION = 1  # of the union ProcessUnitOptions
MAX_BYTES = 1 << 24  # what is larger than this is not read
MAX_UNITS = 16
MAX_CHANNELS = 4

# The fields by their places: 4 is the first one of a table, and each further one 2 more.
_SUBGRAPHS, _INPUTS, _UNITS = 10, 8, 12
_UNIT_TYPE, _UNIT_OPTIONS = 4, 6
_MEAN, _STD = 4, 6


def pixel_scale(file: TfliteFile, inputs: tuple[TensorType, ...]) -> PixelScale | None:
    """Return the normalisation that the metadata states for the one input of a model.

    None if there is none, and if it cannot be read or used: a model works without it.
    """
    if len(inputs) != 1 or inputs[0].rank != 4:
        return None
    try:
        data = file.metadata(ENTRY, MAX_BYTES)
        found = None if data[4:8] != IDENTIFIER else _normalisation(data)
    except (*CORRUPT, FormatError):
        return None
    return found if found is not None and found.usable(inputs[0].shape[3]) else None


def _normalisation(data: bytes) -> PixelScale | None:
    """Return the first normalisation of the first input of the first subgraph."""
    root = Table(data, struct.unpack_from("<I", data)[0])
    for subgraph in _tables(root, _SUBGRAPHS, 1):
        for tensor in _tables(subgraph, _INPUTS, 1):
            for unit in _tables(tensor, _UNITS, MAX_UNITS):
                if unit.GetSlot(_UNIT_TYPE, 0, Uint8Flags) == NORMALIZATION:
                    options = Table(data, unit.Indirect(unit.Pos + unit.Offset(_UNIT_OPTIONS)))
                    mean, std = _numbers(options, _MEAN), _numbers(options, _STD)
                    return None if mean is None or std is None else PixelScale(mean, std)
    return None


def _tables(table: Table, field: int, most: int) -> list[Table]:
    """Return the first tables of a vector of tables."""
    place = table.Offset(field)
    if place == 0:
        return []
    start, count = table.Vector(place), table.VectorLen(place)
    return [Table(table.Bytes, table.Indirect(start + 4 * i)) for i in range(min(count, most))]


def _numbers(table: Table, field: int) -> Numbers | None:
    """Return a vector of real numbers, one number if all are equal; None if it is empty or too long."""
    place = table.Offset(field)
    if place == 0 or not 0 < table.VectorLen(place) <= MAX_CHANNELS:
        return None
    start = table.Vector(place)
    found = tuple(
        float(np.float32(table.Get(Float32Flags, start + 4 * i))) for i in range(table.VectorLen(place))
    )
    return found[0] if len(set(found)) == 1 else found
