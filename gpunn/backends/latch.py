"""Latch: what threads wait for, for some time, and signals do not break."""

from __future__ import annotations

import _thread
from contextlib import suppress


class Latch:
    """Something that opens once. Any number of threads may wait for it.

    A signal finds each step done or not done (gpunn.backends.worker); one that comes while a thread passes
    the latch may let others wait for their whole time. The lock is held until the latch opens.

    SimpleQueue.get() would not do: in CPython 3.11 (Modules/_queuemodule.c) it first takes the lock of a new
    queue, and then waits for the time that is left. If the system stops the thread in between for longer than
    the timeout, that is negative, and it waits for ever.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def open(self) -> None:
        """Let all threads pass, from now on."""
        with suppress(RuntimeError):  # it is open
            self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Wait until it opens, but not for longer; tell whether it has opened."""
        opened = self._lock.acquire(timeout=seconds)
        if opened:
            self.open()  # for others that wait
        return opened
