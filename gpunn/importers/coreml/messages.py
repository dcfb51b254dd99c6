"""Protobuf classes for the messages of .mlmodel files, made of the field table at run time."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from gpunn.importers.coreml.fields import FIELDS

Message = Any  # generated classes have no static types
_FIELD = re.compile(r"(\w+)=(\d+):([\w.]+)(\*?)(?:\^(\w+))?")
_FIELD_DESCRIPTOR = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bool": _FIELD_DESCRIPTOR.TYPE_BOOL,
    "bytes": _FIELD_DESCRIPTOR.TYPE_BYTES,
    "double": _FIELD_DESCRIPTOR.TYPE_DOUBLE,
    "float": _FIELD_DESCRIPTOR.TYPE_FLOAT,
    "int32": _FIELD_DESCRIPTOR.TYPE_INT32,
    "int64": _FIELD_DESCRIPTOR.TYPE_INT64,
    "packed": _FIELD_DESCRIPTOR.TYPE_BYTES,
    "string": _FIELD_DESCRIPTOR.TYPE_STRING,
    "uint32": _FIELD_DESCRIPTOR.TYPE_UINT32,
    "uint64": _FIELD_DESCRIPTOR.TYPE_UINT64,
}


@cache
def model_class() -> type[Message]:
    """Return the class of the outermost message.

    Its descriptors lie in a pool of their own: other packages may register Core ML's messages as well.
    """
    file = descriptor_pb2.FileDescriptorProto(name="gpunn_coreml.proto", package="coreml", syntax="proto3")
    file.message_type.add(name="Empty")
    for line in FIELDS.replace("\n    ", " ").strip().splitlines():
        name, _, fields = line.partition(": ")
        _add_message(file.message_type.add(name=_plain(name)), fields)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName("coreml.Model"))
    return found


def _add_message(message: Any, fields: str) -> None:
    """Fill a message descriptor with the fields of a line."""
    groups: dict[str, int] = {}
    for name, number, kind, star, group in _FIELD.findall(fields):
        repeated = star or kind == "packed"
        label = _FIELD_DESCRIPTOR.LABEL_REPEATED if repeated else _FIELD_DESCRIPTOR.LABEL_OPTIONAL
        field = message.field.add(name=name, number=int(number), label=label)
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type, field.type_name = _FIELD_DESCRIPTOR.TYPE_MESSAGE, f".coreml.{_plain(kind)}"
        if group:
            if group not in groups:
                groups[group] = len(groups)
                message.oneof_decl.add(name=group)
            field.oneof_index = groups[group]


def _plain(name: str) -> str:
    """Return the name of a nested message as a name of its own."""
    return name.replace(".", "_")
