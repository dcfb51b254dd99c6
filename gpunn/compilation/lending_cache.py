"""Shelf: what is made on demand and kept by key, as long as it is among the last used."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpunn.errors import DeviceError

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class _Entry(Generic[V]):
    """Something on the shelf, or taken off it and still in use."""

    value: V
    users: int = 0
    kept: bool = True


class Shelf(Generic[K, V]):
    """Up to `size` things; the one that was not used for longest goes. Safe for several threads.

    `discard` is called once for each that goes, when its last user has given it back.
    """

    def __init__(self, size: int, discard: Callable[[V], None]) -> None:
        self._size = size
        self._discard = discard
        self._lock = threading.RLock()
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._closed = False

    @contextmanager
    def lend(self, key: K, make: Callable[[], V]) -> Iterator[V]:
        """What is kept under `key`, made now if need be; it is not discarded while it is lent.

        Raises DeviceError once the shelf is closed, and what `make` raises.
        """
        with self._lock:
            if self._closed:
                raise DeviceError("this compilation has been closed")
            if key not in self._entries:
                self._entries[key] = _Entry(make())
            self._entries.move_to_end(key)
            entry = self._entries[key]
            entry.users += 1
            if len(self._entries) > self._size:
                self._remove(next(iter(self._entries)))
        try:
            yield entry.value
        finally:
            with self._lock:
                entry.users -= 1
                if not entry.users and not entry.kept:
                    self._discard(entry.value)

    def values(self) -> tuple[V, ...]:
        """All that is kept, the last used last."""
        with self._lock:
            return tuple(entry.value for entry in self._entries.values())

    def close(self) -> None:
        """Keep nothing any more."""
        with self._lock:
            self._closed = True
            while self._entries:
                self._remove(next(iter(self._entries)))

    def _remove(self, key: K) -> None:
        entry = self._entries.pop(key)
        entry.kept = False
        if not entry.users:
            self._discard(entry.value)
