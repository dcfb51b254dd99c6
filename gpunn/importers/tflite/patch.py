"""A .tflite file with other contents of tensors; all else of the file stays as it is.

Contents of the same size take the place of the old ones. Others, and those of tensors that share a buffer
with tensors that stay, get buffers of their own: a flatbuffer's references point forward, so a new table of
the model, a new list of buffers and the new buffers go in front, and point to what was there before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import tflite as schema

from gpunn.errors import FormatError, GpunnError, UnsupportedError
from gpunn.importers.tflite.file import CORRUPT

Key = tuple[int, int]  # a tensor: the numbers of its subgraph and of itself
START = 8  # behind the reference to the model, and the file identifier
ALIGNMENT = 16  # of buffers: TensorFlow Lite schema, Buffer.data
_TENSOR_BUFFER, _BUFFER_DATA = 8, 4  # places of fields in their tables' lists
_BUFFERS, _FIELDS = 4, 8  # the number of Model.buffers, and how many fields Model has
_BUFFER_TABLE = struct.pack("<HHHH", 6, 8, 4, 0)  # sizes of the list of fields and of the table, one field


class Place(NamedTuple):
    """The place of a buffer's content in a file: the number of its first byte, and of its bytes."""

    start: int
    size: int


@contextmanager
def changing(name: str) -> Iterator[None]:
    """Convert the errors of reading or writing out of bounds to FormatError; `name` is the file's."""
    try:
        yield
    except GpunnError:
        raise
    except CORRUPT as error:
        reason = str(error)
    else:
        return
    raise FormatError(f"{name}: corrupt or truncated, it cannot be changed ({reason})")


def with_contents(data: bytes, contents: Mapping[Key, bytes]) -> bytes:
    """Return a .tflite file in which these tensors, which have contents, have others.

    Raises UnsupportedError if buffers would have to move that lie behind the flatbuffer, as in files over
    2 GiB, and one of CORRUPT for a damaged file.
    """
    model = schema.Model.GetRootAs(data, 0)
    users: dict[int, set[Key]] = {}
    for key, tensor in tensors_of(model):
        users.setdefault(tensor.Buffer(), set()).add(key)
    for number in range(model.MetadataLength()):
        users.setdefault(model.Metadata(number).Buffer(), set()).add((-1, number))
    made, own = bytearray(data), dict[Key, bytes]()
    for key, content in contents.items():
        number = model.Subgraphs(key[0]).Tensors(key[1]).Buffer()
        place = content_place(model.Buffers(number))
        together = all(contents.get(user) == content for user in users[number])
        if together and place.size == len(content):
            made[place.start : place.start + place.size] = content
        else:
            own[key] = content
    return _with_buffers(made, own) if own else bytes(made)


def tensors_of(model: Any) -> Iterator[tuple[Key, Any]]:
    """Yield the tables of all tensors."""
    for k in range(model.SubgraphsLength()):
        graph = model.Subgraphs(k)
        if 4 * graph.TensorsLength() > len(model._tab.Bytes):
            raise ValueError(f"subgraph {k} has {graph.TensorsLength()} tensors")
        yield from (((k, i), graph.Tensors(i)) for i in range(graph.TensorsLength()))


def content_place(buffer: Any) -> Place:
    """Return where the content of a buffer is, which has some: in its vector, or behind the flatbuffer."""
    if buffer.Offset() > 1:
        return Place(buffer.Offset(), buffer.Size())
    return Place(buffer._tab.Vector(buffer._tab.Offset(_BUFFER_DATA)), buffer.DataLength())


def _with_buffers(data: bytearray, contents: Mapping[Key, bytes]) -> bytes:
    """Return the file with a new buffer for each of some tensors."""
    model = schema.Model.GetRootAs(data, 0)
    count = model.BuffersLength()
    fields = struct.unpack_from("<H", data, _fields_of(model, data))[0] // 2 - 2
    if fields > _FIELDS or any(model.Buffers(i).Offset() > 1 for i in range(count)):
        raise UnsupportedError("the file keeps its buffers or its model in a form that gpunn does not change")
    for number, (graph, tensor) in enumerate(contents):
        table = model.Subgraphs(graph).Tensors(tensor)._tab
        struct.pack_into("<I", data, table.Pos + table.Offset(_TENSOR_BUFFER), count + number)
    front = _front(model, data, [*contents.values()])
    return bytes(struct.pack("<I", front.root) + data[4:START] + front.block + data[START:])


class _Front(NamedTuple):
    """The new beginning of a file, and the place of the model's table in it."""

    root: int
    block: bytes


def _front(model: Any, data: bytearray, contents: list[bytes]) -> _Front:
    """Return a copy of the model's table with a longer list of buffers, and the new buffers."""
    old, at_fields = model._tab.Pos, _fields_of(model, data)
    fields_size, table_size = struct.unpack_from("<HH", data, at_fields)
    root = _aligned(START + fields_size, 8) + old % 8
    buffers = _aligned(root + table_size, 4)
    count = model.BuffersLength()
    tables = _aligned(buffers + 4 + 4 * (count + len(contents)), 8) + len(_BUFFER_TABLE)
    places, end = list[int](), tables + 8 * len(contents)
    for content in contents:
        places.append(_aligned(end + 4, ALIGNMENT))
        end = places[-1] + len(content)
    # What follows moves by a multiple of the alignment, so that it stays aligned.
    moved = _aligned(end - START, ALIGNMENT)
    block = bytearray(START + moved)
    block[START : START + fields_size] = data[at_fields : at_fields + fields_size]
    block[root : root + table_size] = data[old : old + table_size]
    struct.pack_into("<i", block, root, root - START)
    for number in range(1, fields_size // 2 - 2):  # field 0, the version, is a number
        place = model._tab.Offset(4 + 2 * number)
        if place:
            target = buffers if number == _BUFFERS else model._tab.Indirect(old + place) + moved
            struct.pack_into("<I", block, root + place, target - root - place)
    struct.pack_into("<I", block, buffers, count + len(contents))
    targets = [model.Buffers(i)._tab.Pos + moved for i in range(count)]
    targets += [tables + 8 * k for k in range(len(contents))]
    for number, target in enumerate(targets):
        place = buffers + 4 + 4 * number
        struct.pack_into("<I", block, place, target - place)
    block[tables - len(_BUFFER_TABLE) : tables] = _BUFFER_TABLE
    for number, (place, content) in enumerate(zip(places, contents, strict=True)):
        table = tables + 8 * number
        struct.pack_into("<iI", block, table, table - tables + len(_BUFFER_TABLE), place - 4 - (table + 4))
        struct.pack_into("<I", block, place - 4, len(content))
        block[place : place + len(content)] = content
    return _Front(root, bytes(block[START:]))


def _fields_of(model: Any, data: bytearray) -> int:
    """Return where the list of the fields of the model's table is."""
    return int(model._tab.Pos - struct.unpack_from("<i", data, model._tab.Pos)[0])


def _aligned(place: int, alignment: int) -> int:
    return -(-place // alignment) * alignment
