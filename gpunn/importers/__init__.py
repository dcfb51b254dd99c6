"""The door for files: looks at the bytes, calls the reader that knows them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from gpunn.custom import CustomOperator
from gpunn.errors import FormatError
from gpunn.graph.graph import Graph
from gpunn.importers import tflite

MAX_FILE_BYTES = 2**31 - 1  # a flatbuffer's offsets and a protobuf's lengths end there

Source = str | os.PathLike[str] | bytes | bytearray | memoryview


def read(source: Source, *, custom: Mapping[str, CustomOperator] | None = None) -> Graph:
    """Read a graph from a path or from a file's bytes; see gpunn.model.load()."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        name, data = "model", bytes(source)
    else:
        path = Path(source)
        name, data = path.name, _bytes_of(path)
    if tflite.recognise(data):
        return tflite.read(data, name, custom)
    raise FormatError(f"{name}: {_why_unknown(data)}")


def _bytes_of(path: Path) -> bytes:
    """The whole file. Not mapped: a mapped file that another process shortens would kill this one."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FormatError(f"{path}: is not a file")
        if status.st_size > MAX_FILE_BYTES:
            raise FormatError(f"{path}: has {status.st_size} bytes, a model at most {MAX_FILE_BYTES}")
        return path.read_bytes()
    except OSError as error:
        raise FormatError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{str(path)!r}: {error}") from None


def _why_unknown(data: bytes) -> str:
    """One reason why no reader knows these bytes."""
    if not data:
        return "is empty"
    if len(data) < tflite.MIN_BYTES:
        return f"has only {len(data)} bytes, which is no model"
    known = "not a model: .tflite files have 'TFL3' at byte 4"
    try:
        data[:1024].decode("ascii")
    except UnicodeDecodeError:
        return f"{known}, this one has {data[4:8]!r}"
    return f"{known}, this looks like text"
