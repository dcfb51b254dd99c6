"""Executor: submits the stages of a plan to a device, and reads back their results."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import wgpu

from gpunn.backends.base import Stats, copied
from gpunn.backends.blas import HostProducts
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.held import Held, Shelter
from gpunn.backends.webgpu.memory import as_words
from gpunn.backends.webgpu.native import Copy, MappedRead, submit
from gpunn.backends.webgpu.recorder import Recorder
from gpunn.backends.webgpu.resources import Resources, device_bytes
from gpunn.backends.webgpu.stage import Stage
from gpunn.errors import DeviceError
from gpunn.graph.operation import Operand
from gpunn.kernel import Note
from gpunn.planning.plan import Plan
from gpunn.types import Array


class Executor:
    """A plan on a device. Its users hold `lock` while they change shared data.

    `device_stages`: the number of stages up to the last one on the device. `products`: those on the host.
    """

    def __init__(self, plan: Plan, device: Device, stats: Stats, threads: int | None = None) -> None:
        """Make all but staging buffers, and count it in `stats`. Raises DeviceError.

        threads: of large products on the host, None: as numpy does.
        """
        self.plan = plan
        self.device = device
        self.stats = stats
        self.lock = threading.RLock()
        self._resources = Resources(plan, device, stats)
        self.stages = self._resources.stages
        on_host = (p.operation for s in self.stages if not s.on_device for p in s.segment.placements)
        self.products = HostProducts(on_host, threads)
        self.device_stages = max((i + 1 for i, s in enumerate(self.stages) if s.on_device), default=0)
        self._shelter = Shelter(device, stats, self._device_errors)
        self._free: deque[Any] = deque()

    def make_ring(self, frames: int) -> None:
        """Make the staging buffers of as many runs as may be in flight. Raises DeviceError."""
        self._free = self._resources.ring(frames)

    @property
    def has_room(self) -> bool:
        """Tell whether a staging buffer is free."""
        return bool(self._free)

    @property
    def has_late_updates(self) -> bool:
        """Tell whether variables on the device change only at the end of a run."""
        return bool(self._resources.late_updates)

    @property
    def constants(self) -> Mapping[Hashable, int]:
        """Return the bytes of each constant."""
        return self._resources.constants

    def close(self) -> None:
        """Free what the plan has on the device, apart from results that somebody still refers to."""
        self._resources.release()
        self._shelter.close()

    def set_variables(self, values: Mapping[Operand, Array]) -> None:
        """Write variables that stay on the device. Raises DeviceError."""
        with self.device.lock, self._device_errors():
            for variable, value in values.items():
                self._write(variable, value)

    def update_variables(self) -> None:
        """Give variables on the device the values that the run before has left for them."""
        with self.device.lock, self._device_errors():
            submit(self.device.wgpu, (), self._resources.late_updates)
            self.stats.submits += 1

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
            if stage is self.stages[self.device_stages - 1]:
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
        """Lend a staging buffer if the stage needs one; free it if an exception (Ctrl-C) stops its use."""
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
            try:
                for tensor, offset in stage.readbacks:
                    view = np.frombuffer(memory, tensor.type.dtype.numpy, tensor.type.size, offset)
                    found = copied(view.reshape(tensor.type.shape))
                    del view
                    if isinstance(tensor, Note):
                        notes[tensor] = found
                    else:
                        values[tensor] = found
            except DeviceError:  # no memory; Ctrl-C has the buffer read again
                mapping.unmap()
                raise
            mapping.unmap()
        for note, found in notes.items():
            note.judge(found)

    def take_back(self, stage: Stage, staging: Any) -> None:
        """Take back the staging buffer of a stage that has been read."""
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
