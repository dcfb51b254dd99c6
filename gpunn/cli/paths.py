"""Paths on the command line: patterns such as *.jpg, and - for standard input."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from glob import glob, has_magic
from pathlib import Path

import typer

from gpunn.errors import FormatError
from gpunn.files import MAX_FILE_BYTES

STDIN = Path("-")
_FOLDER = "gpunn-stdin-"  # what the names of temporary folders begin with
_COPY = re.compile(rf"[^'\" ]*{_FOLDER}[^/\\]*[/\\]stdin(\.np[yz])?")
_SUFFIXES = {b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz"}  # by how files begin; others need none
_PART = 1 << 20  # bytes that are copied at a time

_copies: list[tempfile.TemporaryDirectory[str]] = []  # the folder of standard input's copy, if it was read


def one_file(context: typer.Context, path: Path | None) -> Path | None:
    """Return the path of a file. For - standard input is copied to a file; see remove_copies()."""
    return _copied() if path == STDIN and not context.resilient_parsing else path


def files(context: typer.Context, paths: list[Path] | None) -> list[Path]:
    """Return the paths of files: patterns are expanded, and - is standard input as in one_file()."""
    if context.resilient_parsing:  # while a shell completes a line
        return paths or []
    return [_copied() if path == STDIN else path for path in expanded(paths or ())]


def remove_copies() -> None:
    """Remove the copy of standard input; every command ends with that."""
    while _copies:
        _copies.pop().cleanup()


def shown(path: Path) -> str:
    """Return how a path was given: - for the copy of standard input."""
    return str(STDIN) if _COPY.fullmatch(str(path)) else str(path)


def said(message: str) -> str:
    """Return a message in which the copy of standard input is called so."""
    return _COPY.sub("standard input", message)


def expanded(paths: Sequence[Path]) -> list[Path]:
    """Replace each pattern such as *.jpg by the files that it matches, sorted, as most shells do.

    ** matches any folders. A path that exists, and a pattern that matches nothing, stay as they are.
    """
    found: list[Path] = []
    for path in paths:
        matches = [] if path.exists() or not has_magic(str(path)) else sorted(glob(str(path), recursive=True))
        found += map(Path, matches or [str(path)])
    return found


def _copied() -> Path:
    """Copy standard input to a file, whose name tells arrays from other files."""
    if _copies:
        raise typer.BadParameter("standard input can be read once")
    if sys.stdin is None:
        raise FormatError("standard input is closed")
    source = sys.stdin.buffer
    start = source.read(_PART)
    if not start:
        raise FormatError("standard input is empty")
    suffix = next((suffix for mark, suffix in _SUFFIXES.items() if start.startswith(mark)), "")
    folder = tempfile.TemporaryDirectory(prefix=_FOLDER)
    _copies.append(folder)
    path = Path(folder.name, f"stdin{suffix}")
    with path.open("wb") as copy:
        part, size = start, 0
        while part:
            size += copy.write(part)
            if size > MAX_FILE_BYTES:
                raise FormatError(f"standard input has more than {MAX_FILE_BYTES} bytes")
            part = source.read(_PART)
    return path
