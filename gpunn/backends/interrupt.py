"""Runs that may never end, on a thread of their own: KeyboardInterrupt stops them between two steps.

Python delivers KeyboardInterrupt to the main thread at any point, even in the middle of a step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import TypeVar

from gpunn.errors import DeviceError

PATIENCE = 0.1  # seconds: on Windows a thread that waits learns of KeyboardInterrupt only afterwards

_T = TypeVar("_T")
_stop: ContextVar[threading.Event | None] = ContextVar("_stop", default=None)


def directly(work: Callable[[], _T]) -> _T:
    """Run a function that always ends; return its result."""
    return work()


class Interruptible:
    """One run, in any number of pieces; KeyboardInterrupt in one piece ends all of it."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def __call__(self, work: Callable[[], _T]) -> _T:
        """Run a function that calls check() often; return its result, or raise KeyboardInterrupt once it
        stopped.
        """
        if threading.current_thread() is not threading.main_thread():
            return work()
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
            self._stop.set()
            _join(thread)
            raise
        if errors:
            raise errors[0]
        return results[0]


def _join(thread: threading.Thread) -> None:
    while thread.is_alive():
        thread.join(PATIENCE)


def check() -> None:
    """Raise DeviceError in a run that shall stop, whichever thread it has been handed to."""
    stop = _stop.get()
    if stop is not None and stop.is_set():
        raise DeviceError("the run was interrupted")
