"""Records that are kept: in this process, and in a file of the user's cache folder (gpunn.cache)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpunn import cache
from gpunn.cache import DAMAGE, CacheFile, Key
from gpunn.tuning.result import Record

MAX_BYTES = 1 << 21  # of a file
MAX_RECORDS = 4096  # in a file: the last ones that were measured; each has some hundred bytes
MAX_REASON = 200  # characters of why a candidate was dropped
_REST = 1 << 12  # bytes of a file beside its records

Known = dict[tuple[Key, Path], dict[str, Record]]  # the records by adapter and folder, and then by call

_known: Known = {}


def known() -> Known:
    """Return what this process has measured or read, for another process to learn()."""
    return {place: dict(records) for place, records in tuple(_known.items()) if records}


def learn(others: Known) -> None:
    """Take what another process knows, where this one knows nothing of a call."""
    for place, records in others.items():
        here = _known.setdefault(place, {})
        here.update({call: record for call, record in records.items() if call not in here})


class Records:
    """The records for an adapter by the keys of calls; threads take turns (see Tuner)."""

    def __init__(self, key: Key, folder: Path | None = None) -> None:
        """Take those of `folder`, or of cache_folder()."""
        folder = folder or cache.cache_folder()
        self._file = CacheFile(folder, "tuning", key, MAX_BYTES)
        self._here = _known.setdefault((key, folder), {})
        self._read = False

    def get(self, key: str, count: int) -> Record | None:
        """Return the record of a call with that many candidates; None if there is none.

        The file is read for the first one that this process does not know.
        """
        if key not in self._here and not self._read:
            self._read = True
            for name, record in self._stored().items():
                self._here.setdefault(name, record)
        found = self._here.get(key)
        return found if found is not None and len(found.seconds) == count else None

    def remember(self, key: str, record: Record) -> None:
        """Keep a record in this process."""
        self._here[key] = record

    def store(self, records: Mapping[str, Record]) -> bool:
        """Write records into the file, beside those that other processes have stored there.

        Return whether the file has been written. If there are too many for it, the oldest are left out.
        """
        together = {k: v for k, v in self._stored().items() if k not in records}
        together.update(records)
        last = [(key, _entry(record)) for key, record in together.items()][-MAX_RECORDS:]
        while len(last) > 1 and len(json.dumps(last)) > MAX_BYTES - _REST:
            del last[: len(last) // 2]
        return self._file.write({"records": dict(last)})

    def _stored(self) -> dict[str, Record]:
        document = self._file.read()
        try:
            entries = {} if document is None else document["records"]
            return {str(key): _record(entry) for key, entry in entries.items()}
        except DAMAGE:
            return {}


def _entry(record: Record) -> list[Any]:
    return [record.chosen, record.seconds, [reason[:MAX_REASON] for reason in record.dropped]]


def _record(entry: Any) -> Record:
    """Convert an entry of a file; raise ValueError or TypeError for an invalid one."""
    chosen, seconds, dropped = entry
    if type(chosen) is not int or not 0 <= chosen < len(seconds) or len(seconds) != len(dropped):
        raise ValueError(f"{chosen!r} is no candidate")
    for number in seconds:
        if number is not None and not (isinstance(number, float) and 0 <= number < math.inf):
            raise ValueError(f"{number!r} is no time")
    if seconds[chosen] is None or dropped[chosen]:
        raise ValueError("a candidate was chosen that cannot be")
    return Record(chosen, tuple(seconds), tuple(map(str, dropped)))
