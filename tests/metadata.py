"""TFLite metadata for files that tests build: the normalisation of inputs."""

from __future__ import annotations

from collections.abc import Sequence

import flatbuffers

NORMALIZATION = 1  # of the union ProcessUnitOptions of metadata_schema.fbs

Scale = tuple[Sequence[float], Sequence[float]]


def metadata(*scales: Scale | None, identifier: bytes = b"M001", kind: int = NORMALIZATION) -> bytes:
    """Metadata of a model with these means and stds, one pair for each input; None: an input without."""
    builder = flatbuffers.Builder()
    inputs = []
    for scale in scales:
        units = None if scale is None else _vector(builder, [_unit(builder, scale, kind)])
        inputs.append(_table(builder, 7, {4: units}))
    subgraph = _table(builder, 9, {2: _vector(builder, inputs)})
    builder.Finish(_table(builder, 8, {3: _vector(builder, [subgraph])}), identifier)
    return bytes(builder.Output())


def _unit(builder: flatbuffers.Builder, scale: Scale, kind: int) -> int:
    numbers = []
    for values in scale:
        builder.StartVector(4, len(values), 4)
        for value in reversed(values):
            builder.PrependFloat32(value)
        numbers.append(builder.EndVector())
    options = _table(builder, 2, dict(enumerate(numbers)))
    builder.StartObject(2)
    builder.PrependUint8Slot(0, kind, 0)
    builder.PrependUOffsetTRelativeSlot(1, options, 0)
    return int(builder.EndObject())


def _table(builder: flatbuffers.Builder, fields: int, offsets: dict[int, int | None]) -> int:
    builder.StartObject(fields)
    for field, offset in offsets.items():
        if offset is not None:
            builder.PrependUOffsetTRelativeSlot(field, offset, 0)
    return int(builder.EndObject())


def _vector(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())
