"""The time of each candidate of a call on a device, and whether its results are right."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from gpunn.backends.interrupt import check, holding
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.executor import DeviceErrors
from gpunn.backends.webgpu.program import WebGpuProgram
from gpunn.backends.webgpu.shader import key_of
from gpunn.backends.webgpu.stopwatch import Pass, Stopwatch
from gpunn.errors import DeviceError
from gpunn.graph.draw import drawn, drawn_range
from gpunn.graph.exact import evaluate, widen
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.tolerance import bounds, half_products
from gpunn.kernel import Candidate
from gpunn.passes.rewrite import single
from gpunn.planning.partition import DEVICE, Placement
from gpunn.planning.plan import make_plan
from gpunn.tuning.result import Record
from gpunn.types import Array

MARGIN = 0.95  # of the first candidate's time, which another one must stay below: clocks and loads vary
HOPELESS = 2.5  # times the best candidate: what is certainly slower is timed no further
# Seconds of the first candidate, from which on others are not tried: a driver may end what takes ten times as
# long, and the device with it.
TOO_LONG = 1.0
PASS_SECONDS = 2e-4  # of one measurement: shorter dispatches are repeated
MOST_REPEATS = 32
BUDGET = 0.3  # seconds for a competition of candidates, which has at least ROUNDS
ROUNDS = 6
AT_ONCE = 2  # rounds in a submission: several of these lie in different slices of time of a busy machine
AGREE = 1.03  # so near are the two least times of a candidate that is known well enough
SUBMISSION = 0.1  # seconds of a submission, about: nothing stops one


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
        values = {o: widen(x) for o, x in zip(self.model.inputs, self.inputs, strict=True)}
        results = evaluate(self.operation, values)
        wide = [None if o is None else _value(o, values) for o in self.operation.inputs]
        halves = any(kernel.halves for kernel in candidate.kernels)
        further = (partial(half_products, self.operation),) if halves else ()
        limits = bounds(self.operation, wide, results, *further)
        for exact, result, bound in zip(results, map(widen, found), limits, strict=True):
            with np.errstate(all="ignore"):
                error = np.abs(np.subtract(result, exact, dtype=np.result_type(exact, np.float64)))
                same = (result == exact) | (np.isnan(result) & np.isnan(exact))
                over = np.where(same, 0.0, np.nan_to_num(error, nan=np.inf)) - bound.limit
            if over.size and over.max() > 0:
                worst = int(over.argmax())
                allowed = float(np.broadcast_to(bound.limit, over.shape).flat[worst])
                return f"a result is off by {error.flat[worst]:.3g}, and {allowed:.3g} is allowed"
        return ""


def _value(operand: Operand, values: dict[Operand, Array]) -> Array:
    return values[operand] if operand.value is None else widen(operand.value)


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
        self.method = self._stopwatch.method

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

    def _time(self, data: _Data, trials: Sequence[_Trial]) -> bool:
        """Time candidates; return whether all that were dropped would be dropped again."""
        certain = True
        for trial in trials:
            check()
            try:
                for kernel in trial.candidate.kernels:
                    self._device.pipeline(key_of(kernel, data.operation))
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
        self._compete([t for t in trials if t.running])
        best = min((t for t in trials if t.running), key=lambda t: t.seconds or 0.0, default=None)
        if best is not None and best is not trials[0] and trials[0].running:
            self._compete([trials[0], best])  # a second time, which must not be another accident
        return certain

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
        while len(running) > 1 and (rounds < ROUNDS or not all(t.settled for t in running)):
            check()
            rounds += self._rounds(running)
            if rounds < ROUNDS:
                continue
            best = min(t.seconds or 0.0 for t in running)
            for trial in running:
                if trial.settled and (trial.seconds or 0.0) > HOPELESS * best:
                    trial.end()
            running = [t for t in running if t.running]
            if time.perf_counter() - began > BUDGET:
                break

    def _rounds(self, trials: Sequence[_Trial]) -> int:
        """Time candidates in one submission, for some rounds; return how many these were."""
        least = [t.seconds or 0.0 for t in trials]
        repeats = math.ceil(PASS_SECONDS / max(min(least), PASS_SECONDS / MOST_REPEATS))
        count = max(1, min(AT_ONCE, int(SUBMISSION / max(sum(least) * repeats, PASS_SECONDS))))
        found = self._passes([tuple(t.dispatches) * repeats for t in trials] * count)
        for trial, seconds in zip((*trials,) * count, found, strict=True):
            if seconds > 0:
                trial.times.append(seconds / repeats)
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
