"""LocalCompilation: a model made ready in this process, and its runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import numpy as np

from gpunn.backends import fork
from gpunn.backends.base import Stats, Trace, copied
from gpunn.backends.interrupt import Stop, check_not_reentered, directly, holding
from gpunn.backends.queue import RunQueue
from gpunn.backends.worker import Interruptible, Job, undisturbed
from gpunn.compilation.base import Compilation
from gpunn.compilation.event import CarryOut, Event
from gpunn.compilation.specialise import Build, Specialisation, Specialisations, Tracer, may_loop
from gpunn.errors import DeviceError, ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.tensors import expect_type
from gpunn.kernel import Kernel
from gpunn.ops.op import as_tuple
from gpunn.planning.partition import Placement
from gpunn.types import Array, Shape

_T = TypeVar("_T")


ROUNDS_AT_ONCE = 256  # of a body


class LocalCompilation(Compilation):
    """A model compiled for a backend in this process."""

    def __init__(self, model: Graph, build: Build, backend: str, device: str, frames: int) -> None:
        self.model = model
        self.backend = backend
        self.device = device
        self.frames = frames
        self._loops = may_loop(model)
        self._lock = fork.lock()
        self._one_at_a_time = fork.lock()  # runs of several sections
        self._specialisations = Specialisations(model, build)
        self._closed = False
        self._queue: RunQueue | None = None  # of submitted runs of several sections
        self._shapes = tuple(i.type.shape for i in model.inputs)  # of the run that was started last
        fork.in_child(self, LocalCompilation._after_fork)
        with self._specialisations.lend(self._shapes) as first:
            self._placement = (*first.placements, *first.after)

    @property
    def placement(self) -> tuple[Placement, ...]:
        """Say where each operation ran last; see Compilation."""
        return self._placement

    @property
    def stats(self) -> Stats:
        """Return the counters; see Compilation."""
        return self._specialisations.stats()

    def constants(self) -> dict[Hashable, int]:
        """Return the bytes of each constant; see Compilation."""
        return self._specialisations.constants()

    def _bundles(self) -> list[Sequence[Kernel]]:
        """Return the kernels of each bundle of all programs; see Compilation."""
        return [bundle for part in self._specialisations.kept() for bundle in part.program.bundles]

    @property
    def host_bytes(self) -> int:
        """Return the most bytes that a run has on the host at a time; see needed_on_host()."""
        return max((part.host_bytes for part in self._specialisations.kept()), default=0)

    def evaluate(self, inputs: Sequence[Array], rounds: int = 1) -> tuple[Array, ...]:
        """Compute the outputs for inputs of the right types, for a compilation of which this is a body.

        Do so `rounds` times, each time from the outputs before. Either may be on the device, for as long as
        somebody refers to them; numpy.asarray() reads them back. They may share memory: nobody changes them.
        """
        while rounds > 0:
            with self._specialisations.lend(_shapes(inputs)) as first:
                first.check(inputs)
                # In between it may turn out to be closed, and what is guarded is checked.
                count = min(rounds, 1 if first.guarded or not first.whole else ROUNDS_AT_ONCE)
                if first.whole:
                    self._begin(first, inputs)
                    inputs = first.program.repeat(inputs, count)
                else:
                    inputs = self._run(inputs, inside=True)
            rounds -= count
        return tuple(inputs)

    def submit(self, *inputs: Any) -> Event:
        """Start a run; see Compilation."""
        arrays = self._arrays(inputs)
        with self._specialisations.lend(_shapes(arrays)) as specialisation:
            specialisation.check(arrays)
            if not self._may_not_end(specialisation):
                self._begin(specialisation, arrays)
                stop = self._stop(None) or Stop()
                pending = stop.carry(partial(specialisation.program.submit, arrays))
                return Event(pending, directly, stop)
        return self._event([copied(array) for array in arrays])

    def trace(self, *inputs: Any, whole: bool = False) -> Trace:
        """Run with every part timed; see Compilation."""
        self._check_not_reentered()
        tracer, arrays = Tracer(whole), self._arrays(inputs)
        return tracer.trace(undisturbed(lambda: self.answer(arrays, tracer)))

    def reset_state(self, values: Mapping[str, Array] | None = None) -> None:
        """Give variables their initial values, or other ones; see Compilation."""
        if values is not None and not isinstance(values, Mapping):
            raise ModelError(f"values must be a mapping of variables' names to arrays, got {values!r:.80}")
        types = {v.name: v.type for v in self.model.variables}
        for name, value in (values or {}).items():
            if name not in types:
                raise ModelError(f"model {self.model.name!r} has no variable {name!r}")
            expect_type(f"variable {name!r}", value, types[name])
        if values:
            self._check_updated(values)
        self._after_submitted(partial(self._reset, values or {}))

    def _check_updated(self, values: Mapping[str, Array]) -> None:
        """Raise ModelError if variables shall have other values of which the passes have made constants."""
        from gpunn.passes.fold import settled

        for variable in settled(self.model):
            first = self.model.variables[variable]
            if np.asarray(values.get(variable.name, first)).tobytes() != first.tobytes():
                raise ModelError(
                    f"nothing updates variable {variable.name!r}: it is a constant of the compiled model"
                )

    def variables(self) -> dict[str, Array]:
        """Return the values of variables; see Compilation."""
        names = [v.name for v in self.model.variables]
        if len({*names}) < len(names):
            raise ModelError(f"variables of model {self.model.name!r} share a name: {names}")
        return self._after_submitted(self._values)

    def close(self, *, finish: bool = False) -> None:
        """Free the device memory; see Compilation."""
        self._check_not_reentered()
        for specialisation in self._specialisations.kept():
            for body in specialisation.bodies:  # first: a loop under way ends when its body is closed
                body.close()
        with holding(self._lock):
            self._closed = True
        if not finish:
            for specialisation in self._specialisations.kept():
                specialisation.program.cancel()
            if self._queue is not None:
                self._queue.cancel()
        if self._queue is not None:
            self._queue.close()
        self._specialisations.close()

    def recover(self) -> None:
        """Build all programs again; see Compilation."""
        self._check_not_reentered()
        if self._closed:
            raise DeviceError("this compilation has been closed")
        again, nothing = self.__reduce__()
        fresh = again(*nothing)
        assert isinstance(fresh, LocalCompilation)
        with holding(self._lock):
            lost, self._specialisations = self._specialisations, fresh._specialisations
            self._shapes, self._placement = fresh._shapes, fresh._placement
        fresh._closed = True  # what it had belongs to this one now
        with suppress(DeviceError):
            lost.close()

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        if self.backend == "webgpu" and self.recipe is not None and not getattr(self, "_closed", True):
            warn(f"unclosed {self!r}", ResourceWarning, source=self)

    def _check_not_reentered(self) -> None:
        """Raise DeviceError if this thread is in a run: in a signal's handler, that is."""
        check_not_reentered(self._lock, self._one_at_a_time)
        for specialisation in self._specialisations.kept():
            specialisation.program.check_not_reentered()

    def _after_fork(self) -> None:
        self._queue = None

    def answer(
        self, arrays: Sequence[Array], tracer: Tracer | None = None, timeout: float | None = None
    ) -> tuple[Array, ...]:
        """Return the results of a run that sees what the runs before have left in variables."""
        if self._queue is None or not self.model.variables:
            return self._run(arrays, tracer, timeout=timeout)
        return as_tuple(self._event(arrays, tracer, timeout).result())

    def _run(
        self,
        arrays: Sequence[Array],
        tracer: Tracer | None = None,
        inside: bool = False,
        timeout: float | None = None,
    ) -> tuple[Array, ...]:
        stop = self._stop(timeout)
        with self._specialisations.lend(_shapes(arrays)) as first:
            first.check(arrays)
            carry_out = self._carrying_out(stop, self._may_not_end(first))
            run = first.program.run if tracer is None else partial(tracer.run, first.program)
            if first.whole:
                self._begin(first, arrays)
                return carry_out(lambda: run(arrays) if inside else tuple(map(np.asarray, run(arrays))))
            with holding(self._one_at_a_time, stop):
                self._begin(first, arrays)
                results = carry_out(partial(run, [*arrays, *first.state]))
                finish = partial(self._specialisations.finish, _shapes(arrays), first, results, tracer)
                results, self._placement = carry_out(finish)
                count = len(self.model.outputs)
                first.state[:] = results[count:]
                return results[:count] if inside else tuple(map(np.asarray, results[:count]))

    def _event(
        self, arrays: Sequence[Array], tracer: Tracer | None = None, timeout: float | None = None
    ) -> Event:
        """Submit a run of several sections, or one that may never end."""
        stop = self._stop(timeout) or Stop()
        carry_out = self._carrying_out(stop, self._loops)
        return Event(carry_out(partial(self._submit, self._run, arrays, tracer)), carry_out, stop)

    def _submit(self, work: Callable[..., _T], *arguments: Any) -> Job[_T]:
        """Let work be done after the runs that have been submitted."""
        with holding(self._lock):
            if self._closed:
                raise DeviceError("this compilation has been closed")
            if self._queue is None:
                self._queue = RunQueue(self.frames, "gpunn-sections", self._one_at_a_time)
            queue = self._queue
        return queue.submit(work, *arguments)

    def _after_submitted(self, work: Callable[[], _T]) -> _T:
        """Do work after the runs that have been submitted, and wait for it."""
        return work() if self._queue is None else self._submit(work).result()

    def _values(self) -> dict[str, Array]:
        """Return the values of the variables of what ran last."""
        with holding(self._one_at_a_time), self._specialisations.lend(self._shapes) as last:
            return last.values(self.model.variables)

    def _reset(self, values: Mapping[str, Array]) -> None:
        """Give the variables of what ran last their initial values, apart from those named in `values`."""
        with (
            holding(self._one_at_a_time),
            self._specialisations.lend(self._shapes) as last,
            holding(self._lock),
        ):
            last.reset_state(self.model.variables, values)

    def _stop(self, timeout: float | None) -> Stop | None:
        """Return what ends a run after `timeout` seconds, or those of the model's limits; None if nothing."""
        limits = self.model.limits
        if limits.run_seconds is None:
            return None if timeout is None else Stop(timeout)
        limit = Stop(limits.run_seconds, late=limits.late("run_seconds", "the run"))
        return limit if timeout is None else Stop(timeout, limit)

    def _may_not_end(self, specialisation: Specialisation) -> bool:
        """Tell whether a run may never end, or has other sections, of which that is not known."""
        return self._loops and specialisation.loops if specialisation.whole else True

    def _carrying_out(self, stop: Stop | None, may_not_end: bool) -> CarryOut:
        """Choose how one run is done, which may be stopped."""
        if may_not_end:
            return Interruptible(stop or Stop())
        return directly if stop is None else stop.carry

    def _begin(self, specialisation: Specialisation, arrays: Sequence[Array]) -> None:
        """Note that a run on these inputs starts, after all that have been submitted before."""
        shapes = _shapes(arrays)
        if shapes == self._shapes and specialisation.whole and self._placement is specialisation.placements:
            return  # most runs are like the one before
        with holding(self._lock):
            if shapes != self._shapes and self.model.variables:
                specialisation.reset_state()  # it may be one that ran before the last one
            self._shapes = shapes
            if specialisation.whole:
                self._placement = specialisation.placements


def _shapes(arrays: Sequence[Array]) -> tuple[Shape, ...]:
    return tuple([array.shape for array in arrays])
