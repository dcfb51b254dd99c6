"""Score calibration and score threshold in the TFLite metadata of a file."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence

import numpy as np
import tflite as schema
from flatbuffers.number_types import Float32Flags, Int8Flags
from flatbuffers.table import Table

from gpunn.errors import FormatError
from gpunn.graph.scores import Calibration, Scoring, Sigmoid, Transform
from gpunn.importers.tflite import metadata
from gpunn.importers.tflite.file import CORRUPT, TfliteFile
from gpunn.importers.tflite.labels import texts
from gpunn.importers.tflite.patch import content_place
from gpunn.types import TensorType

TRANSFORMS: tuple[Transform, ...] = ("identity", "logarithm", "log odds")  # ScoreTransformationType
CALIBRATION_FILE = 4  # AssociatedFileType: TENSOR_AXIS_SCORE_CALIBRATION

_TRANSFORM, _DEFAULT, _THRESHOLD = 4, 6, 4  # places of fields


def scoring(file: TfliteFile, data: bytes, outputs: Sequence[TensorType]) -> Scoring | None:
    """Return what the metadata states of the scores in the one output of a model; None if it states nothing.

    `data` is the whole file, with the archive that holds the parameters of the calibration at its end. A
    model works without scoring, so what cannot be read or used is ignored, with a warning.
    """
    if len(outputs) != 1 or outputs[0].rank == 0:
        return None
    calibration, threshold = None, None
    try:
        tensor = metadata.tensor(file, metadata.OUTPUTS)
        if tensor is None:
            return None
        options = metadata.unit(tensor, metadata.SCORE_THRESHOLDING)
        if options is not None:
            threshold = _finite(options, _THRESHOLD)
        options = metadata.unit(tensor, metadata.SCORE_CALIBRATION)
        if options is not None:
            calibration = _calibration(options, tensor, data, outputs[0].shape[-1])
    except (*CORRUPT, FormatError) as error:
        file.warn(f"the scoring in the TFLite metadata cannot be used, and is ignored: {error}")
    return None if calibration is None and threshold is None else Scoring(calibration, threshold)


def without_scoring(data: bytes, name: str) -> bytes:
    """Return the file without what its metadata says of its scores: no process units of the outputs."""
    file, made = TfliteFile(data, name), bytearray(data)
    for place in _process_units(file):
        struct.pack_into("<I", made, place, 0)
    return bytes(made)


def _process_units(file: TfliteFile) -> Iterator[int]:
    """Yield where in a file the number of process units of its first output is."""
    try:
        output = metadata.tensor(file, metadata.OUTPUTS)
        if output is None or not output.Offset(metadata.UNITS):
            return
        model = schema.Model.GetRootAs(file.data, 0)
        entries = (model.Metadata(k) for k in range(model.MetadataLength()))
        buffer = model.Buffers(next(e.Buffer() for e in entries if e.Name() == metadata.ENTRY))
        yield content_place(buffer).start + output.Vector(output.Offset(metadata.UNITS)) - 4
    except CORRUPT:  # a model works without metadata
        return


def _calibration(options: Table, tensor: Table, data: bytes, classes: int) -> Calibration:
    """Return the calibration of a tensor; raise one of CORRUPT if it cannot be used."""
    transform = options.GetSlot(_TRANSFORM, 0, Int8Flags)
    if not 0 <= transform < len(TRANSFORMS):
        raise ValueError(f"{transform} is no transformation of scores")
    name = next(metadata.files(tensor, CALIBRATION_FILE), None)
    if name is None:
        raise ValueError("the calibration names no file")
    text = texts(data, name).get(name)
    if text is None:
        raise ValueError(f"the file has no {name!r}")
    return Calibration(TRANSFORMS[transform], _sigmoids(text, classes), _finite(options, _DEFAULT))


def _finite(options: Table, place: int) -> float:
    """Return a float32 field as people wrote it: 0.9 instead of 0.8999999761581421."""
    number = float(str(np.float32(options.GetSlot(place, 0.0, Float32Flags))))
    if not math.isfinite(number):
        raise ValueError(f"{number} is no score")
    return number


def _sigmoids(text: str, classes: int) -> tuple[Sigmoid | None, ...]:
    """Parse a file with one line for each class: scale, slope, offset and perhaps the least score.

    A line may be empty. Raises ValueError if the file is something else.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if len(lines) == classes + 1 and not lines[-1]:
        lines.pop()  # the end of the last line
    if len(lines) != classes:
        raise ValueError(f"{len(lines)} lines of parameters for {classes} classes")
    return tuple(_sigmoid(line) if line.strip() else None for line in lines)


def _sigmoid(line: str) -> Sigmoid:
    numbers = [float(word) for word in line.split(",")]
    sigmoid = Sigmoid(*numbers) if len(numbers) in (3, 4) else None
    if sigmoid is None or not sigmoid.usable:
        raise ValueError(f"{line[:80]!r} are no parameters of a sigmoid")
    return sigmoid
