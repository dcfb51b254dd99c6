"""A plan on a device: frozen lists of (pipeline, bind group, grid); a run encodes, submits, reads back."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import wgpu

from gpunn.backends.base import Stats, Trace
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.held import Held, Shelter
from gpunn.backends.webgpu.memory import as_words
from gpunn.backends.webgpu.native import Copy, MappedRead, submit
from gpunn.backends.webgpu.recorder import Recorder
from gpunn.backends.webgpu.resources import Resources, device_bytes
from gpunn.backends.webgpu.run import Run, Stage
from gpunn.errors import DeviceError
from gpunn.graph.operation import Operand
from gpunn.kernel import Note
from gpunn.planning.plan import Plan
from gpunn.types import Array


class WebGpuProgram:
    """A plan built for a device; `frames` runs may be in flight at once."""

    def __init__(self, plan: Plan, device: Device, frames: int) -> None:
        self.stats = Stats()
        self.device = device
        self.plan = plan
        self._lock = threading.RLock()
        self._resources = Resources(plan, device, self.stats)
        self._stages = self._resources.stages
        self._shelter = Shelter(device, self.stats, self._device_errors)
        self._in_flight: deque[Run] = deque()
        self._closed = False
        try:
            self._free = self._resources.ring(frames)
            self.reset_state()
        except BaseException:
            self.close()
            raise
        # Runs are submitted up to the last device stage; the host's work after it is done when the result is
        # taken, and then must not depend on the caller's arrays any more.
        self._split = max((i + 1 for i, s in enumerate(self._stages) if s.on_device), default=0)
        self._late_inputs = self._split < len(self._stages) or not set(plan.model.inputs).isdisjoint(
            plan.root(o) for o in plan.model.outputs
        )

    @property
    def constants(self) -> Mapping[Hashable, int]:
        """The bytes of each constant."""
        return self._resources.constants

    def submit(self, inputs: Sequence[Array]) -> Run:
        while True:
            with self._lock:
                self._check_usable()
                if self._free or not self._in_flight:
                    return self._start(inputs)
                oldest = self._in_flight[0]
            oldest.settle()

    def run(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        return self.submit(inputs).result()

    def reset_state(self) -> None:
        with self._lock:
            self._check_usable()
            self._state = dict(self.plan.model.variables)
            with self.device.lock, self._device_errors():
                for variable in self.plan.resident:
                    self._write(variable, self._state.pop(variable))

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            under_way = list(self._in_flight)
        for run in under_way:
            run.settle()
        self._resources.release()
        self._shelter.close()

    def _check_usable(self) -> None:
        if self._closed:
            raise DeviceError("this compilation has been closed")
        if self.device.lost:
            raise DeviceError(f"the device {self.device.info.name!r} was lost; compile the model again")

    def trace(self, inputs: Sequence[Array]) -> Trace:
        recorder = Recorder(self.device)
        with self._lock:
            self._check_usable()
            run = self._start(inputs, recorder)
        outputs = run.result()
        return Trace(tuple(recorder.spans), recorder.method, outputs)

    def _start(self, inputs: Sequence[Array], recorder: Recorder | None = None) -> Run:
        """Run all stages up to the last one on the device, which is only submitted."""
        late = self._late_inputs
        kept = (np.array(x) if late and not isinstance(x, Held) else x for x in inputs)
        values = {**self._state, **dict(zip(self.plan.model.inputs, kept, strict=True))}
        run = Run(self, values, self._stages[self._split :], recorder)
        for stage in self._stages[: self._split]:
            run.launch(stage)
            if stage is self._stages[self._split - 1] or not run.settle():
                break
        if self._resources.late_updates or self.plan.host_updates:
            self._finish(run)
        self.stats.runs += 1
        return run

    def _finish(self, run: Run) -> None:
        """Bring a run to its end, so that the next one finds the state that it leaves."""
        run.result()
        if self._resources.late_updates:
            with self.device.lock, self._device_errors():
                submit(self.device.wgpu, (), self._resources.late_updates)
                self.stats.submits += 1
        self._state.update(run.state)

    def encode(
        self,
        stage: Stage,
        values: Mapping[Operand, Array],
        held: dict[Operand, Held],
        recorder: Recorder | None,
    ) -> tuple[Any, MappedRead | None]:
        """Submit a stage: uploads, dispatches, copies to a staging buffer; that buffer and its mapping.

        `held` receives what stays on the device for other programs.
        """
        with self.device.lock, self._device_errors(), self._staging(stage) as staging:
            start = time.perf_counter()
            before = [copy for o in stage.segment.uploads for copy in self._bring(o, values[o])]
            uploaded = time.perf_counter()
            if stage is self._stages[self._split - 1]:
                held.update((o, self._shelter.take(o.type)) for o in self.plan.held)
            copies = [self._resources.copy(self.plan.root(o), place.buffer, 0) for o, place in held.items()]
            copies += stage.updates
            copies += (self._resources.copy(operand, staging, offset) for operand, offset in stage.readbacks)
            if recorder is not None:
                recorder.host("upload", start)
                number = recorder.submit(stage, copies, before)
            else:
                number = submit(self.device.wgpu, stage.dispatches, copies, before)
            submitted = time.perf_counter()
            mapping = MappedRead(self.device.wgpu, staging, number, self.device.turn) if staging else None
            self.stats.dispatches += len(stage.dispatches)
            self.stats.submits += 1
            self.stats.upload_seconds += uploaded - start
            self.stats.encode_seconds += submitted - uploaded
            return staging, mapping

    @contextmanager
    def _staging(self, stage: Stage) -> Iterator[Any]:
        """A staging buffer if the stage needs one, free again where an exception (Ctrl-C) stops its use."""
        staging = self._free.popleft() if stage.readbacks else None
        try:
            yield staging
        except BaseException:
            if staging is not None:
                self._free.append(staging)
            raise

    def _bring(self, operand: Operand, value: Array | Held) -> Iterator[Copy]:
        """Write an operand's value to its place, or give the copy that does so on the device."""
        if isinstance(value, Held):
            yield Copy(value.buffer, 0, *self._resources.place(operand), device_bytes(operand))
            return
        self._write(operand, value)
        self.stats.bytes_uploaded += value.nbytes

    def _write(self, operand: Operand, value: Array) -> None:
        data = as_words(value)
        if data.nbytes:
            self.device.wgpu.queue.write_buffer(*self._resources.place(operand), data)

    def read(self, stage: Stage, mapping: MappedRead, values: dict[Operand, Array]) -> None:
        """Wait for a mapping and copy the stage's read-backs into `values`; ModelError by what is noted."""
        notes: dict[Note, Array] = {}
        with self._device_errors():
            memory = mapping.wait()
            for tensor, offset in stage.readbacks:
                view = np.frombuffer(memory, tensor.type.dtype.numpy, tensor.type.size, offset)
                found = view.reshape(tensor.type.shape).copy()
                del view
                if isinstance(tensor, Note):
                    notes[tensor] = found
                else:
                    values[tensor] = found
            mapping.unmap()
        for note, found in notes.items():
            note.judge(found)

    def enter(self, run: Run) -> None:
        """Count a run as in flight."""
        with self._lock:
            self._in_flight.append(run)

    def leave(self, run: Run, stage: Stage, staging: Any) -> None:
        """Take a run and its staging buffer back."""
        with self._lock:
            self._in_flight.remove(run)
            self._free.append(staging)
            self.stats.bytes_read_back += sum(o.type.nbytes for o, _ in stage.readbacks)

    @contextmanager
    def _device_errors(self) -> Iterator[None]:
        try:
            yield
        except (wgpu.GPUError, RuntimeError) as error:
            if isinstance(error, DeviceError):
                raise
            self.device.lost = True
            raise DeviceError(f"the device {self.device.info.name!r} failed: {error}") from error
