"""LendingCache: values made on demand and kept by key, as long as they are among the last used."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpunn.backends import fork
from gpunn.errors import DeviceError

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class _Entry(Generic[V]):
    """A value in the cache, or a value that has left it but is still in use."""

    value: V
    users: int = 0
    kept: bool = True


class LendingCache(Generic[K, V]):
    """A cache of up to `size` values; the value that was not used for longest goes first. Thread-safe.

    `discard` is called once for each value that goes, when its last user has returned it.
    """

    def __init__(self, size: int, discard: Callable[[V], None]) -> None:
        self._size = size
        self._discard = discard
        self._lock = fork.in_child(threading.RLock(), fork.free)
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._closed = False

    @contextmanager
    def lend(self, key: K, make: Callable[[], V]) -> Iterator[V]:
        """Lend the value under `key`, making it now if necessary; it is not discarded while it is lent.

        Raises DeviceError once the cache is closed, and the errors of `make`.
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
        """Return all values, the last used last."""
        with self._lock:
            return tuple(entry.value for entry in self._entries.values())

    def close(self) -> None:
        """Discard all values, and keep none from now on."""
        with self._lock:
            self._closed = True
            while self._entries:
                self._remove(next(iter(self._entries)))

    def _remove(self, key: K) -> None:
        entry = self._entries.pop(key)
        entry.kept = False
        if not entry.users:
            self._discard(entry.value)
