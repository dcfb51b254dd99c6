"""The table of file formats; read() looks at the bytes of a file and calls the reader that knows them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpunn.errors import FormatError, MissingFileError, ModelError, ModelFileError, UnsupportedError
from gpunn.files import MAX_FILE_BYTES
from gpunn.graph.graph import Graph
from gpunn.graph.parts import constant_bytes
from gpunn.importers import coreml, tflite
from gpunn.importers.common.format import Format
from gpunn.importers.common.rewriting import NewLayer
from gpunn.limits import UNLIMITED, Limits

FORMATS: tuple[Format, ...] = (tflite.FORMAT, coreml.FORMAT)  # the first that recognises a file reads it
SUFFIXES = tuple(suffix for format in FORMATS for suffix in (*format.suffixes, *format.folders))

Source = str | os.PathLike[str] | bytes | bytearray | memoryview


def read(source: Source, options: Mapping[str, object] | None = None, limits: Limits = UNLIMITED) -> Graph:
    """Read a graph from a path or from a file's bytes; see gpunn.model.load().

    `options` are keywords for the reader of the file's format; one that is None counts as not given. Raises
    FormatError for an option that the format does not have, ModelFileError where an op refuses what the file
    gives it, LimitError where the file is over the graph's `limits`, and what the reader raises.
    """
    data = bytes_of(source, limits)
    name = "model" if isinstance(source, (bytes, bytearray, memoryview)) else Path(source).name
    format = next((f for f in FORMATS if f.recognise(data)), None)
    if format is None:
        raise FormatError(f"{name}: {_why_unknown(data)}")
    given = {option: value for option, value in (options or {}).items() if value is not None}
    for option in given:
        if option not in format.options:
            raise FormatError(f"{name}: {format.name} files are read without the option {option!r}")
    try:
        graph = format.read(data, name, limits, **given)
    except FormatError:
        raise
    except ModelError as error:
        raise ModelFileError(str(error)) from error
    if limits.constant_bytes is not None:
        wanted = constant_bytes(graph)
        limits.check("constant_bytes", wanted, f"{name}: constants take {wanted} bytes")
    for made in (graph, graph.template):
        if made is not None:
            made.limits = limits
    return graph


def contents_of(graph: Graph) -> tuple[bytes, Mapping[str, Any]]:
    """Return the bytes of a graph's file, with the constants of the graph, and the options to read it with.

    Raises UnsupportedError if the graph is of no file, if it was changed otherwise than by training, and for
    constants that the file cannot have.
    """
    read = graph if graph.trained_from is None else graph.trained_from
    if read.template is None or read.template.contents is None:
        raise UnsupportedError(
            f"model {graph.name!r} is of no file, or was changed: there is no file format for models that "
            "calls or NNAPI have made"
        )
    data, options = read.template.contents()
    if graph.trained_from is not None:
        format = next(f for f in FORMATS if f.recognise(data))
        if format.with_constants is None:
            raise UnsupportedError(f"model {graph.name!r}: {format.name} files are not written")
        data = format.with_constants(data, graph.name, options, graph)
    return data, options


def check_suffix(data: bytes, path: str | os.PathLike[str]) -> None:
    """Raise FormatError if a path ends as files of another format than that of these bytes do."""
    format = next(f for f in FORMATS if f.recognise(data))
    suffix = Path(path).suffix.lower()
    if suffix in SUFFIXES and suffix not in format.suffixes:
        own = ", ".join(format.suffixes)
        raise FormatError(f"{os.fspath(path)}: this model is written as {format.name}, in files {own}")


def with_classes(
    graph: Graph, layer: NewLayer | None, labels: Sequence[str]
) -> tuple[bytes, Mapping[str, Any]]:
    """Return the file of a classifier for other classes, and the options to read it with.

    layer: the new last layer; None leaves it as it is. Raises UnsupportedError if the graph is of no file,
    and if the file cannot have other classes.
    """
    data, options = contents_of(graph)
    format = next(f for f in FORMATS if f.recognise(data))
    if format.with_classes is None:
        raise UnsupportedError(f"model {graph.name!r}: {format.name} files are not written")
    return format.with_classes(data, graph.name, options, graph, layer, labels), options


def bytes_of(source: Source, limits: Limits = UNLIMITED) -> bytes:
    """Return the bytes of a model file: of a path, of the file in a folder that is a model, or as given.

    A file is not mapped: a mapped file that another process shortens kills this one. Raises FormatError for
    what cannot be read, LimitError for more bytes than are allowed.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        size = memoryview(source).nbytes
        limits.check("file_bytes", size, f"model: the file has {size} bytes")
        return bytes(source)
    if not os.fspath(source):
        raise FormatError("the path of the model is empty")
    path = Path(source)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            path = _file_in(path)
            status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FormatError(f"{path}: is not a file")
        limits.check("file_bytes", status.st_size, f"{path}: the file has {status.st_size} bytes")
        if status.st_size > MAX_FILE_BYTES:
            raise FormatError(f"{path}: has {status.st_size} bytes, a model at most {MAX_FILE_BYTES}")
        return path.read_bytes()
    except FileNotFoundError:
        raise MissingFileError(path) from None
    except OSError as error:
        raise FormatError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{str(path)!r}: {error}") from None


def _file_in(folder: Path) -> Path:
    """Return the file to read in a folder that is a model; any other folder itself."""
    found = (format.file_in(folder) for format in FORMATS if format.file_in is not None)
    return next((file for file in found if file is not None), folder)


def _why_unknown(data: bytes) -> str:
    """Give one reason why no reader knows these bytes."""
    if not data:
        return "is empty"
    if len(data) < min(format.min_bytes for format in FORMATS):
        return f"has only {len(data)} bytes, which is no model"
    marks = [f"{' and '.join(f.suffixes)} files have {f.mark}" for f in FORMATS]
    try:
        data[:1024].decode("ascii")
    except UnicodeDecodeError:
        found = [f"{mark}, this one has {f.found(data)}" for mark, f in zip(marks, FORMATS, strict=True)]
        return f"not a model: {'; '.join(found)}"
    return f"not a model: {'; '.join(marks)}, this looks like text"
