"""RunQueue: runs of the host, in the order of their submission, on a thread of their own."""

from __future__ import annotations

import _thread
import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import Any, TypeVar

from gpunn.backends import fork
from gpunn.backends.interrupt import PATIENCE, check, check_not_reentered, end_all, holding
from gpunn.backends.worker import Job
from gpunn.errors import DeviceError

_T = TypeVar("_T")

_AT_EXIT = 10.0  # seconds that runs under way have to end: they stop before their next operation


class _Belt:
    """The share of a queue and its thread, which ends once `wake` gives something else than None."""

    def __init__(self) -> None:
        self.jobs: deque[Job[Any]] = deque()
        self.wake: SimpleQueue[object] = SimpleQueue()
        self.ended = False
        self._threads: dict[str, int] = {}  # its first entry decides, if a start was interrupted

    def work(self, name: str) -> None:
        """Do the jobs, in a thread of that name."""
        if self._threads.setdefault("", threading.get_ident()) != threading.get_ident():
            return
        threading.current_thread().name = name
        while self.wake.get() is None:
            for job in tuple(self.jobs):
                job.carry_out()
                del job  # whose results may be large
        self.ended = True


_belts: weakref.WeakSet[_Belt] = weakref.WeakSet()


class RunQueue:
    """A queue of runs, of which at most `frames` have not ended. Safe to use from several threads."""

    def __init__(self, frames: int, name: str, *locks: threading.RLock) -> None:
        """Take the locks that runs need."""
        self._locks = locks
        self._frames = frames
        self._name = name
        self._lock = fork.lock()
        self._belt = _Belt()
        _belts.add(self._belt)
        self._end = weakref.ref(self, self._belt.wake.put)  # the thread of a forgotten queue ends
        self._started = False
        self._closed = False

    def submit(self, work: Callable[..., _T], *arguments: Any) -> Job[_T]:
        """Have work done after all that was submitted before; wait for the oldest if there is no room.

        Raises DeviceError if the queue has been cancelled or closed, or if this thread holds what runs need.
        """
        check_not_reentered(*self._locks)
        job = Job(partial(copy_context().run, work, *arguments), *self._locks)
        jobs, wake = self._belt.jobs, self._belt.wake
        while True:
            with holding(self._lock):
                if self._closed:
                    raise DeviceError("this compilation has been closed")
                if not self._started:
                    _thread.start_new_thread(self._belt.work, (self._name,))
                    self._started = True
                self._forget_ended()
                if len(jobs) < self._frames:
                    jobs.append(job)
                    wake.put(None)
                    return job
                oldest = jobs[0]
            wake.put(None)  # a submit() that was interrupted may not have done so
            oldest.wait(PATIENCE)
            check()

    def cancel(self) -> None:
        """Cancel all but the oldest run, which has begun, and take no more."""
        with holding(self._lock):
            self._closed = True
            self._forget_ended()
            for job in islice(self._belt.jobs, 1, None):
                job.cancel()

    def close(self) -> None:
        """Take no more runs, and wait until all have ended."""
        with holding(self._lock):
            self._closed = True
        for job in tuple(self._belt.jobs):
            while not job.done() and not self._belt.ended:
                self._belt.wake.put(None)
                job.wait(PATIENCE)
        self._belt.wake.put(self)

    def _forget_ended(self) -> None:
        while self._belt.jobs and self._belt.jobs[0].done():
            self._belt.jobs.popleft()


@atexit.register
def _end_threads() -> None:
    """End the runs under way before the interpreter goes: then threads must not be in a driver."""
    end_all("Python ends")
    last = time.monotonic() + _AT_EXIT
    for belt in tuple(_belts):
        belt.wake.put(belt)
        for job in tuple(belt.jobs):
            job.cancel()
            while not job.done() and time.monotonic() < last:
                job.wait(PATIENCE)
