"""Runs and waits that end early: by Ctrl-C, by a deadline, or because another thread says so.

Python delivers KeyboardInterrupt to the main thread when a call returns, when a function begins and when a
loop jumps back: nearly everywhere. `with lock:` is safe, because the ways in and out are methods in C; from
Python 3.14 on with locks of make_lock() only.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar, copy_context
from functools import partial
from numbers import Real
from typing import Any, TypeVar

from gpunn.backends import fork
from gpunn.errors import DeviceError, GpunnError, ModelError, RunCancelledError, RunTimeoutError

PATIENCE = 0.1  # seconds: on Windows a thread that waits learns of KeyboardInterrupt only afterwards

_T = TypeVar("_T")


def expect_seconds(timeout: Any) -> None:
    """Raise ModelError unless `timeout` is None or a number of seconds."""
    try:
        usable = timeout is None or (isinstance(timeout, Real) and not math.isnan(timeout))
    except OverflowError:  # an integer beyond float64
        usable = False
    if not usable:
        raise ModelError(f"timeout must be a number of seconds or None, got {timeout!r}")


class Stop:
    """The reasons to end a run, or a wait for a run: cancel(), a deadline, and those of other stops.

    One of the others is the stop that is in force where this one is made.
    """

    def __init__(
        self,
        timeout: float | None = None,
        *others: Stop,
        late: Callable[[], GpunnError] | None = None,
    ) -> None:
        """End after `timeout` seconds, by the error that `late` makes; None: RunTimeoutError.

        Raises ModelError if `timeout` is no number.
        """
        expect_seconds(timeout)
        self._late = late or partial(RunTimeoutError, f"the run has not ended after {timeout or 0:g} s")
        self._deadline = None if timeout is None else time.monotonic() + timeout
        outer = _stop.get()
        self._others = others if outer is None else (outer, *others)
        self._reason = ""

    def cancel(self, reason: str) -> None:
        """End the work at its next step."""
        self._reason = self._reason or reason

    def check(self) -> None:
        """Raise RunCancelledError, RunTimeoutError or another error if there is a reason to end."""
        if self._reason:
            raise RunCancelledError(self._reason)
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise self._late()
        for other in self._others:
            other.check()

    def carry(self, work: Callable[[], _T]) -> _T:
        """Run a function in which check() asks this stop; return its result."""
        context = copy_context()  # which leaves this one as it is, whatever interrupts it
        context.run(under, self)
        return context.run(work)

    @property
    def timed(self) -> bool:
        """Tell whether there is a deadline."""
        return self._deadline is not None or any(other.timed for other in self._others)

    @property
    def patience(self) -> float:
        """Return the seconds to wait until check() is due: up to the deadline, and at most PATIENCE."""
        own = PATIENCE if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        return min(PATIENCE, own, *(other.patience for other in self._others))


_stop: ContextVar[Stop | None] = ContextVar("_stop", default=None)


def under(stop: Stop) -> None:
    """Put a stop in force in this context."""
    _stop.set(stop)


def directly(work: Callable[[], _T]) -> _T:
    """Run a function that always ends; return its result."""
    return work()


def current() -> Stop | None:
    """Return what may end the work of this thread."""
    return _stop.get()


def check() -> None:
    """Raise as Stop.check() in work that shall end, whichever thread does it."""
    if ENDED:
        raise RunCancelledError(ENDED[0])
    stop = _stop.get()
    if stop is not None:
        stop.check()


ENDED: list[str] = []  # why all work ends


def end_all(reason: str) -> None:
    """End all work at its next step."""
    ENDED.append(reason)


_REENTERED = "called by a signal's handler, or by an operation, while this thread is in another call of gpunn"


def _owned(lock: Any) -> bool:
    """Tell whether this thread holds a lock."""
    owned: bool = lock._is_owned()
    return owned


_driver_locks: weakref.WeakSet[threading.RLock] = weakref.WeakSet()


def driver_lock() -> threading.RLock:
    """Make a lock of those who call a driver; it knows its owner and is free in a child process."""
    made = fork.lock()
    _driver_locks.add(made)
    return made


def check_not_reentered(*locks: threading.RLock) -> None:
    """Raise DeviceError if this thread holds one of the locks, or one of a driver.

    For work that is given to another thread, which would wait for the lock for ever.
    """
    if any(map(_owned, (*locks, *_driver_locks))):
        raise DeviceError(_REENTERED)


def holding(lock: threading.RLock, stop: Stop | None = None) -> AbstractContextManager[object]:
    """Return a context that holds a lock.

    Raises DeviceError if this thread holds the lock already: then it is in the handler of a signal. Entering
    raises as check(), or as `stop`, if the work shall end while it waits for the lock.
    """
    if _owned(lock):
        raise DeviceError(_REENTERED)
    stop = stop or _stop.get()
    return lock if stop is None else _Held(lock, stop)


class _Held:
    """A context that holds a lock; its way out is the lock's own."""

    __slots__ = ("__enter__", "__exit__")

    def __init__(self, lock: threading.RLock, stop: Stop) -> None:
        self.__enter__ = partial(_acquire, lock, stop)
        self.__exit__ = lock.__exit__


def _acquire(lock: threading.RLock, stop: Stop) -> None:
    try:
        while not lock.acquire(timeout=stop.patience):
            stop.check()
    except BaseException:  # KeyboardInterrupt, too, once it has the lock
        if _owned(lock):
            lock.release()
        raise
