"""A cache of measurements: in this process, and in a file of the user's cache folder.

If a file is damaged, or was measured under other conditions, the device is measured again. If no file can be
written, every process measures. Neither is an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from gpunn.files import open_regular
from gpunn.performance.info import Capabilities, PerformanceInfo
from gpunn.version import __version__

MAX_BYTES = 1 << 16  # of a file: ours have a few hundred

_lock = threading.Lock()
_known: dict[tuple[Key, Path], Capabilities] = {}


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a measurement: an adapter with its driver, and the CPU that it is compared with."""

    adapter: str
    driver: str
    api: str
    version: str = __version__
    machine: str = field(default_factory=platform.machine)
    processors: int | None = field(default_factory=os.cpu_count)


def cache_folder() -> Path:
    """Return the folder of the files: the user's cache folder for gpunn."""
    return platformdirs.user_cache_path("gpunn", appauthor=False)


def remembered(key: Key, measure: Callable[[], Capabilities], folder: Path | None = None) -> Capabilities:
    """Return the stored measurement of the key, or measure it now. folder: instead of cache_folder().

    Raises the errors of `measure`; then nothing is stored.
    """
    folder = folder or cache_folder()
    with _lock:
        if (key, folder) not in _known:
            file = folder / _name(key)
            found = _read(file, key)
            if found is None:
                found = measure()
                _write(file, key, found)
            _known[key, folder] = found
        return _known[key, folder]


def _name(key: Key) -> str:
    digest = hashlib.blake2b(json.dumps(asdict(key)).encode(), digest_size=10).hexdigest()
    return f"performance-{digest}.json"


def _read(file: Path, key: Key) -> Capabilities | None:
    """Read the measurement of the key from a file; None if the file has no valid one."""
    try:
        with open_regular(file) as stream:
            document = json.loads(stream.read(MAX_BYTES))
        if document["key"] != asdict(key):
            return None
        return Capabilities(_info(document["float32"]), _info(document["quantized8"]))
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return None


def _info(entry: Any) -> PerformanceInfo:
    """Convert an entry to PerformanceInfo; raise ValueError, TypeError or LookupError for an invalid one."""
    time, power, reason = entry["exec_time"], entry["power_usage"], entry["power_reason"]
    for number in (time,) if power is None else (time, power):
        if not (isinstance(number, float) and 0 < number < math.inf):
            raise ValueError(f"{number!r} is no ratio")
    return PerformanceInfo(time, power, str(reason))


def _write(file: Path, key: Key, found: Capabilities) -> None:
    """Put a file in its place whole, or not at all."""
    document = {
        "key": asdict(key),
        "float32": asdict(found.float32_performance),
        "quantized8": asdict(found.quantized8_performance),
    }
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent)
        try:
            with open(handle, "w", encoding="utf-8") as stream:
                json.dump(document, stream)
            os.replace(name, file)
        except OSError:
            os.unlink(name)
