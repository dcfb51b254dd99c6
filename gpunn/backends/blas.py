"""The threads that numpy's BLAS library uses for a matrix product on the host.

A library's threads wait for one another by turning in a loop. If another program has their processor, a
product of microseconds takes milliseconds. So products that gain little from threads run on one.

The number belongs to the whole process. gpunn sets it while runs are under way, and then gives numpy back
what it had. Runs in several threads may set it one after the other: that changes how long they take.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import weakref
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpunn.arguments import expect_integer
from gpunn.backends import fork
from gpunn.backends.processors import free_processors
from gpunn.errors import DeviceError
from gpunn.graph.operation import Operation

# Below so many additions and multiplications an operation runs on one thread. Measured with two: products of
# 1.6 million take as long as on one thread, of 6.4 million two thirds (20 us less), of 13 million half.
LEAST_FLOPS = 1 << 22
VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS")  # of users
_PREFIXES = (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", ""))  # and suffixes, of OpenBLAS's builds
_NAMES = (  # of the functions that set and give the number
    *((f"{a}openblas_set_num_threads{z}", f"{a}openblas_get_num_threads{z}") for a, z in _PREFIXES),
    ("MKL_Set_Num_Threads", "MKL_Get_Max_Threads"),
    ("bli_thread_set_num_threads", "bli_thread_get_num_threads"),
)


class Library(NamedTuple):
    """A BLAS library: functions that set and give the number of its threads."""

    set: Callable[[int], object]
    get: Callable[[], int]


@cache
def library() -> Library | None:
    """Return the library that numpy multiplies matrices with; None if it cannot be told its threads.

    A module of numpy that is linked with it gives its functions; on Windows only its own file does. The
    package threadpoolctl lists all such libraries of a process, but does not say which one numpy uses.
    """
    module = importlib.import_module("numpy.linalg._umath_linalg").__file__
    beside = (Path(np.__file__).parent.parent / "numpy.libs").glob("*openblas*.dll")
    for path in (module, *beside):
        try:
            functions = ctypes.CDLL(str(path))
        except OSError:
            continue
        for setter, getter in _NAMES:
            if hasattr(functions, setter) and hasattr(functions, getter):
                return Library(getattr(functions, setter), getattr(functions, getter))
    return None


class ThreadsOfRun:
    """The context of a run that sets the number of threads; it ends as well if nothing refers to it."""

    def __init__(self, limits: Limits | None) -> None:
        self._limits = limits

    def __enter__(self) -> None:
        if self._limits is not None:
            self._limits.begin(self)

    def __exit__(self, *_: object) -> None:
        if self._limits is not None:
            self._limits.end(self)


_NOTHING = ThreadsOfRun(None)


class Limits:
    """The number of a library's threads, while runs are under way in any thread."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._lock = fork.lock()
        self._runs: list[weakref.ref[ThreadsOfRun]] = []
        self._before = self._now = 0
        fork.in_child(self, Limits._after_fork)

    def begin(self, run: ThreadsOfRun) -> None:
        """Let a run use(), until it ends with end() or nothing refers to it any more."""
        with self._lock:
            self._forget(None)
            if not self._runs:
                self._before = self._now = self._library.get()
            self._runs.append(weakref.ref(run))

    def end(self, run: ThreadsOfRun) -> None:
        """End a run; after the last one the number is what it was before the first one."""
        with self._lock:
            self._forget(run)

    def _forget(self, ended: ThreadsOfRun | None) -> None:
        if self._runs:
            runs = [found for found in self._runs if found() not in (None, ended)]
            if not runs:
                self.use(self._before)
            self._runs = runs

    def has(self, count: int) -> bool:
        """Tell whether the number is this one, and no run is under way that may set another one."""
        return not self._runs and self._library.get() == count

    def use(self, count: int) -> None:
        """Set the number for what follows."""
        if count != self._now:
            self._now = count
            self._library.set(count)

    def _after_fork(self) -> None:
        """Forget the runs of other threads, which a child process does not have."""
        if self._runs:
            self._runs = []
            self.use(self._before)


@cache
def limits() -> Limits | None:
    """Return the limits of numpy's library; None if there are none."""
    found = library()
    return None if found is None else Limits(found)


def choose_threads(threads: int | None, shared_loops: bool = False) -> int | None:
    """Return how many threads the large products of a compilation shall use; None: as numpy does.

    threads: so many, or None for as many as numpy uses now, if a variable of the environment states them;
    else at most as many as there are processors that other programs leave free. shared_loops: threads may
    have loops to share, too. Raises ModelError for less than 1, DeviceError if the number has no effect, as
    numpy's library does not take it.
    """
    if threads is None:
        found = library()
        if found is None:
            return None
        stated = any(os.environ.get(name) for name in VARIABLES)
        return max(1, found.get()) if stated else min(free_processors(), max(1, found.get()))
    threads = expect_integer("threads", threads, 1)
    if library() is None and not shared_loops:
        raise DeviceError(f"threads={threads} has no effect: numpy's BLAS library takes no number of threads")
    return threads


class HostProducts:
    """The operations that a program runs on the host, each with its number of threads.

    `threads`: for large products; None leaves all to the library. several: some have more than one.
    """

    def __init__(self, operations: Iterable[Operation], threads: int | None) -> None:
        found = None if threads is None else limits()
        self._threads: dict[Operation, int] = {}
        if threads is not None and found is not None:
            self._threads = {o: _threads(o, threads) for o in operations if o.definition.flops is not None}
        self._limits = found if self._threads else None
        used = {*self._threads.values()}
        self.several = max(used, default=1) > 1
        self._only = used.pop() if len(used) == 1 else None

    def of_run(self) -> ThreadsOfRun:
        """Return the context of a run, which sets nothing if numpy has the only number that is used."""
        limits, only = self._limits, self._only
        if limits is None or (only is not None and limits.has(only)):
            return _NOTHING
        return ThreadsOfRun(limits)

    def threads(self, operation: Operation) -> int:
        """Return how many threads an operation shall use; 0 if that makes no difference."""
        return self._threads.get(operation, 0)

    def use(self, threads: int) -> None:
        """Set the number of threads for the operation that follows."""
        if self._limits is not None:
            self._limits.use(threads)


def _threads(operation: Operation, most: int) -> int:
    return most if operation.definition.count_flops(operation.call()) >= LEAST_FLOPS else 1
