"""TFLite metadata for files that tests and benchmarks build: scales of pixels, calibration of scores."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import flatbuffers

# Of the union ProcessUnitOptions of metadata_schema.fbs.
NORMALIZATION, CALIBRATION, THRESHOLDING = 1, 2, 3
AXIS_LABELS, AXIS_CALIBRATION = 2, 4  # of the enumeration AssociatedFileType

Scale = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Scores:
    """What metadata says of an output: process units, and files by name with their type.

    calibration: the number of the score transformation, and the default score.
    """

    calibration: tuple[int, float] | None = None
    threshold: float | None = None
    files: Mapping[str, int] = field(default_factory=dict)


def metadata(
    *scales: Scale | None,
    identifier: bytes = b"M001",
    kind: int = NORMALIZATION,
    scores: Scores | None = None,
) -> bytes:
    """Metadata of a model with these means and stds, one pair for each input; None: an input without.

    `scores` is of its first output.
    """
    builder = flatbuffers.Builder()
    inputs = []
    for scale in scales:
        units = None if scale is None else _vector(builder, [_unit(builder, kind, _scale(builder, scale))])
        inputs.append(_table(builder, 7, {4: units}))
    outputs = None if scores is None else _vector(builder, [_output(builder, scores)])
    subgraph = _table(builder, 9, {2: _vector(builder, inputs), 3: outputs})
    builder.Finish(_table(builder, 8, {3: _vector(builder, [subgraph])}), identifier)
    return bytes(builder.Output())


def with_files(model: bytes, files: Mapping[str, str]) -> bytes:
    """Append a zip archive with text files to a model, as metadata tools do."""
    stream = io.BytesIO(model)
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_STORED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), text)
    return stream.getvalue()


def _output(builder: flatbuffers.Builder, scores: Scores) -> int:
    units = []
    if scores.calibration is not None:
        transform, default = scores.calibration
        builder.StartObject(2)
        builder.PrependInt8Slot(0, transform, 0)
        builder.PrependFloat32Slot(1, default, 0.0)
        units.append(_unit(builder, CALIBRATION, builder.EndObject()))
    if scores.threshold is not None:
        builder.StartObject(1)
        builder.PrependFloat32Slot(0, scores.threshold, 0.0)
        units.append(_unit(builder, THRESHOLDING, builder.EndObject()))
    files = []
    for name, kind in scores.files.items():
        text = builder.CreateString(name)
        builder.StartObject(5)
        builder.PrependUOffsetTRelativeSlot(0, text, 0)
        builder.PrependInt8Slot(2, kind, 0)
        files.append(builder.EndObject())
    return _table(builder, 7, {4: _vector(builder, units), 6: _vector(builder, files)})


def _scale(builder: flatbuffers.Builder, scale: Scale) -> int:
    numbers = []
    for values in scale:
        builder.StartVector(4, len(values), 4)
        for value in reversed(values):
            builder.PrependFloat32(value)
        numbers.append(builder.EndVector())
    return _table(builder, 2, dict(enumerate(numbers)))


def _unit(builder: flatbuffers.Builder, kind: int, options: int) -> int:
    builder.StartObject(2)
    builder.PrependUint8Slot(0, kind, 0)
    builder.PrependUOffsetTRelativeSlot(1, options, 0)
    return int(builder.EndObject())


def _table(builder: flatbuffers.Builder, fields: int, offsets: Mapping[int, int | None]) -> int:
    builder.StartObject(fields)
    for field_, offset in offsets.items():
        if offset is not None:
            builder.PrependUOffsetTRelativeSlot(field_, offset, 0)
    return int(builder.EndObject())


def _vector(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())
