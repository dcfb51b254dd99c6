"""TFLite metadata of a file: what its input and its output are, for people and for tools.

The metadata is a flatbuffer inside the model's, of metadata_schema.fbs (file identifier M001). No package
that gpunn needs has classes for it, so its few fields are read by their places in the tables.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from flatbuffers.number_types import Int8Flags, Uint8Flags
from flatbuffers.table import Table

from gpunn.importers.tflite.file import TfliteFile

ENTRY = b"TFLITE_METADATA"
IDENTIFIER = b"M001"
MAX_BYTES = 1 << 24  # what is larger than this is not read
MAX_TABLES = 16  # of a vector; further ones are not read

# Kinds of the union ProcessUnitOptions.
NORMALIZATION, SCORE_CALIBRATION, SCORE_THRESHOLDING = 1, 2, 3

# The fields by their places: 4 is the first one of a table, and each further one 2 more.
INPUTS, OUTPUTS = 8, 10  # of SubGraphMetadata
_SUBGRAPHS, UNITS, _FILES = 10, 12, 16
_UNIT_TYPE, _UNIT_OPTIONS = 4, 6
_FILE_NAME, _FILE_TYPE = 4, 8


def tensor(file: TfliteFile, side: int) -> Table | None:
    """Return the metadata of the first input or output (`side`) of the first subgraph; None if there is none.

    Raises one of file.CORRUPT if it cannot be read.
    """
    data = file.metadata(ENTRY, MAX_BYTES)
    if data[4:8] != IDENTIFIER:
        return None
    root = Table(data, struct.unpack_from("<I", data)[0])
    found = (t for subgraph in _tables(root, _SUBGRAPHS, 1) for t in _tables(subgraph, side, 1))
    return next(found, None)


def unit(tensor: Table, kind: int) -> Table | None:
    """Return the options of a tensor's first process unit of a kind; None if it has none."""
    for one in _tables(tensor, UNITS, MAX_TABLES):
        if one.GetSlot(_UNIT_TYPE, 0, Uint8Flags) == kind:
            return Table(one.Bytes, one.Indirect(one.Pos + one.Offset(_UNIT_OPTIONS)))
    return None


def files(tensor: Table, kind: int) -> Iterator[str]:
    """Yield the names of a tensor's associated files of a kind (enumeration AssociatedFileType)."""
    for one in _tables(tensor, _FILES, MAX_TABLES):
        place = one.Offset(_FILE_NAME)
        if one.GetSlot(_FILE_TYPE, 0, Int8Flags) == kind and place:
            yield one.String(one.Pos + place).decode("utf-8", "replace")


def _tables(table: Table, field: int, most: int) -> list[Table]:
    """Return the first tables of a vector of tables."""
    place = table.Offset(field)
    if place == 0:
        return []
    start, count = table.Vector(place), table.VectorLen(place)
    return [Table(table.Bytes, table.Indirect(start + 4 * i)) for i in range(min(count, most))]
