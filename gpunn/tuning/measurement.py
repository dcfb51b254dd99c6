"""The time of each candidate of a call on a device, and whether its results are right."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from gpunn.backends.interrupt import check, holding
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.executor import DeviceErrors
from gpunn.backends.webgpu.native import await_submission, submit
from gpunn.backends.webgpu.program import WebGpuProgram
from gpunn.backends.webgpu.shader import ShaderKey, key_of
from gpunn.backends.webgpu.stopwatch import Pass, Stopwatch
from gpunn.errors import DeviceError
from gpunn.graph.draw import drawn, drawn_range
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operation
from gpunn.kernel import Candidate, Kernel
from gpunn.passes.rewrite import single
from gpunn.planning.partition import DEVICE, Placement
from gpunn.planning.plan import Plan, make_plan
from gpunn.tuning.checks import objection
from gpunn.tuning.result import Record
from gpunn.types import Array

MARGIN = 0.95  # of the first candidate's time, which another one must stay below: clocks and loads vary
HOPELESS = 2.5  # times the best candidate: what is certainly slower is timed no further
# Times the best one, and seconds: what takes software as long in one measurement is timed no further, either.
FAR, LONG = 4.0, 0.01
# Seconds of the first candidate, from which on others are not tried: a driver may end what takes ten times as
# long, and the device with it.
TOO_LONG = 1.0
PASS_SECONDS = 2e-4  # of one measurement: shorter dispatches are repeated
MOST_REPEATS = 32
# Seconds for a competition of candidates, and for those of all calls of a graph that are measured together.
BUDGET, BUDGET_OF_ALL = 0.3, 15.0
ROUNDS, FEW_ROUNDS = 6, 2  # at least, and where six take longer than the budget: long times differ by less
AT_ONCE = 2  # rounds in a submission: several of these lie in different slices of time of a busy machine
AGREE = 1.03  # so near are the two least times of a candidate that is known well enough
SUBMISSION = 0.1  # seconds of a submission, about: nothing stops one
# Seconds in which a device does a call's work before it is measured. Hardware with little to do lowers its
# clock: that of an NVIDIA H200 falls from 1980 to 345 MHz within two seconds, and takes 0.3 s to come back.
FIRST_WARMING, WARMING = 0.4, 0.05
WARMING_REPEATS = 32


@dataclass(frozen=True, slots=True)
class _Data:
    """A model of one operation, and random values for its inputs."""

    operation: Operation
    model: Graph
    inputs: tuple[Array, ...]

    @classmethod
    def of(cls, operation: Operation) -> _Data:
        """Draw inputs, the same ones every time."""
        model, _ = single(operation)
        generator = np.random.default_rng(0)
        inputs = tuple(drawn(o.type, drawn_range(model, o), generator) for o in model.inputs)
        return cls(model.operations[0], model, inputs)

    def objection(self, found: Sequence[Array], candidate: Candidate) -> str:
        """Say how a candidate's results differ from the exact ones by more than is allowed; "" if not."""
        values = dict(zip(self.model.inputs, self.inputs, strict=True))
        halves = any(kernel.halves for kernel in candidate.kernels)
        return objection(self.operation, values, found, halves)


@dataclass(slots=True)
class _Trial:
    """A candidate under test: its program while it has one, its results, and its times so far.

    `once` is the time of the first pass, for want of others.
    """

    candidate: Candidate
    program: WebGpuProgram | None = None
    results: tuple[Array, ...] = ()
    once: float | None = None
    times: list[float] = field(default_factory=list)
    dropped: str = ""

    @property
    def seconds(self) -> float | None:
        """Return the least time; None if there is none."""
        return min(self.times, default=self.once)

    @property
    def settled(self) -> bool:
        """Tell whether the least time is no accident: another one is near it."""
        least = sorted(self.times)[:2]
        return len(least) == 2 and least[1] <= AGREE * least[0]

    @property
    def running(self) -> bool:
        """Tell whether it is timed further."""
        return self.program is not None

    @property
    def dispatches(self) -> Pass:
        """Return what computes the call."""
        assert self.program is not None
        return self.program.dispatches

    def drop(self, reason: str) -> None:
        """Take it out: it cannot be chosen."""
        self.end()
        self.dropped = reason

    def end(self) -> None:
        """Free what it has on the device."""
        if self.program is not None:
            self.program.close()
            self.program = None


class Bench:
    """Measures candidates on a device. `method`: see Stopwatch. limit: bytes that gpunn may have there."""

    def __init__(self, device: Device, limit: int | None = None) -> None:
        self._device = device
        self._limit = limit
        self._stopwatch = Stopwatch(device)
        self._warming = FIRST_WARMING
        self._budget = BUDGET
        self.method = self._stopwatch.method
        # What hardware repeats, it has the code and the operands of in near caches, as no network has.
        self._singly = self.method == "timestamps" and not device.properties.software

    def prepare(self, calls: Iterable[tuple[Operation, Sequence[Candidate]]]) -> None:
        """Make all pipelines of operations and their candidates, so that measurements follow one another.

        Also divide the time for these among the operations.
        """
        calls = tuple(calls)
        self._budget = min(BUDGET, BUDGET_OF_ALL / max(len(calls), 1))
        kernels = ((k, operation) for operation, found in calls for c in found for k in c.kernels)
        self._device.prepare(self._key(kernel, operation) for kernel, operation in kernels)

    def record(self, operation: Operation, candidates: Sequence[Candidate]) -> tuple[Record, bool] | None:
        """Choose among the candidates of an operation; also tell whether it would be the same next time.

        That is not so where memory ran out. None if none of them can be chosen. Raises DeviceError if the
        device is lost.
        """
        data = _Data.of(operation)
        trials = [_Trial(candidate) for candidate in candidates]
        with ExitStack() as stack:
            for trial in trials:
                stack.callback(trial.end)
            certain = self._time(data, trials)
            chosen = self._choose(data, trials)
        if chosen is None:
            return None
        seconds, dropped = tuple(t.seconds for t in trials), tuple(t.dropped for t in trials)
        return Record(chosen, seconds, dropped), certain

    @property
    def compares(self) -> bool:
        """Tell whether it compares plans: on hardware with timestamps, and without a limit of memory.

        There a kernel takes another time in a network than alone: its operands are in other caches, and its
        instructions are there already where the one before has the same.
        """
        return self._singly and self._limit is None

    def compare(self, plans: Sequence[Plan]) -> tuple[float, ...] | None:
        """Return the least seconds of all dispatches of each plan, one behind the other.

        None if there is no room for all of them, if the driver rejects a shader, or if a run takes over a
        second. Raises DeviceError if the device is lost.
        """
        trials = [_Trial(Candidate([], "")) for _ in plans]
        with ExitStack() as stack:
            for trial, plan in zip(trials, plans, strict=True):
                check()
                stack.callback(trial.end)
                try:
                    trial.program = WebGpuProgram(plan, self._device, 1)
                    (trial.once,) = self._passes([trial.dispatches])
                except DeviceError:
                    check()  # of which the error may be
                    self._device.check_usable()
                    return None
                if trial.once > TOO_LONG:
                    return None
            self._warm(trials[0])
            self._compete(trials)
            return tuple(trial.seconds or 0.0 for trial in trials)

    def _time(self, data: _Data, trials: Sequence[_Trial]) -> bool:
        """Time candidates; return whether all that were dropped would be dropped again."""
        certain = True
        for trial in trials:
            check()
            try:
                for kernel in trial.candidate.kernels:
                    self._device.pipeline(self._key(kernel, data.operation))
            except DeviceError as error:
                self._drop(trial, error)
                continue
            try:
                self._begin(data, trial)
            except DeviceError as error:
                self._drop(trial, error)
                certain = False
                continue
            if trial.once is not None and trial.once > TOO_LONG:
                break
        if self._device.properties.software:  # whose clock is the same from the first measurement on
            least = min((t.seconds or 0.0 for t in trials if t.running), default=0.0)
            _end_above(max(FAR * least, LONG), trials)
        running = [t for t in trials if t.running]
        if len(running) > 1:
            self._warm(running[0])
            self._compete(running)
        best = min((t for t in trials if t.running), key=lambda t: t.seconds or 0.0, default=None)
        if best is not None and best is not trials[0] and trials[0].running:
            self._compete([trials[0], best])  # a second time, which must not be another accident
        return certain

    def _key(self, kernel: Kernel, operation: Operation) -> ShaderKey:
        """Return the key of a pipeline, as Resources has it for an operation alone."""
        return key_of(kernel, operation, not self._device.properties.software and self._limit is None)

    def _warm(self, trial: _Trial) -> None:
        """Have hardware compute a candidate for a while."""
        if self._device.properties.software:
            return
        once = max(trial.seconds or 0.0, PASS_SECONDS / MOST_REPEATS)
        repeats = max(1, min(WARMING_REPEATS, int(SUBMISSION / once)))
        device, dispatches = self._device, tuple(trial.dispatches) * repeats
        end, before = time.perf_counter() + self._warming, -1
        with holding(device.lock), DeviceErrors(device):
            while time.perf_counter() < end:
                check()
                number = submit(device.wgpu, dispatches, ())
                if before >= 0:  # one is computed while the next one is recorded
                    await_submission(device.wgpu, before, device.turn)
                before = number
            if before >= 0:
                await_submission(device.wgpu, before, device.turn)
        self._warming = WARMING

    def _drop(self, trial: _Trial, error: Exception) -> None:
        check()  # of which the error may be
        self._device.check_usable()
        trial.drop(str(error))

    def _begin(self, data: _Data, trial: _Trial) -> None:
        """Make a candidate ready, compute its results, and time it."""
        placement = Placement(data.operation, DEVICE, kernels=tuple(trial.candidate.kernels))
        plan = make_plan(data.model, [placement])
        trial.program = WebGpuProgram(plan, self._device, 1, limit=self._limit)
        trial.results = trial.program.run(data.inputs)
        (seconds,) = self._passes([trial.dispatches])
        trial.once = seconds or None  # 0: the device's clock was set back, or the host's was disturbed

    def _compete(self, trials: Sequence[_Trial]) -> None:
        """Time candidates in turn, so that what disturbs the machine disturbs all; end those without hope."""
        running, began, rounds = list(trials), time.perf_counter(), 0
        fit = int(self._budget / max(sum(t.seconds or 0.0 for t in trials), PASS_SECONDS))
        least = max(FEW_ROUNDS, min(ROUNDS, fit))
        while len(running) > 1 and (rounds < least or not all(t.settled for t in running)):
            check()
            rounds += self._rounds(running)
            if rounds < least:
                continue
            best = min(t.seconds or 0.0 for t in running)
            _end_above(HOPELESS * best, [t for t in running if t.settled])
            running = [t for t in running if t.running]
            if time.perf_counter() - began > self._budget:
                break

    def _rounds(self, trials: Sequence[_Trial]) -> int:
        """Time candidates in one submission, for some rounds; return how many these were.

        Where hardware has timestamps, candidates alternate between all repetitions.
        """
        least = [t.seconds or 0.0 for t in trials]
        repeats = math.ceil(PASS_SECONDS / max(min(least), PASS_SECONDS / MOST_REPEATS))
        count = max(1, min(AT_ONCE, int(SUBMISSION / max(sum(least) * repeats, PASS_SECONDS))))
        passes = 1 if self._singly else repeats  # repetitions in a pass
        turns = [tuple(t.dispatches) * passes for t in trials] * (count * repeats // passes)
        found = np.reshape(self._passes(turns), (count, -1, len(trials)))
        for trial, times in zip(trials, np.moveaxis(found, 2, 0), strict=True):
            trial.times += [float(some.sum()) / repeats for some in times if some.all()]
        return count

    def _passes(self, passes: Sequence[Pass]) -> list[float]:
        with holding(self._device.lock), DeviceErrors(self._device):
            return [seconds for _, seconds in self._stopwatch.times(passes)]

    def _choose(self, data: _Data, trials: Sequence[_Trial]) -> int | None:
        """Return the place of the quickest candidate whose results are right; None if there is none.

        The first one is what all others run without a question, apart from loops, so it is not asked either.
        """
        timed = [k for k, trial in enumerate(trials) if trial.seconds is not None and not trial.dropped]
        order = sorted(timed, key=lambda k: (trials[k].seconds or 0.0) / (MARGIN if k else 1.0))
        for k in order:
            reason = "" if k == 0 else data.objection(trials[k].results, trials[k].candidate)
            if not reason:
                return k
            trials[k].drop(reason)
        return None


def _end_above(seconds: float, trials: Iterable[_Trial]) -> None:
    """End trials that take longer than so many seconds; their times remain."""
    for trial in trials:
        if (trial.seconds or 0.0) > seconds:
            trial.end()
