"""Runs and waits that end early: by Ctrl-C, by a deadline, or because another thread says so.

Python delivers KeyboardInterrupt to the main thread at any point, even in the middle of a step. So a run that
may never end is on a thread of its own, and KeyboardInterrupt stops it between two steps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from typing import TypeVar

from gpunn.errors import RunCancelledError, RunTimeoutError

PATIENCE = 0.1  # seconds: on Windows a thread that waits learns of KeyboardInterrupt only afterwards

_T = TypeVar("_T")


class Stop:
    """The reasons to end a run, or a wait for a run: cancel(), a deadline, and those of other stops.

    One of the others is the stop that is in force where this one is made.
    """

    def __init__(self, timeout: float | None = None, *others: Stop) -> None:
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        outer = _stop.get()
        self._others = others if outer is None else (outer, *others)
        self._reason = ""

    def cancel(self, reason: str) -> None:
        """End the work at its next step."""
        self._reason = self._reason or reason

    def check(self) -> None:
        """Raise RunCancelledError or RunTimeoutError if there is a reason to end."""
        if self._reason:
            raise RunCancelledError(self._reason)
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise RunTimeoutError(f"the run has not ended after {self._timeout:g} s")
        for other in self._others:
            other.check()

    def carry(self, work: Callable[[], _T]) -> _T:
        """Run a function in which check() asks this stop; return its result."""
        before = _stop.set(self)
        try:
            return work()
        finally:
            _stop.reset(before)

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


def directly(work: Callable[[], _T]) -> _T:
    """Run a function that always ends; return its result."""
    return work()


class Interruptible:
    """One run, in any number of pieces; KeyboardInterrupt in one piece ends all of it, as `stop` does."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop

    def __call__(self, work: Callable[[], _T]) -> _T:
        """Run a function that calls check() often; return its result, or raise KeyboardInterrupt once it
        stopped.
        """
        if threading.current_thread() is not threading.main_thread():
            return self._stop.carry(work)
        context = copy_context()
        context.run(_stop.set, self._stop)
        results: list[_T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                results.append(work())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=context.run, args=(run,), name="gpunn-run", daemon=True)
        try:
            thread.start()
            _join(thread)
        except BaseException:
            self._stop.cancel("the run was interrupted")
            _join(thread)
            raise
        if errors:
            raise errors[0]
        return results[0]


def _join(thread: threading.Thread) -> None:
    while thread.is_alive():
        thread.join(PATIENCE)


def current() -> Stop | None:
    """Return what may end the work of this thread."""
    return _stop.get()


def check() -> None:
    """Raise RunCancelledError or RunTimeoutError in work that shall end, whichever thread does it."""
    stop = _stop.get()
    if stop is not None:
        stop.check()


def holding(
    lock: threading.Lock | threading.RLock, stop: Stop | None = None
) -> AbstractContextManager[object]:
    """Return a context that holds a lock. Entering raises as check(), or as `stop`, if the work shall end
    while it waits for the lock.
    """
    stop = stop or _stop.get()
    return lock if stop is None else _held(lock, stop)


@contextmanager
def _held(lock: threading.Lock | threading.RLock, stop: Stop) -> Iterator[None]:
    while not lock.acquire(timeout=stop.patience):
        stop.check()
    try:
        yield
    finally:
        lock.release()
