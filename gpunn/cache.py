"""Files of measurements in the user's cache folder: what was measured on an adapter under some conditions.

If a file is damaged, or was measured under other conditions, it counts as absent. If no file can be written,
nothing is kept. Neither is an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpunn.files import open_regular, replace_file
from gpunn.version import __version__

MAX_FILES = 16  # of one kind: those of other adapters, and of drivers and versions that were there before
# What reading a damaged document can raise, also while its content is taken apart.
DAMAGE = (OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError)


def _wgpu() -> str:
    """Return the version of wgpu-py, which brings wgpu-native; "" without it."""
    from importlib import metadata  # as platformdirs below, which a first answer does without

    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("wgpu")
    return ""


@dataclass(frozen=True, slots=True)
class Key:
    """The conditions of a measurement: an adapter with its driver, software, and the CPU beside it."""

    adapter: str
    driver: str
    api: str
    version: str = __version__
    wgpu: str = field(default_factory=_wgpu)
    machine: str = field(default_factory=platform.machine)
    processors: int | None = field(default_factory=os.cpu_count)


def cache_folder() -> Path:
    """Return the folder of the files: the user's cache folder for gpunn."""
    import platformdirs

    return platformdirs.user_cache_path("gpunn", appauthor=False)


@dataclass(frozen=True, slots=True)
class CacheFile:
    """The file for one kind of measurements under some conditions; it has at most `most` bytes."""

    folder: Path
    kind: str
    key: Key
    most: int

    @property
    def path(self) -> Path:
        """Return the file's place."""
        digest = hashlib.blake2b(json.dumps(asdict(self.key)).encode(), digest_size=10).hexdigest()
        return self.folder / f"{self.kind}-{digest}.json"

    def read(self) -> dict[str, Any] | None:
        """Return the document without its key; None if there is no valid one for this key."""
        try:
            with open_regular(self.path) as stream:
                document = json.loads(stream.read(self.most))
            return document if document.pop("key") == asdict(self.key) else None
        except DAMAGE:
            return None

    def write(self, document: Mapping[str, Any]) -> bool:
        """Put the file in its place whole, or not at all; return whether it is there.

        Of its kind, remove the files that were written longest ago.
        """
        text = json.dumps({"key": asdict(self.key), **document})
        if len(text) > self.most:
            return False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if self.path.exists() and not self.path.is_file():  # a pipe would wait for a reader
                return False
            replace_file(self.path, text.encode())
        except OSError:
            return False
        with contextlib.suppress(OSError):
            written = sorted(self.folder.glob(f"{self.kind}-*.json"), key=lambda file: file.stat().st_mtime)
            for old in written[:-MAX_FILES]:
                old.unlink()
        return True
