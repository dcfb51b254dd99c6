"""Format: a file format, as the table of formats knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from gpunn.graph.graph import Graph
from gpunn.importers.common.rewriting import NewLayer


def later(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a module that is imported when the function is first called.

    Readers, rules and schemas take longer to import than reading most models.
    """
    return lambda *arguments: getattr(import_module(module), name)(*arguments)


@dataclass(frozen=True, slots=True)
class Format:
    """A file format and how to read it.

    name: the name for people.
    suffixes: the usual ends of its files' names; only the content decides on the format.
    recognise: whether bytes are such a file. It gets all bytes of any file.
    read: the Graph of a file, from its bytes, its name for messages, its limits, and options as keywords. It
        raises FormatError, ModelError, LimitError, and UnsupportedError with everything that is unsupported
        at once.
    min_bytes: no file is shorter.
    mark: how its files are recognised, in words, for the message about a file of no known format.
    found: what another file has in that place.
    options: the keywords of `read` that a caller may give.
    folders: the usual ends of the names of folders that hold such a file.
    file_in: the file to read in a folder of the format, None for any other folder. It raises FormatError for
        a folder that contradicts itself.
    with_constants: the bytes of a file whose weights are the constants of a graph of it, from the old bytes,
        the file's name, the options and limits that it was read with, and the graph. It raises
        UnsupportedError for constants that the file cannot have. None: files are not written.
    with_classes: the bytes of a classifier's file for other classes, from the same arguments, a new last
        layer, None for the old one, and labels. It raises UnsupportedError if the file cannot have them.
    """

    name: str
    suffixes: tuple[str, ...]
    recognise: Callable[[bytes], bool]
    read: Callable[..., Graph]
    min_bytes: int
    mark: str
    found: Callable[[bytes], str]
    options: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    file_in: Callable[[Path], Path | None] | None = None
    with_constants: Callable[[bytes, str, Mapping[str, Any], Graph], bytes] | None = None
    with_classes: (
        Callable[[bytes, str, Mapping[str, Any], Graph, NewLayer | None, Sequence[str]], bytes] | None
    ) = None
