"""A cache of measurements: in this process, and in a file of the user's cache folder (gpunn.cache)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpunn import cache
from gpunn.backends.interrupt import holding
from gpunn.backends.locks import make_lock
from gpunn.cache import DAMAGE, CacheFile, Key
from gpunn.performance.info import Capabilities, PerformanceInfo

MAX_BYTES = 1 << 16  # of a file: ours have a few hundred

_lock = make_lock()
_known: dict[tuple[Key, Path], Capabilities] = {}


def remembered(key: Key, measure: Callable[[], Capabilities], folder: Path | None = None) -> Capabilities:
    """Return the stored measurement of the key, or measure it now. folder: instead of cache_folder().

    Raises the errors of `measure`; then nothing is stored.
    """
    folder = folder or cache.cache_folder()
    with holding(_lock):
        if (key, folder) not in _known:
            file = CacheFile(folder, "performance", key, MAX_BYTES)
            found = _read(file)
            if found is None:
                found = measure()
                file.write(
                    {
                        "float32": asdict(found.float32_performance),
                        "quantized8": asdict(found.quantized8_performance),
                    }
                )
            _known[key, folder] = found
        return _known[key, folder]


def _read(file: CacheFile) -> Capabilities | None:
    """Read a measurement from its file; None if the file has no valid one."""
    document = file.read()
    if document is None:
        return None
    try:
        return Capabilities(_info(document["float32"]), _info(document["quantized8"]))
    except DAMAGE:
        return None


def _info(entry: Any) -> PerformanceInfo:
    """Convert an entry to PerformanceInfo; raise ValueError, TypeError or LookupError for an invalid one."""
    time, power, reason = entry["exec_time"], entry["power_usage"], entry["power_reason"]
    for number in (time,) if power is None else (time, power):
        if not (isinstance(number, float) and 0 < number < math.inf):
            raise ValueError(f"{number!r} is no ratio")
    return PerformanceInfo(time, power, str(reason))
