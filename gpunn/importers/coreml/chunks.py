"""Chunks: the large values of a file stay where they are, and protobuf gets the file without them.

Most of a file are weights. protobuf would copy them as it decodes the file, and once more as they are read.
So a walk over the file takes large values out, and leaves tokens in their places, which no file can know.
The walk decides nothing: what it does not understand it leaves as it is, for protobuf to judge.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import numpy as np

from gpunn.importers.coreml.messages import field_table
from gpunn.importers.coreml.wire import BYTES, FIXED32, FIXED64, VARINT, encoded, varint

LARGE = 1 << 14  # bytes of a value that is taken out, and of a message that is searched for some
MAX_DEPTH = 100  # messages in one another, as in protobuf
BYTES_PER_FIELD = 1024  # a file with more fields than that on the way is searched in part only
MAX_LENGTH_BYTES = 5  # of a length in the file; protobuf refuses more
TOKEN_BYTES = 20
FLOAT_BYTES = 4
VALUES = ("packed", "bytes")  # types of fields that are taken out; of them, packed floats are aligned

Chunks = Mapping[bytes, memoryview]  # by token
NO_CHUNKS: Chunks = {}


def whole(value: bytes, chunks: Chunks) -> bytes | memoryview:
    """Return a value of a message, or what it is a token of."""
    return chunks.get(value, value) if len(value) == TOKEN_BYTES else value


def without_chunks(data: bytes) -> tuple[bytes, Chunks]:
    """Return an .mlmodel file without its large values, and these."""
    walk = _Walk(memoryview(data), [], [], 1000 + len(data) // BYTES_PER_FIELD)
    walk.message("Model", 0, len(data), 0)
    if not walk.found:
        return data, NO_CHUNKS
    return b"".join(walk.pieces), _aligned(walk)


@dataclass(slots=True, eq=False, repr=False)
class _Walk:
    """A walk over a file; `left` is the number of fields that it may still look at.

    `pieces` make up the file without the values that were `found`: their types, and where they stood.
    """

    data: memoryview
    pieces: list[bytes | memoryview]
    found: list[tuple[bytes, str, memoryview]]
    left: int

    def message(self, kind: str, at: int, end: int, depth: int) -> int:
        """Append the pieces of a message between two places; return how many bytes they are."""
        data, pieces, inside = self.data, self.pieces, _inside(kind)
        kept, size = at, end - at  # what follows `kept` was not appended yet
        while inside and at < end and self.left:
            self.left -= 1
            try:
                tag, place = varint(data, at)
                body, length = _body(data, tag & 7, place)
            except (IndexError, ValueError):
                break
            at = body + length
            inner = inside.get(tag >> 3, "") if length >= LARGE and tag & 7 == BYTES else ""
            if not inner or at > end or body - place > MAX_LENGTH_BYTES or depth == MAX_DEPTH:
                continue
            pieces += data[kept:place], b""
            slot = len(pieces) - 1
            if inner in VALUES:
                after = self._value(inner, body, at)
            else:
                after = self.message(inner, body, at, depth + 1)
            pieces[slot] = encoded(after)
            kept, size = at, size - (at - place) + len(pieces[slot]) + after
        pieces.append(data[kept:end])
        return size

    def _value(self, kind: str, at: int, end: int) -> int:
        """Take out a value, and return how many bytes its token has."""
        token = os.urandom(TOKEN_BYTES)
        self.found.append((token, kind, self.data[at:end]))
        self.pieces.append(token)
        return TOKEN_BYTES


def _body(data: memoryview, wire_type: int, at: int) -> tuple[int, int]:
    """Return where the value of a field begins, and how many bytes it has. Raises ValueError for groups."""
    if wire_type == BYTES:
        length, at = varint(data, at)
        return at, length
    if wire_type == VARINT:
        return at, varint(data, at)[1] - at
    if wire_type in (FIXED32, FIXED64):
        return at, 4 if wire_type == FIXED32 else 8
    raise ValueError


@cache
def _inside(kind: str) -> Mapping[int, str]:
    """Return the fields of a message that may be large values or have some inside: their types, by number."""
    table = field_table()
    return {number: k for _, number, k, _, _ in table.get(kind, ()) if k in VALUES or k in table}


def _aligned(walk: _Walk) -> Chunks:
    """Return the values that were found; packed floats that lie across addresses of floats are moved."""
    made = {token: value for token, _, value in walk.found}
    moved = {token: value for token, kind, value in walk.found if kind == "packed" and not _fits(value)}
    sizes = [-(-len(value) // FLOAT_BYTES) * FLOAT_BYTES for value in moved.values()]
    room = np.empty(sum(sizes), np.uint8)  # one array: to get memory in pieces takes longer
    for (token, value), place in zip(moved.items(), accumulate(sizes, initial=0), strict=False):
        made[token] = room[place : place + len(value)].data
        made[token][:] = value
    return made


def _fits(value: memoryview) -> bool:
    """Tell whether floats may lie where a value lies."""
    return np.frombuffer(value, np.float32, len(value) // FLOAT_BYTES).flags.aligned
