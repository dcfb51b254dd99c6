"""The scale of pixels in the TFLite metadata of a file."""

from __future__ import annotations

import numpy as np
from flatbuffers.number_types import Float32Flags
from flatbuffers.table import Table

from gpunn.errors import FormatError
from gpunn.graph.pixels import Numbers, PixelScale
from gpunn.importers.tflite import metadata
from gpunn.importers.tflite.file import CORRUPT, TfliteFile
from gpunn.types import TensorType

MAX_CHANNELS = 4
_MEAN, _STD = 4, 6  # places of fields


def pixel_scale(file: TfliteFile, inputs: tuple[TensorType, ...]) -> PixelScale | None:
    """Return the normalisation that the metadata states for the one input of a model.

    None if there is none, and if it cannot be read or used: a model works without it.
    """
    if len(inputs) != 1 or inputs[0].rank != 4:
        return None
    try:
        tensor = metadata.tensor(file, metadata.INPUTS)
        options = None if tensor is None else metadata.unit(tensor, metadata.NORMALIZATION)
        mean, std = (None, None) if options is None else (_numbers(options, _MEAN), _numbers(options, _STD))
    except (*CORRUPT, FormatError):
        return None
    if mean is None or std is None:
        return None
    found = PixelScale(mean, std)
    return found if found.usable(inputs[0].shape[3]) else None


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
