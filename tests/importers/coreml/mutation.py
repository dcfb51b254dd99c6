"""Damaged .mlmodel files, made of sound ones at random: contents of messages are changed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

import gpunn
from gpunn.importers.coreml.messages import model_class
from gpunn.passes import optimise
from tests.importers.coreml.builder import Message
from tests.importers.coreml.conformance import loader
from tests.importers.tflite.test_demands import LIMIT_SECONDS

LARGEST = 50_000  # bytes of a case that is damaged
INTEGERS = (0, 1, -1, 2, 3, 5, 100, 2**16, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**31), -(2**63))
FLOATS = (0.0, -1.0, 0.5, 1e-30, 3e38, float("inf"), float("-inf"), float("nan"), 2.0**31)


def survives(data: bytes) -> str:
    """Read and optimise; return "" for a model, else the name of the error, which must be one of gpunn's."""
    start = time.process_time()
    try:
        optimise(gpunn.load(data))
        answer = ""
    except gpunn.GpunnError as error:
        assert len(str(error)) < 20_000
        answer = type(error).__name__
    took = time.process_time() - start
    assert took < LIMIT_SECONDS, f"took {took:.1f} s"
    return answer


def damaged_contents(message: Message, random: Random) -> bytes:
    """Change a few fields of messages, set or not; the encoding stays sound."""
    made = type(message)()
    made.CopyFrom(message)
    for _ in range(random.randint(1, 3)):
        _damage(random.choice([*_messages(made)]), random)
    return bytes(made.SerializeToString())


def _messages(message: Message) -> Iterator[Message]:
    """Yield a message and all in it."""
    yield message
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for part in value if _repeated(value) else (value,):
                yield from _messages(part)


def _repeated(value: Any) -> bool:
    return hasattr(value, "extend")


def _damage(message: Message, random: Random) -> None:
    """Change one field of a message, mostly one that is set."""
    filled = [field for field, _ in message.ListFields()]
    fields = filled if filled and random.random() < 0.7 else list(message.DESCRIPTOR.fields)
    if not fields:
        return
    field = random.choice(fields)
    if random.random() < 0.15:
        message.ClearField(field.name)
    elif not _repeated(getattr(message, field.name)):
        _set(message, field, random)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        _change_messages(getattr(message, field.name), random)
    else:
        _change_values(getattr(message, field.name), field, random)


def _set(message: Message, field: FieldDescriptor, random: Random) -> None:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, _value(field, getattr(message, field.name), random))


def _change_messages(values: Any, random: Random) -> None:
    kind = random.randrange(4)
    if not len(values) or kind == 0:
        values.add()
    elif kind == 1:
        values.add().CopyFrom(random.choice(values))
    elif kind == 2:
        del values[random.randrange(len(values))]
    else:
        one, two = random.randrange(len(values)), random.randrange(len(values))
        kept = type(values[one])()
        kept.CopyFrom(values[one])
        values[one].CopyFrom(values[two])
        values[two].CopyFrom(kept)


def _change_values(values: Any, field: FieldDescriptor, random: Random) -> None:
    kind = random.randrange(3)
    if not len(values) or kind == 0:
        values.append(_value(field, values[-1] if len(values) else None, random))
    elif kind == 1:
        del values[random.randrange(len(values))]
    else:
        at = random.randrange(len(values))
        values[at] = _value(field, values[at], random)


def _value(field: FieldDescriptor, old: Any, random: Random) -> Any:
    """Return another value for a field."""
    if field.type == FieldDescriptor.TYPE_BOOL:
        return random.random() < 0.5
    if field.type == FieldDescriptor.TYPE_STRING:
        return random.choice(["", "x", "y", "input", "output", "a" * 1000, "\n", old or "data"])
    if field.type == FieldDescriptor.TYPE_BYTES:
        kept = old or b"\0\0\x80\x3f"
        return random.choice([b"", kept[:-1], kept[: len(kept) // 2], kept * 2, random.randbytes(8)])
    if field.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return random.choice(FLOATS)
    low, high = _RANGES[field.type]
    near = old + random.choice((-2, -1, 1, 2)) if isinstance(old, int) else 1
    return min(max(near if random.random() < 0.4 else random.choice(INTEGERS), low), high)


_RANGES = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}


def in_pipeline(models: Sequence[Message]) -> Message:
    """A pipeline of models, joined as far as their names are the same."""
    made = model_class()(specificationVersion=4)
    made.description.input.extend(models[0].description.input)
    made.description.output.extend(models[-1].description.output)
    made.pipeline.models.extend(models)
    return made


def seeds(random: Random) -> list[Message]:
    """Messages of small conformance cases, five for each layer type, and a pipeline for each."""
    found: dict[str, list[Message]] = {}
    for case in loader().load():
        if len(case.model_bytes) < LARGEST and case.layer != "wire":
            found.setdefault(case.layer, []).append(model_class().FromString(case.model_bytes))
    some = [random.choice(messages) for messages in found.values()]
    pairs = [in_pipeline([one, random.choice(some)]) for one in some]
    return [*(random.choice(m) for m in found.values() for _ in range(5)), *pairs]
