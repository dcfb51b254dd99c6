"""Compilation, Event, Preference: a model made ready, and its runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from gpunn.backends import fork
from gpunn.backends.base import Stats, Trace, copied
from gpunn.backends.interrupt import Stop, check_not_reentered, directly, holding
from gpunn.backends.queue import RunQueue
from gpunn.backends.worker import Interruptible, Job, undisturbed
from gpunn.compilation.event import CarryOut, Event, results_in_order, single
from gpunn.compilation.specialise import Build, Specialisation, Specialisations, Tracer
from gpunn.errors import DeviceError, ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operation
from gpunn.graph.parts import walk
from gpunn.graph.reshape import as_input
from gpunn.kernel import Kernel
from gpunn.ops.control import while_loop
from gpunn.ops.op import as_tuple
from gpunn.types import Array, Shape

_T = TypeVar("_T")


ROUNDS_AT_ONCE = 256  # of a body


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One dispatch of a compiled model."""

    operation: Operation
    kernel: Kernel


class Compilation:
    """A model compiled for a backend. Safe to use from several threads; also a context manager.

    Inputs may have any extents where the model leaves these open, and shapes may depend on values: what was
    built for the last used shapes is kept; weights are shared on the device. What it has there is freed by
    close(), or, with a ResourceWarning, some time after nothing refers to it any more. `placement` says
    where each operation ran last, and before the first run where it will, as far as shapes are known.
    """

    def __init__(self, model: Graph, build: Build, backend: str, device: str, frames: int) -> None:
        self.model = model
        self.backend = backend
        self.device = device
        self.recipe: Callable[[], Compilation] | None = None  # compiles the model in the same way again
        self._frames = frames
        loops = (o.definition is while_loop for m in walk(model) for o in m.operations)
        self._loops = bool(model.pending) or any(loops)  # what follows may hold some
        self._lock = fork.lock()
        self._one_at_a_time = fork.lock()  # runs of several sections
        self._specialisations = Specialisations(model, build)
        self._closed = False
        self._queue: RunQueue | None = None  # of submitted runs of several sections
        self._shapes = tuple(i.type.shape for i in model.inputs)  # of the run that was started last
        fork.in_child(self, Compilation._after_fork)
        with self._specialisations.lend(self._shapes) as first:
            self.placement = (*first.placements, *first.after)

    def __reduce__(self) -> tuple[Callable[[], Compilation], tuple[()]]:
        """Pickle and copy a compilation as its recipe: another one in the state before the first run."""
        if self.recipe is None:
            raise ModelError("a compilation that was made without compile() cannot be pickled or copied")
        return self.recipe, ()

    def __repr__(self) -> str:
        return f"<Compilation of {self.model!r} on {self.backend}, {self.device}>"

    @property
    def stats(self) -> Stats:
        """Return the counters of this compilation up to now; see gpunn.backends.base.Stats."""
        return self._specialisations.stats()

    def constants(self) -> dict[Hashable, int]:
        """Return the bytes of each constant on the device; compilations that share it have one key for it."""
        return self._specialisations.constants()

    def plan_rows(self) -> tuple[PlanRow, ...]:
        """Return the GPU dispatches of one run, in order; those of a body as if it ran once."""
        return tuple(PlanRow(p.operation, k) for p in self.placement for k in p.kernels)

    def __call__(self, *inputs: Any) -> Any:
        """Run on arrays in the order of the model's inputs.

        Returns the array of the only output, or a tuple of arrays in the order of the outputs; run() gives
        them by name. The type is Any because only the model knows which of the two it is.

        Inputs with a default may be None, and may be left out at the end.
        Raises ModelError for a wrong number, shape or dtype of inputs, DeviceError when the GPU fails.
        """
        return single(self._answer(self._arrays(inputs)))

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

    def run(self, inputs: Mapping[str, Any], *, timeout: float | None = None) -> dict[str, Array]:
        """Run on named inputs and return named outputs; otherwise as a call.

        After `timeout` seconds the run ends before its next operation or round of a loop, and
        RunTimeoutError is raised. What has been handed to a GPU is computed to its end, but not waited for.
        Variables keep their values, unless the run's last part has been handed to a GPU.
        """
        names = [i.name for i in self.model.inputs]
        needed = {i.name for i in self.model.inputs if i.default is None}
        if not isinstance(inputs, Mapping):
            raise ModelError(f"run() takes a mapping of the inputs {names}, got {type(inputs).__name__}")
        if len({*names}) < len(names) or not needed <= {*inputs} <= {*names}:
            raise ModelError(f"the model's inputs are {names}, got {[*inputs]}")
        results = self._answer(self._arrays([inputs.get(n) for n in names]), timeout=timeout)
        return {o.name: r for o, r in zip(self.model.outputs, results, strict=True)}

    def predict(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run on named inputs, and return the outputs with the answer of a classifier by names of classes.

        The scores become a dictionary from labels to floats, and the label with the highest score is added:
        {"classLabel": "cat", "classLabelProbs": {"cat": 0.9, "dog": 0.1}}, under the names that the file has
        for them. Labels are str, or int if the file has numbers. All other outputs are arrays, as from run(),
        and so are those of a model whose file names no classes. Raises ModelError as run(), and if there is
        not one score for each label. Source: Core ML, MLModel.prediction().
        """
        found: dict[str, Any] = self.run(inputs)
        classes = self.model.classes
        if classes is None:
            return found
        output = next(o for o in self.model.outputs if o.name == classes.scores)
        best, found[classes.scores] = classes.named(found[classes.scores], output)
        return {**found, classes.best: best}

    def submit(self, *inputs: Any) -> Event:
        """Start a run and return at once; the inputs may be changed afterwards.

        When all frames of the ring are in flight, waits for the oldest: one with FAST_SINGLE_ANSWER and
        LOW_POWER, three with SUSTAINED_SPEED.
        """
        arrays = self._arrays(inputs)
        with self._specialisations.lend(_shapes(arrays)) as specialisation:
            specialisation.check(arrays)
            if specialisation.whole and not self._loops:
                self._begin(specialisation, arrays)
                stop = Stop()
                pending = stop.carry(partial(specialisation.program.submit, arrays))
                return Event(pending, directly, stop)
        return self._event([copied(array) for array in arrays])

    def stream(self, frames: Iterable[Any]) -> Iterator[Any]:
        """Return the results for a sequence of inputs (an array, or a tuple of arrays a frame), in order.

        With SUSTAINED_SPEED the upload of a frame, the computing of the one before and the read-back of the
        one before that overlap; memory does not grow with the length of the sequence. What a frame raises, or
        taking it from `frames`, comes after the results of the frames before it.
        """
        return results_in_order(frames, self.submit, self._frames)

    def trace(self, *inputs: Any) -> Trace:
        """Run with every dispatch and host operation timed; see gpunn.profile, which makes a table of it.

        It takes longer than a run. Raises what a run raises.
        """
        self._check_not_reentered()
        tracer, arrays = Tracer(), self._arrays(inputs)
        return tracer.trace(undisturbed(lambda: self._answer(arrays, tracer)))

    def reset_state(self) -> None:
        """Give the model's variables their initial values, as they were before the first run.

        Runs that have been submitted before do not see it, later ones do. Without variables nothing happens.
        State is reset, too, when inputs come with other shapes than in the run before.
        """
        if self._queue is None:
            self._reset()
        else:
            self._submit(self._reset).result()

    def close(self, *, finish: bool = False) -> None:
        """Free the device memory of this compilation; later runs raise DeviceError.

        Submitted runs that have begun end before, apart from loops. Those that have not begun are cancelled:
        their events raise DeviceError. With `finish`, they run to their end, too.
        """
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
        """Build all programs again after the device was lost, on the device that takes its place.

        Submitted runs that have not ended are given up, and variables begin with their initial values. Raises
        DeviceError if there is no device, or if this compilation has been closed.
        """
        self._check_not_reentered()
        if self._closed:
            raise DeviceError("this compilation has been closed")
        again, nothing = self.__reduce__()
        fresh = again(*nothing)
        with holding(self._lock):
            lost, self._specialisations = self._specialisations, fresh._specialisations
            self._shapes, self.placement = fresh._shapes, fresh.placement
        fresh._closed = True  # what it had belongs to this one now
        with suppress(DeviceError):
            lost.close()

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        if self.backend == "webgpu" and self.recipe is not None and not getattr(self, "_closed", True):
            warn(f"unclosed {self!r}", ResourceWarning, source=self)

    def __enter__(self) -> Compilation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_not_reentered(self) -> None:
        """Raise DeviceError if this thread is in a run: in a signal's handler, that is."""
        check_not_reentered(self._lock, self._one_at_a_time)
        for specialisation in self._specialisations.kept():
            specialisation.program.check_not_reentered()

    def _after_fork(self) -> None:
        self._queue = None

    def _answer(
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
        stop = None if timeout is None else Stop(timeout)
        carry_out = self._carrying_out(stop)
        with self._specialisations.lend(_shapes(arrays)) as first:
            first.check(arrays)
            run = first.program.run if tracer is None else partial(tracer.run, first.program)
            if first.whole:
                self._begin(first, arrays)
                return carry_out(lambda: run(arrays) if inside else tuple(map(np.asarray, run(arrays))))
            with holding(self._one_at_a_time, stop):
                self._begin(first, arrays)
                results = carry_out(partial(run, [*arrays, *first.state]))
                finish = partial(self._specialisations.finish, _shapes(arrays), first, results, tracer)
                results, self.placement = carry_out(finish)
                count = len(self.model.outputs)
                first.state[:] = results[count:]
                return results[:count] if inside else tuple(map(np.asarray, results[:count]))

    def _event(
        self, arrays: Sequence[Array], tracer: Tracer | None = None, timeout: float | None = None
    ) -> Event:
        """Submit a run of several sections, or one that may never end."""
        stop = Stop(timeout)
        carry_out = self._carrying_out(stop)
        return Event(carry_out(partial(self._submit, self._run, arrays, tracer)), carry_out, stop)

    def _submit(self, work: Callable[..., _T], *arguments: Any) -> Job[_T]:
        """Let work be done after the runs that have been submitted."""
        with holding(self._lock):
            if self._closed:
                raise DeviceError("this compilation has been closed")
            if self._queue is None:
                self._queue = RunQueue(self._frames, "gpunn-sections", self._one_at_a_time)
            queue = self._queue
        return queue.submit(work, *arguments)

    def _reset(self) -> None:
        """Give the variables of what ran last their initial values."""
        with (
            holding(self._one_at_a_time),
            self._specialisations.lend(self._shapes) as last,
            holding(self._lock),
        ):
            last.reset_state()

    def _carrying_out(self, stop: Stop | None) -> CarryOut:
        """Choose how one run is done, which may be stopped."""
        if self._loops:
            return Interruptible(stop or Stop())
        return directly if stop is None else stop.carry

    def _arrays(self, inputs: Sequence[Any]) -> list[Array]:
        wanted = self.model.inputs
        left = wanted[len(inputs) :]
        if len(inputs) > len(wanted) or any(operand.default is None for operand in left):
            raise ModelError(f"the model takes {len(wanted)} inputs, got {len(inputs)}")
        given = (*inputs, *(None for _ in left))
        return [as_input(operand, value) for operand, value in zip(wanted, given, strict=True)]

    def _begin(self, specialisation: Specialisation, arrays: Sequence[Array]) -> None:
        """Note that a run on these inputs starts, after all that have been submitted before."""
        shapes = _shapes(arrays)
        with holding(self._lock):
            if shapes != self._shapes and self.model.variables:
                specialisation.reset_state()  # it may be one that ran before the last one
            self._shapes = shapes
            if specialisation.whole:
                self.placement = specialisation.placements


def _shapes(arrays: Sequence[Array]) -> tuple[Shape, ...]:
    return tuple(array.shape for array in arrays)
