"""Protobuf classes for the messages of .mlmodel files, made of the field table at run time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from gpunn.importers.coreml.fields import FIELDS
from gpunn.importers.coreml.wire import encoded_bytes, encoded_varint

Message = Any  # generated classes have no static types
_SCALARS = {  # descriptor.proto: FieldDescriptorProto.Type
    "double": 1,
    "float": 2,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "packed": 12,
    "uint32": 13,
}
_MESSAGE = 11
_OPTIONAL, _REPEATED = 1, 3  # FieldDescriptorProto.Label


# A field as its line states it: name, number, type, whether it is repeated, and its group, "" for none.
Field = tuple[str, int, str, bool, str]


@cache
def field_table() -> Mapping[str, Sequence[Field]]:
    """Return the fields of all messages, by the messages' names."""
    pairs = (line.split(": ") for line in FIELDS.replace("\n    ", " ").strip().splitlines())
    return {name: [*map(_field, fields.split())] for name, fields in pairs}


def _field(text: str) -> Field:
    name, _, rest = text.partition("=")
    number, _, rest = rest.partition(":")
    kind, _, group = rest.partition("^")
    plain = kind.rstrip("*")
    return name, int(number), plain, plain != kind or plain == "packed", group


@cache
def model_class() -> type[Message]:
    """Return the class of the outermost message.

    Its descriptors lie in a pool of their own: other packages may register Core ML's messages as well.
    """
    pool = DescriptorPool()
    pool.AddSerializedFile(b"".join(_file()))
    found: type[Message] = GetMessageClass(pool.FindMessageTypeByName("coreml.Model"))
    return found


def _file() -> Iterator[bytes]:
    """Yield the fields of a FileDescriptorProto; the classes that write it take longer to import."""
    yield encoded_bytes(1, b"gpunn_coreml.proto")
    yield encoded_bytes(2, b"coreml")
    yield encoded_bytes(4, encoded_bytes(1, b"Empty"))
    for name, fields in field_table().items():
        yield encoded_bytes(4, b"".join(_message(name, fields)))
    yield encoded_bytes(12, b"proto3")


def _message(name: str, fields: Sequence[Field]) -> Iterator[bytes]:
    """Yield the fields of a DescriptorProto."""
    yield encoded_bytes(1, _plain(name))
    groups: dict[str, int] = {}
    for name, number, kind, repeated, group in fields:
        made = encoded_bytes(1, name.encode()) + encoded_varint(3, number) + _type(kind, repeated)
        if group:
            made += encoded_varint(9, groups.setdefault(group, len(groups)))
        yield encoded_bytes(2, made)
    for group in groups:
        yield encoded_bytes(8, encoded_bytes(1, group.encode()))


@cache
def _type(kind: str, repeated: bool) -> bytes:
    """Return the fields of a FieldDescriptorProto that say of which type a field is, and how often."""
    label = _REPEATED if repeated else _OPTIONAL
    made = encoded_varint(4, label) + encoded_varint(5, _SCALARS.get(kind, _MESSAGE))
    return made if kind in _SCALARS else made + encoded_bytes(6, b".coreml." + _plain(kind))


def _plain(name: str) -> bytes:
    """Return the name of a nested message as a name of its own."""
    return name.replace(".", "_").encode()
