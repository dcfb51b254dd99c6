"""LendingCache: values made on demand and kept by key, as long as they are among the last used."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from gpunn.backends import fork
from gpunn.backends.interrupt import holding
from gpunn.backends.worker import to_the_end, undisturbed
from gpunn.errors import DeviceError

K = TypeVar("K")
V = TypeVar("V")


class Loan(Generic[V]):
    """A context in which a value of a cache is in use. One that nothing refers to any more has ended, too."""

    __slots__ = ("__weakref__", "_cache", "ended", "value")

    def __init__(self, value: V, cache: LendingCache[Any, V]) -> None:
        self.value = value
        self.ended = False
        self._cache = cache

    def __enter__(self) -> V:
        return self.value

    def __exit__(self, *_: object) -> None:
        self.ended = True
        if self._cache.holds_returned:
            self._cache.discard_returned()


@dataclass(slots=True)
class _Entry(Generic[V]):
    """A value in the cache, or a value that has left it but is still in use."""

    value: V
    loans: list[weakref.ref[Loan[V]]] = field(default_factory=list)

    @property
    def lent(self) -> bool:
        return any((loan := found()) is not None and not loan.ended for found in self.loans)


class LendingCache(Generic[K, V]):
    """A cache of up to `size` values; the value that was not used for longest goes first. Thread-safe.

    `discard` is called for each value that goes, when its last user has returned it. Ctrl-C finds a value
    made or not made, discarded or not discarded.
    """

    def __init__(self, size: int, discard: Callable[[V], None]) -> None:
        self._size = size
        self._discard = discard
        self._lock = fork.lock()
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._leaving: dict[int, _Entry[V]] = {}  # no longer kept, but not yet discarded
        self._closed = False

    def lend(self, key: K, make: Callable[[], V]) -> Loan[V]:
        """Lend the value under `key`, making it now if necessary; it is not discarded while it is lent.

        Raises DeviceError once the cache is closed, and the errors of `make`.
        """
        with holding(self._lock):
            if self._closed:
                raise DeviceError("this compilation has been closed")
            entry = self._entries.get(key)
            if entry is None:
                undisturbed(partial(self._add, key, make))
                entry = self._entries[key]
            self._entries.move_to_end(key)
            loan = Loan(entry.value, self)
            entry.loans = [*[found for found in entry.loans if found() is not None], weakref.ref(loan)]
            if len(self._entries) > self._size:
                self._remove(next(iter(self._entries)))
                self._discard_returned()
            return loan

    def values(self) -> tuple[V, ...]:
        """Return all values, the last used last."""
        with self._lock:
            return tuple(entry.value for entry in self._entries.values())

    def close(self) -> None:
        """Discard all values, and keep none from now on."""
        with holding(self._lock):
            self._closed = True
            while self._entries:
                self._remove(next(iter(self._entries)))
            self._discard_returned()

    @property
    def holds_returned(self) -> bool:
        """Tell whether there may be values to discard."""
        return bool(self._leaving)

    def discard_returned(self) -> None:
        """Discard values that have left the cache and are not in use any more."""
        with holding(self._lock):
            self._discard_returned()

    def _add(self, key: K, make: Callable[[], V]) -> None:
        self._entries[key] = _Entry(make())

    def _remove(self, key: K) -> None:
        entry = self._entries.pop(key)  # if it is lost on the way, nothing refers to its value any more
        self._leaving[id(entry)] = entry

    def _discard_returned(self) -> None:
        for number, entry in tuple(self._leaving.items()):
            if not entry.lent:
                to_the_end(partial(self._end, number, entry))

    def _end(self, number: int, entry: _Entry[V]) -> None:
        try:
            self._discard(entry.value)
        finally:
            self._leaving.pop(number, None)
