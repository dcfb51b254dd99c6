"""Job, Interruptible, undisturbed(): work on a thread of its own, which signals do not reach.

Python delivers signals to the main thread, wherever it is: also in the middle of Thread.start() or
Condition.__exit__(), which then lose a lock. So nothing here uses such objects: each step is one call of a
function in C or one assignment, which a signal finds done or not done.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar

from gpunn.backends import fork
from gpunn.backends.interrupt import PATIENCE, Stop, check, check_not_reentered, current, under
from gpunn.backends.latch import Latch
from gpunn.errors import DeviceError

_T = TypeVar("_T")

_BEGUN, _CANCELLED = "begun", "cancelled"


class Job(Generic[_T]):
    """Work that another thread does; any number of threads may wait for it."""

    def __init__(self, work: Callable[[], _T], *locks: threading.RLock) -> None:
        """Take the locks that the work needs: who holds one must not wait for it."""
        self._locks = locks
        self._work: Callable[[], _T] | None = work
        self._fate: dict[str, str] = {}  # its first entry decides
        self._outcome: tuple[Any, BaseException | None] | None = None
        self._end = Latch()
        fork.in_child(self, Job._after_fork)

    def carry_out(self) -> None:
        """Do the work, unless it has been done or cancelled."""
        work = self._work
        if work is None or self._fate.setdefault("", _BEGUN) is not _BEGUN:
            return
        self._outcome = _outcome(work)
        self._work = None
        self._end.open()

    def cancel(self) -> bool:
        """Leave the work undone; return False if it has begun."""
        cancelled = self._fate.setdefault("", _CANCELLED) is _CANCELLED
        if cancelled:
            self._end.open()
        return cancelled

    def done(self) -> bool:
        """Tell whether the work has ended, or has been cancelled before it began."""
        return self._outcome is not None or self._fate.get("") is _CANCELLED

    def wait(self, seconds: float = PATIENCE) -> None:
        """Wait for the end, but not for longer."""
        if not self.done():
            self._end.wait(seconds)

    def result(self) -> _T:
        """Wait for the end, and return what the work returned, or raise what it raised.

        Raises DeviceError if it was cancelled, or if this thread holds what the work needs, and as check() if
        the wait shall end.
        """
        if not self.done():
            check_not_reentered(*self._locks)
        while not self.done():
            stop = current()
            self.wait(PATIENCE if stop is None else stop.patience)
            if not self.done():
                check()
        if self._outcome is None:
            raise DeviceError("this compilation has been closed")
        found, error = self._outcome
        if error is not None:
            try:
                raise error
            finally:
                del self, error  # which would refer to each other through the traceback
        result: _T = found
        return result

    def _after_fork(self) -> None:
        """Fail in a child process, unless the work has ended: the thread that does it is not there."""
        if not self.done():
            self._outcome = None, DeviceError("this run was submitted before fork")


def _outcome(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Return what a function returns and what it raises, one of them None."""
    try:
        return work(), None
    except BaseException as error:
        return None, error


class Interruptible:
    """One run, in any number of pieces; KeyboardInterrupt in one piece ends all of it, as `stop` does."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop

    def __call__(self, work: Callable[[], _T]) -> _T:
        """Run a function that calls check() often; return its result, or raise KeyboardInterrupt once it
        stopped. Raises DeviceError in the handler of a signal that came in a call of the driver.
        """
        if not _signals_come():
            return self._stop.carry(work)
        context = copy_context()
        context.run(under, self._stop)
        job = Job(partial(context.run, work))
        try:
            _begin(job)
            _await(job)
        except BaseException:
            self._stop.cancel("the run was interrupted")
            if not job.cancel():
                _await(job)
            raise
        return job.result()


def undisturbed(work: Callable[[], _T]) -> _T:
    """Run a function whose steps must not be interrupted; return its result.

    KeyboardInterrupt ends it where it calls check(), or is raised after its end.
    """
    return Interruptible(Stop())(work)


def to_the_end(work: Callable[[], _T]) -> _T:
    """Run a function that ends soon; return its result. KeyboardInterrupt is raised after its end."""
    if not _signals_come():
        return work()
    job = Job(partial(copy_context().run, work))
    try:
        _begin(job)
        _await(job)
    except BaseException:
        if not job.cancel():
            _await(job)
        raise
    return job.result()


def beside(work: Callable[[], _T], other: Callable[[], object]) -> _T:
    """Run a function on a thread of its own while this one runs another; return the first one's result.

    For work that waits for a driver. Both have ended when this returns, or raises what one of them raised.
    """
    job = Job(partial(copy_context().run, work))
    _thread.start_new_thread(job.carry_out, ())
    try:
        other()
    finally:
        _await(job)
    return job.result()


def side_by_side(works: Sequence[Callable[[], _T]], threads: int) -> list[_T]:
    """Run functions on so many threads; return what they return, or raise what one of them raised.

    For work in which a driver uses one core. All that have begun have ended then.
    """
    jobs = [Job(partial(copy_context().run, work)) for work in works]
    pending = iter(jobs)  # each thread takes the next one
    try:
        for _ in range(min(len(jobs), threads)):
            _thread.start_new_thread(_carry_out, (pending,))
        for job in jobs:
            _await(job)
            check()
    finally:
        for job in jobs:
            if not job.cancel():
                _await(job)
    return [job.result() for job in jobs]


def _carry_out(jobs: Iterable[Job[Any]]) -> None:
    for job in jobs:
        job.carry_out()


def _signals_come() -> bool:
    """Tell whether this thread runs the handlers of signals."""
    return threading.get_ident() == threading.main_thread().ident


def _begin(job: Job[Any]) -> None:
    check_not_reentered()
    _thread.start_new_thread(job.carry_out, ())


def _await(job: Job[Any]) -> None:
    while not job.done():
        job.wait()
