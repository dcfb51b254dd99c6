"""WebGpuProgram: a plan on a device, its runs in flight and its state.

Pipelines, bind groups and grids are made once; a run encodes, submits and reads back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import cast

from gpunn.backends.base import NO_VALUES, Stats, Trace, beginning, copied
from gpunn.backends.interrupt import check, check_not_reentered, holding
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.executor import DeviceErrors, Executor
from gpunn.backends.webgpu.held import Held
from gpunn.backends.webgpu.native import Dispatch
from gpunn.backends.webgpu.recorder import Recorder
from gpunn.backends.webgpu.run import Run
from gpunn.errors import DeviceError, OutOfMemoryError
from gpunn.graph.operation import Operand
from gpunn.kernel import Kernel
from gpunn.planning.plan import Plan
from gpunn.types import Array


class WebGpuProgram:
    """A plan built for a device; `frames` runs may be in flight at once.

    Large products on the host use so many threads; None: as numpy does. limit: bytes that gpunn may have
    on the device with it.
    """

    def __init__(
        self,
        plan: Plan,
        device: Device,
        frames: int,
        threads: int | None = None,
        limit: int | None = None,
    ) -> None:
        if device.forked:
            device.check_usable()
        device.collect()
        self.device = device
        self.plan = plan
        # Buffers that a dispatch only reads are quicker to read on hardware. They take more memory in all.
        apart = not device.properties.software and limit is None
        try:
            self._build(frames, threads, limit, apart)
        except OutOfMemoryError:
            if not apart:
                raise
            with DeviceErrors(device):
                device.drain()
            self._build(frames, threads, limit, apart=False)
        self._lock = self._executor.lock
        self._unfinished: Callable[[], None] | None = None  # a change of the state, until it is whole
        self._closed = False
        try:
            self._initialise()
        except BaseException:
            self.close()
            raise
        # Runs are submitted up to the last device stage; the host's work after it is done when the result is
        # taken, and then must not depend on the caller's arrays any more.
        stages, split = self._executor.stages, self._executor.device_stages
        self._submitted, self._late = stages[:split], stages[split:]
        self._late_state = bool(self._executor.has_late_updates or self._executor.host_updates)
        self._late_inputs = bool(self._late) or not set(plan.model.inputs).isdisjoint(
            plan.root(o) for o in plan.model.outputs
        )

    def _build(self, frames: int, threads: int | None, limit: int | None, apart: bool) -> None:
        """Make what the plan needs on the device, or nothing. Raises DeviceError."""
        self.stats = Stats()
        self._executor = Executor(self.plan, self.device, self.stats, frames, threads, limit, apart)

    @property
    def constants(self) -> Mapping[Hashable, int]:
        """Return the bytes of each constant."""
        return self._executor.constants

    @property
    def bundles(self) -> tuple[tuple[Kernel, ...], ...]:
        """Return the kernels of each bundle of a run, in their order."""
        return tuple(
            tuple(kernel for _, kernel in stage.dispatched[first:last])
            for stage in self._executor.stages
            for first, last in stage.bundles
        )

    @property
    def dispatches(self) -> tuple[Dispatch, ...]:
        """Return the dispatches of a run, in their order."""
        return tuple(dispatch for stage in self._executor.stages for dispatch in stage.dispatches)

    def submit(self, inputs: Sequence[Array]) -> Run:
        return self._begin(inputs)

    def _begin(self, inputs: Sequence[Array], recorder: Recorder | None = None) -> Run:
        """Start a run as soon as fewer are in flight than there may be."""
        while True:
            check()
            self.device.collect()
            self._check_usable()  # before the lock: another thread may have held it at a fork
            with holding(self._lock):
                self._check_usable()
                self._recover()
                in_flight = () if self._executor.ring.has_room else self._in_flight()
                if not in_flight:
                    return self._start(inputs, recorder)
                oldest = min(in_flight, key=lambda run: run.number)
            oldest.settle()

    def run(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        return self.submit(inputs).result()

    def repeat(self, inputs: Sequence[Array], rounds: int) -> tuple[Array, ...]:
        results = tuple(inputs)
        for _ in range(rounds):
            check()
            results = self.run(results)
        return results

    def reset_state(self, values: Mapping[str, Array] = NO_VALUES) -> None:
        self._check_usable()
        with holding(self._lock):
            self._check_usable()
            self._recover()
            self._change(partial(self._initialise, values))

    def state(self) -> Mapping[Operand, Array]:
        self._check_usable()
        with holding(self._lock):
            self._check_usable()
            self._recover()
            on_host = {variable: copied(value) for variable, value in self._state.items()}
            return {**on_host, **self._executor.read_variables()}

    def cancel(self) -> None:
        """Cancel nothing: submitted runs have begun."""

    def check_not_reentered(self) -> None:
        check_not_reentered(self._lock)
        for run in self._in_flight():
            run.check_not_reentered()

    def close(self) -> None:
        self._closed = True
        if self.device.forked:
            return
        with holding(self._lock):
            under_way = self._in_flight()
        for run in under_way:
            run.settle()
        self._executor.close()

    def _check_usable(self) -> None:
        if self._closed:
            raise DeviceError("this compilation has been closed")
        self.device.check_usable()

    def trace(self, inputs: Sequence[Array], whole: bool = False) -> Trace:
        self._check_usable()
        recorder = Recorder(self.device, whole)
        outputs = self._begin(inputs, recorder).result()
        return Trace(tuple(recorder.spans), recorder.method, outputs, recorder.device_seconds)

    def _in_flight(self) -> list[Run]:
        return [cast(Run, owner) for owner in self._executor.ring.owners()]

    def _recover(self) -> None:
        """Finish, or undo, what was interrupted while this lock was held."""
        self._executor.ring.reclaim()
        if self._unfinished is not None:
            self._change(self._unfinished)

    def _change(self, change: Callable[[], None]) -> None:
        """Change the state: at once, or, if that is interrupted, before the next run."""
        self._unfinished = change
        change()
        self._unfinished = None

    def _start(self, inputs: Sequence[Array], recorder: Recorder | None = None) -> Run:
        """Run all stages up to the last one on the device, which is only submitted."""
        late = self._late_inputs
        kept = (copied(x) if late and not isinstance(x, Held) else x for x in inputs)
        values = {**self._state, **dict(zip(self.plan.model.inputs, kept, strict=True))}
        run = Run(self._executor, values, self._late, recorder)
        for stage in self._submitted:
            run.launch(stage)
            if stage is self._submitted[-1] or not run.settle():
                break
        if self._late_state:
            run.result()  # so that the next run finds the state that this one leaves
            self._change(partial(self._update, run))
        self.stats.runs += 1
        return run

    def _initialise(self, values: Mapping[str, Array] = NO_VALUES) -> None:
        """Give variables their initial values, or those of `values`, by name."""
        state = beginning(self.plan.model.variables, values)
        self._executor.set_variables({v: state.pop(v) for v in self.plan.resident})
        self._state = state

    def _update(self, run: Run) -> None:
        """Give variables the values that a run has left for them."""
        if self._executor.has_late_updates:
            self._executor.update_variables()
        self._state.update(run.state)
