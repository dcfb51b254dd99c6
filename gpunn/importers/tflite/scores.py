"""Score calibration and score threshold in the TFLite metadata of a file."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from flatbuffers.number_types import Float32Flags, Int8Flags
from flatbuffers.table import Table

from gpunn.errors import FormatError
from gpunn.graph.scores import Calibration, Scoring, Sigmoid, Transform
from gpunn.importers.tflite import metadata
from gpunn.importers.tflite.file import CORRUPT, TfliteFile
from gpunn.importers.tflite.labels import texts
from gpunn.types import TensorType

TRANSFORMS: tuple[Transform, ...] = ("identity", "logarithm", "log odds")  # ScoreTransformationType
CALIBRATION_FILE = 4  # AssociatedFileType: TENSOR_AXIS_SCORE_CALIBRATION

_TRANSFORM, _DEFAULT, _THRESHOLD = 4, 6, 4  # places of fields


def scoring(file: TfliteFile, data: bytes, outputs: Sequence[TensorType]) -> Scoring | None:
    """Return what the metadata states of the scores in the one output of a model.

    `data` is the whole file, with the archive that holds the parameters of the calibration at its end. None
    if nothing is stated, or nothing that can be read and used: a model works without it.
    """
    if len(outputs) != 1 or outputs[0].rank == 0:
        return None
    try:
        tensor = metadata.tensor(file, metadata.OUTPUTS)
        if tensor is None:
            return None
        calibration = _calibration(tensor, data, outputs[0].shape[-1])
        options = metadata.unit(tensor, metadata.SCORE_THRESHOLDING)
        threshold = None if options is None else _shortest(options.GetSlot(_THRESHOLD, 0.0, Float32Flags))
    except (*CORRUPT, FormatError):
        return None
    if threshold is not None and not math.isfinite(threshold):
        threshold = None
    return None if calibration is None and threshold is None else Scoring(calibration, threshold)


def _calibration(tensor: Table, data: bytes, classes: int) -> Calibration | None:
    options = metadata.unit(tensor, metadata.SCORE_CALIBRATION)
    if options is None:
        return None
    transform = options.GetSlot(_TRANSFORM, 0, Int8Flags)
    default = _shortest(options.GetSlot(_DEFAULT, 0.0, Float32Flags))
    name = next(metadata.files(tensor, CALIBRATION_FILE), None)
    text = None if name is None else texts(data, name).get(name)
    if text is None or not 0 <= transform < len(TRANSFORMS) or not math.isfinite(default):
        return None
    sigmoids = _sigmoids(text, classes)
    return None if sigmoids is None else Calibration(TRANSFORMS[transform], sigmoids, default)


def _shortest(number: float) -> float:
    """Return the float32 as people wrote it: 0.9 instead of 0.8999999761581421."""
    return float(str(np.float32(number)))


def _sigmoids(text: str, classes: int) -> tuple[Sigmoid | None, ...] | None:
    """Parse a file with one line for each class: scale, slope, offset and perhaps the least score.

    A line may be empty. Returns None if the file is something else.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if len(lines) == classes + 1 and not lines[-1]:
        lines.pop()  # the end of the last line
    if len(lines) != classes:
        return None
    found: list[Sigmoid | None] = []
    for line in lines:
        try:
            numbers = [float(word) for word in line.split(",")] if line.strip() else []
        except ValueError:
            return None
        if len(numbers) not in (0, 3, 4):
            return None
        sigmoid = Sigmoid(*numbers) if numbers else None
        if sigmoid is not None and not sigmoid.usable:
            return None
        found.append(sigmoid)
    return tuple(found)
