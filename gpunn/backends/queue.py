"""RunQueue: runs of the host, in the order of their submission, on a thread of their own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from itertools import islice
from typing import Any, TypeVar

from gpunn.backends import fork
from gpunn.backends.interrupt import PATIENCE, check
from gpunn.errors import DeviceError

_T = TypeVar("_T")


class RunQueue:
    """A queue of runs, of which at most `frames` have not ended. Safe to use from several threads."""

    def __init__(self, frames: int, name: str) -> None:
        self._frames = frames
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._lock = fork.lock()
        self._under_way: deque[Future[Any]] = deque()
        self._cancelled = False

    def submit(self, work: Callable[..., _T], *arguments: Any) -> Future[_T]:
        """Have work done after all that was submitted before; wait for the oldest if there is no room.

        Raises DeviceError if the queue has been cancelled.
        """
        while True:
            with self._lock:
                if self._cancelled:
                    raise DeviceError("this compilation has been closed")
                self._forget_ended()
                if len(self._under_way) < self._frames:
                    self._under_way.append(self._executor.submit(copy_context().run, work, *arguments))
                    return self._under_way[-1]
                oldest = self._under_way[0]
            wait([oldest], PATIENCE)
            check()

    def cancel(self) -> None:
        """Cancel all but the oldest run, which has begun, and take no more."""
        with self._lock:
            self._cancelled = True
            self._forget_ended()
            for future in islice(self._under_way, 1, None):
                future.cancel()

    def close(self) -> None:
        """Wait until all runs have ended."""
        self._executor.shutdown()

    def _forget_ended(self) -> None:
        while self._under_way and self._under_way[0].done():
            self._under_way.popleft()
