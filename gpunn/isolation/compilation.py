"""IsolatedCompilation: a compilation that a worker process runs."""

from __future__ import annotations

import pickle
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from gpunn.backends import fork
from gpunn.backends.base import DeviceMemory, Stats, Trace
from gpunn.backends.interrupt import Stop, directly, expect_seconds, holding
from gpunn.backends.worker import Job
from gpunn.compilation import compiler
from gpunn.compilation.base import Compilation
from gpunn.compilation.event import Event
from gpunn.errors import DeviceError, ModelError, RunTimeoutError, UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.isolation.messages import MEMORY, Kind
from gpunn.isolation.process import GRACE, Call, Worker
from gpunn.planning.partition import Placement
from gpunn.tuning import records
from gpunn.types import Array


def isolated(model: Graph, *arguments: Any, **options: Any) -> IsolatedCompilation:
    """Compile a model in a worker process; arguments and options are those of compile_model().

    Raises what compile_model() raises, ModelError for a model that cannot be pickled, and DeviceError if the
    process cannot be started or ends.
    """
    try:
        recipe = pickle.dumps(partial(_made, records.known(), model, *arguments, **options))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        advice = "functions of custom operators must be in a module that another process can import"
        raise ModelError(f"isolate=True needs a model that can be pickled: {error}; {advice}") from error
    made = IsolatedCompilation(model, recipe)
    made.recipe = partial(isolated, model, *arguments, **options)
    _living.add(made)
    return made


def _made(known: records.Known, model: Graph, *arguments: Any, **options: Any) -> Compilation:
    """Compile in the worker, with the kernels that the process which asks has chosen: as it would itself."""
    records.learn(known)
    return compiler.compile_model(model, *arguments, **options)


_living: weakref.WeakSet[IsolatedCompilation] = weakref.WeakSet()


def _memory() -> Iterator[DeviceMemory]:
    """Yield what worker processes have on each GPU."""
    for compiled in tuple(_living):
        yield from compiled.memory()


compiler.memory_elsewhere.append(_memory)


class IsolatedCompilation(Compilation):
    """A model compiled in a worker process, which a driver may end without harm to this process.

    If the process has ended, what was under way raises DeviceError, and the next run starts another process,
    or recover() does if the model has variables, as their values are gone.
    """

    def __init__(self, model: Graph, recipe: bytes) -> None:
        self.model = model
        self._recipe = recipe
        self._lock = fork.lock()
        self._closed = False
        self._stats = Stats()
        self._worker = self._started()
        made = self._worker.made
        self.backend, self.device, self.frames = made.backend, made.device, made.frames

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, in a worker process>"

    @property
    def stats(self) -> Stats:
        """Return the counters of the worker process; of one that has ended, the last ones that are known."""
        if self._worker.alive and not self._closed:
            self._stats = self._told("stats")
        return self._stats

    @property
    def placement(self) -> tuple[Placement, ...]:
        """Say where each operation ran last; see Compilation."""
        found: tuple[Placement, ...] = self._told("placement")
        return found

    def constants(self) -> dict[Hashable, int]:
        """Return the bytes of each constant; see Compilation."""
        found: dict[Hashable, int] = self._told("constants")
        return found

    def memory(self) -> tuple[DeviceMemory, ...]:
        """Return what the worker process has on each GPU, in bytes; nothing if it has ended."""
        found: tuple[DeviceMemory, ...] = ()
        if self._worker.alive and not self._closed:
            with suppress(DeviceError):  # it may end now
                found = self._told(MEMORY)
        return found

    def answer(self, arrays: Sequence[Array], *, timeout: float | None = None) -> tuple[Array, ...]:
        """Return the results of a run; see Compilation."""
        expect_seconds(timeout)
        worker = self._running()
        call = worker.ask(Kind.RUN, arrays, results=self._room(), timeout=timeout)
        limits = self.model.limits
        longest = min((s for s in (timeout, limits.run_seconds) if s is not None), default=None)
        stop = None if longest is None else Stop(longest + GRACE)
        try:
            results: tuple[Array, ...] = self._wait(worker, call, stop)
        except RunTimeoutError as error:
            if worker.alive:
                raise
            if timeout is None or timeout != longest:
                raise limits.late("run_seconds", "the run")() from error
            late = f"the run has not ended after {timeout:g} s, and its worker process was ended"
            raise RunTimeoutError(late) from error
        worker.expect(results)
        return results

    def submit(self, *inputs: Any) -> Event:
        """Start a run; see Compilation."""
        arrays, worker = self._arrays(inputs), self._running()
        call = worker.ask(Kind.SUBMIT, arrays, results=self._room())
        self._wait(worker, call, of=call.taken)
        return _IsolatedEvent(self, worker, call)

    def trace(self, *inputs: Any, whole: bool = False) -> Trace:
        """Run with every part timed; see Compilation."""
        arrays, worker = self._arrays(inputs), self._running()
        kind = Kind.TRACE_WHOLE if whole else Kind.TRACE
        found: Trace = self._wait(worker, worker.ask(kind, arrays))
        return found

    def reset_state(self, values: Mapping[str, Array] | None = None) -> None:
        """Give variables their initial values; see Compilation."""
        if values is not None:
            raise UnsupportedError("variables in a worker process begin with their initial values only")
        worker = self._running()
        self._wait(worker, worker.ask(Kind.RESET))

    def variables(self) -> dict[str, Array]:
        """Return the values of variables; see Compilation."""
        found: dict[str, Array] = self._told("variables")
        return found

    def close(self, *, finish: bool = False) -> None:
        """End the worker process; see Compilation."""
        with holding(self._lock):
            closed, self._closed = self._closed, True
        if closed or not self._worker.alive:
            self._worker.end()
            return
        try:
            call = self._worker.ask(Kind.CLOSE, name="finish" if finish else "")
            self._stats = call.outcome.result()
        except DeviceError:  # it has ended before
            pass
        finally:
            self._worker.kill()

    def recover(self) -> None:
        """Start another worker process; see Compilation."""
        with holding(self._lock):
            if self._closed:
                raise DeviceError("this compilation has been closed")
            self._worker.kill()
            self._worker = self._started()

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        if self.recipe is not None and not self._closed:
            warn(f"unclosed {self!r}", ResourceWarning, source=self)

    def _running(self) -> Worker:
        """Return the worker process; another one if it has ended. Raises DeviceError."""
        with holding(self._lock):
            if self._closed:
                raise DeviceError("this compilation has been closed")
            if not self._worker.alive:
                if self.model.variables:
                    advice = "and the values of variables are gone; call recover()"
                    raise DeviceError(f"the worker process has ended, {advice}")
                self._worker = self._started()
            return self._worker

    def _started(self) -> Worker:
        """Start a worker process."""
        limits = self.model.limits
        try:
            return Worker(self._recipe, limits.compile_seconds)
        except RunTimeoutError as error:
            raise limits.late("compile_seconds", "the compile")() from error

    def _room(self) -> int:
        """Return the bytes of results, as far as they are known before a run."""
        return sum(o.type.nbytes + 64 for o in self.model.outputs)

    def _told(self, name: str) -> Any:
        worker = self._running()
        return self._wait(worker, worker.ask(Kind.TELL, name=name))

    def _wait(self, worker: Worker, call: Call, stop: Stop | None = None, of: Job[Any] | None = None) -> Any:
        """Wait for what comes of a request, or for another job of it; it ends if the wait is interrupted."""
        job = of or call.outcome
        try:
            return job.result() if stop is None else stop.carry(job.result)
        except BaseException:
            worker.cancel(call)
            worker.settle(call)
            raise


class _IsolatedEvent(Event):
    """A submitted run in a worker process."""

    def __init__(self, compilation: IsolatedCompilation, worker: Worker, call: Call) -> None:
        stop = Stop()
        super().__init__(call.outcome, directly, stop)
        self._compilation = compilation  # which must live as long as the run
        self._worker = worker
        self._call = call

    def cancel(self) -> bool:
        """End the run; see Event."""
        cancelled = super().cancel()
        self._worker.cancel(self._call)
        return cancelled
