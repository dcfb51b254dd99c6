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
    """Return the normalisation that the metadata states for the one input of a model; None if there is none.

    A model works without it, so one that cannot be read or used is ignored, with a warning.
    """
    try:
        tensor = metadata.tensor(file, metadata.INPUTS)
        options = None if tensor is None else metadata.unit(tensor, metadata.NORMALIZATION)
        if options is None:
            return None
        found = PixelScale(_numbers(options, _MEAN), _numbers(options, _STD))
    except (*CORRUPT, FormatError):
        file.warn("the scale of pixels in the TFLite metadata cannot be read, and is ignored")
        return None
    why = f"the model has {len(inputs)} inputs" if len(inputs) != 1 else ""
    if not why and inputs[0].rank != 4:
        why = f"the input {inputs[0]} is no image"
    if not why and not found.usable(inputs[0].shape[3]):
        why = f"it does not suit bytes of an image {inputs[0]}"
    if why:
        file.warn(f"the TFLite metadata states the scale of pixels {found}, which is ignored: {why}")
        return None
    return found


def _numbers(table: Table, field: int) -> Numbers:
    """Return a vector of real numbers, one number if all are equal.

    Raises ValueError if it is empty or too long.
    """
    place = table.Offset(field)
    count = table.VectorLen(place) if place else 0
    if not 0 < count <= MAX_CHANNELS:
        raise ValueError(f"{count} numbers are not those of channels")
    start = table.Vector(place)
    found = tuple(float(np.float32(table.Get(Float32Flags, start + 4 * i))) for i in range(count))
    return found[0] if len(set(found)) == 1 else found
