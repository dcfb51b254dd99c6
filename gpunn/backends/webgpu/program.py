"""WebGpuProgram: a plan on a device, its runs in flight and its state.

Pipelines, bind groups and grids are made once; a run encodes, submits and reads back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence

from gpunn.backends.base import Stats, Trace, copied
from gpunn.backends.interrupt import check, holding
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.executor import Executor
from gpunn.backends.webgpu.held import Held
from gpunn.backends.webgpu.recorder import Recorder
from gpunn.backends.webgpu.run import Run
from gpunn.errors import DeviceError
from gpunn.planning.plan import Plan
from gpunn.types import Array


class WebGpuProgram:
    """A plan built for a device; `frames` runs may be in flight at once.

    Large products on the host use so many threads; None: as numpy does.
    """

    def __init__(self, plan: Plan, device: Device, frames: int, threads: int | None = None) -> None:
        if device.forked:
            device.check_usable()
        self.stats = Stats()
        self.device = device
        self.plan = plan
        self._executor = Executor(plan, device, self.stats, threads)
        self._lock = self._executor.lock
        self._in_flight: deque[Run] = deque()
        self._closed = False
        try:
            self._executor.make_ring(frames)
            self.reset_state()
        except BaseException:
            self.close()
            raise
        # Runs are submitted up to the last device stage; the host's work after it is done when the result is
        # taken, and then must not depend on the caller's arrays any more.
        stages, split = self._executor.stages, self._executor.device_stages
        self._submitted, self._late = stages[:split], stages[split:]
        self._late_inputs = bool(self._late) or not set(plan.model.inputs).isdisjoint(
            plan.root(o) for o in plan.model.outputs
        )

    @property
    def constants(self) -> Mapping[Hashable, int]:
        """Return the bytes of each constant."""
        return self._executor.constants

    def submit(self, inputs: Sequence[Array]) -> Run:
        while True:
            self._check_usable()  # before the lock: another thread may have held it at a fork
            with holding(self._lock):
                self._check_usable()
                if self._executor.has_room or not self._in_flight:
                    return self._start(inputs)
                oldest = self._in_flight[0]
            oldest.settle()

    def run(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        return self.submit(inputs).result()

    def repeat(self, inputs: Sequence[Array], rounds: int) -> tuple[Array, ...]:
        results = tuple(inputs)
        for _ in range(rounds):
            check()
            results = self.run(results)
        return results

    def reset_state(self) -> None:
        self._check_usable()
        with self._lock:
            self._check_usable()
            self._state = dict(self.plan.model.variables)
            self._executor.set_variables({v: self._state.pop(v) for v in self.plan.resident})

    def cancel(self) -> None:
        """Cancel nothing: submitted runs have begun."""

    def close(self) -> None:
        if self.device.forked:
            self._closed = True
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            under_way = list(self._in_flight)
        for run in under_way:
            run.settle()
        self._executor.close()

    def _check_usable(self) -> None:
        if self._closed:
            raise DeviceError("this compilation has been closed")
        self.device.check_usable()

    def trace(self, inputs: Sequence[Array]) -> Trace:
        self._check_usable()
        recorder = Recorder(self.device)
        with self._lock:
            self._check_usable()
            run = self._start(inputs, recorder)
        outputs = run.result()
        return Trace(tuple(recorder.spans), recorder.method, outputs)

    def _start(self, inputs: Sequence[Array], recorder: Recorder | None = None) -> Run:
        """Run all stages up to the last one on the device, which is only submitted."""
        late = self._late_inputs
        kept = (copied(x) if late and not isinstance(x, Held) else x for x in inputs)
        values = {**self._state, **dict(zip(self.plan.model.inputs, kept, strict=True))}
        run = Run(self._executor, self._in_flight, values, self._late, recorder)
        for stage in self._submitted:
            run.launch(stage)
            if stage is self._submitted[-1] or not run.settle():
                break
        if self._executor.has_late_updates or self.plan.host_updates:
            self._finish(run)
        self.stats.runs += 1
        return run

    def _finish(self, run: Run) -> None:
        """Finish a run, so that the next one finds the state that it leaves."""
        run.result()
        if self._executor.has_late_updates:
            self._executor.update_variables()
        self._state.update(run.state)
