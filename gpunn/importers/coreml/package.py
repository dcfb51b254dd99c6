"""Packages: .mlpackage folders, whose manifest names the .mlmodel file in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpunn.errors import FormatError, UnsupportedError
from gpunn.importers.common.names import shown

SUFFIX, MANIFEST, DATA = ".mlpackage", "Manifest.json", "Data"
COMPILED, COMPILED_FILE = ".mlmodelc", "coremldata.bin"
MAX_MANIFEST = 1 << 20  # bytes; a manifest has a few lines


def model_in(folder: Path) -> Path | None:
    """Return the .mlmodel file of a package, None for a folder that is none.

    Raises FormatError for a package that contradicts itself, UnsupportedError for a compiled model.
    """
    if folder.suffix.lower() == COMPILED or (folder / COMPILED_FILE).is_file():
        raise UnsupportedError(
            f"{folder.name}: is a compiled model ({COMPILED}), which only Apple's systems read; "
            f"give the .mlmodel file or the {SUFFIX} folder that it was compiled from"
        )
    manifest = folder / MANIFEST
    if not manifest.is_file():
        if folder.suffix.lower() == SUFFIX:
            raise FormatError(f"{folder.name}: has no {MANIFEST}, which says where the model is")
        return None
    entry = _root(folder.name, _read(folder.name, manifest))
    data = folder / DATA
    file = (data / entry).resolve()
    if not file.is_relative_to(data.resolve()):
        raise FormatError(f"{folder.name}: {MANIFEST} names {shown(entry)}, which is not in the package")
    if not file.is_file():
        raise FormatError(f"{folder.name}: {MANIFEST} names {shown(f'{DATA}/{entry}')}, which is no file")
    return file


def _read(name: str, manifest: Path) -> Any:
    """Return the content of a manifest."""
    with manifest.open("rb") as stream:
        text = stream.read(MAX_MANIFEST + 1)
    if len(text) > MAX_MANIFEST:
        raise FormatError(f"{name}: {MANIFEST} has more than {MAX_MANIFEST} bytes")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name}: {MANIFEST} is no JSON: {error}") from None


def _root(name: str, manifest: Any) -> str:
    """Return the path of the root model, as a manifest states it."""
    found = manifest
    try:
        root = manifest["rootModelIdentifier"]
        found = manifest["itemInfoEntries"][root]["path"]
    except (KeyError, IndexError, TypeError):
        found = None
    if not isinstance(found, str) or not found or "\0" in found:
        raise FormatError(f"{name}: {MANIFEST} names no root model: it has no path in itemInfoEntries")
    return found
