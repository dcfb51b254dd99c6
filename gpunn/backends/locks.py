"""Locks that KeyboardInterrupt does not leave taken, whichever Python runs.

Python delivers signals when a call returns. Up to Python 3.13 the call of `__enter__` in `with lock:` is an
exception: no signal comes between it and the block. From 3.14 on one may come there, and `__exit__` is not
called. But the `with` statement has looked it up by then, and the interpreter drops what it found.
"""

from __future__ import annotations

import _thread
import sys
import threading
import weakref
from functools import partial
from typing import Any


def make_lock() -> threading.RLock:
    """Make a lock that knows its owner and that a `with` statement always gives back."""
    return DroppableLock() if sys.version_info >= (3, 14) else threading.RLock()


class DroppableLock(_thread.RLock):  # type: ignore[misc]  # final for the type checker, not for Python
    """A lock that is given back when the way out of a `with` statement is dropped without being taken."""

    @property
    def __exit__(self) -> Any:
        """Make the way out of one `with` statement, which asks for it before it takes the lock."""
        return _WayOut(self)


class _WayOut:
    """The `__exit__` of a lock in one `with` statement.

    A weak reference notices that the interpreter dropped it. A `__del__` would run after each block, and a
    signal that came meanwhile would be lost.
    """

    __slots__ = ("__weakref__", "_dropped", "_lock")

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        before = lock._recursion_count()  # of this thread
        self._dropped: object = weakref.ref(self, partial(_give_back, lock, before))

    def __call__(self, *_: object) -> None:
        self._lock.release()
        self._dropped = None


def _give_back(lock: Any, before: int, way_out: object) -> None:
    """Give back what a `with` statement took before it was interrupted."""
    if lock._recursion_count() > before:
        lock.release()
