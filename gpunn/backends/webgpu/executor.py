"""Executor: submits the stages of a plan to a device, and reads back their results."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import wgpu

from gpunn.backends.base import Stats, copied
from gpunn.backends.blas import HostProducts
from gpunn.backends.interrupt import holding
from gpunn.backends.locks import make_lock
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.held import Held, Shelter, read_back
from gpunn.backends.webgpu.memory import WORD, as_words
from gpunn.backends.webgpu.native import Copy, Dispatch, MappedRead, record, submit, submit_recorded, write
from gpunn.backends.webgpu.recorder import Recorder
from gpunn.backends.webgpu.resources import Resources, device_bytes
from gpunn.backends.webgpu.ring import Owner, Slot
from gpunn.backends.webgpu.stage import Stage
from gpunn.errors import DeviceError
from gpunn.graph.operation import Operand
from gpunn.kernel import Note
from gpunn.planning.plan import Plan
from gpunn.types import Array

_AHEAD = 1024  # recorded dispatches that are kept for the next runs, about 4 KiB each


class Executor:
    """A plan on a device. Its users hold `lock` while they change shared data.

    `device_stages`: the number of stages up to the last one on the device. `products`: those on the host.
    `read_back`: what a run reads back from the device. `host_updates`: see Plan.
    """

    def __init__(
        self,
        plan: Plan,
        device: Device,
        stats: Stats,
        frames: int,
        threads: int | None = None,
        limit: int | None = None,
        apart: bool = False,
    ) -> None:
        """Make all that `frames` runs in flight need, and count it in `stats`. Raises DeviceError.

        threads: of large products on the host, None: as numpy does. limit, apart: see Resources.
        """
        self.plan = plan
        self.device = device
        self.stats = stats
        self.lock = make_lock()
        self._frames = frames
        with DeviceErrors(device, only_if_lost=True):
            self._resources = Resources(plan, device, stats, limit, apart)
        self.stages = self._resources.stages
        self._errors = DeviceErrors(device)
        tensors = (r.tensor for s in self.stages for r in s.readbacks)
        self.read_back = frozenset(t for t in tensors if isinstance(t, Operand))
        self.host_updates = plan.host_updates
        self._dispatches = max(1, sum(len(stage.dispatches) for stage in self.stages))
        on_host = (p.operation for s in self.stages if not s.on_device for p in s.segment.placements)
        self.products = HostProducts(on_host, threads)
        self.device_stages = max((i + 1 for i, s in enumerate(self.stages) if s.on_device), default=0)
        self._shelter = Shelter(device, self._resources, stats, partial(DeviceErrors, device))
        device.reclaimer.watch(self._shelter, self._resources.release)
        try:
            self.ring = self._resources.ring(frames)
        except BaseException:
            self.close()
            raise

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
        self._shelter.close()
        self._resources.release()

    def set_variables(self, values: Mapping[Operand, Array]) -> None:
        """Write variables that stay on the device. Raises DeviceError."""
        with holding(self.device.lock), DeviceErrors(self.device):
            for variable, value in values.items():
                self._write(*self._resources.place(variable), value)

    def read_variables(self) -> dict[Operand, Array]:
        """Read back variables that stay on the device. Raises DeviceError."""
        errors = partial(DeviceErrors, self.device)
        found = {}
        for variable in self.plan.resident:
            copy = partial(self._resources.copy, variable, offset=0)
            found[variable] = read_back(self.device, variable.type, copy, errors)
            self.stats.bytes_read_back += variable.type.nbytes
        return found

    def update_variables(self) -> None:
        """Give variables on the device the values that the run before has left for them."""
        with holding(self.device.lock), DeviceErrors(self.device):
            submit(self.device.wgpu, (), self._resources.late_updates)
            self.stats.submits += 1

    def encode(
        self,
        owner: Owner,
        stage: Stage,
        values: Mapping[Operand, Array],
        held: dict[Operand, Held],
        recorder: Recorder | None,
    ) -> Slot | None:
        """Submit a stage of a run: uploads, dispatches, copies to the slot that it gets.

        `held` receives what stays on the device for other programs.
        """
        alone = () if recorder is None else self._one_by_one(stage)
        with holding(self.device.lock), self._errors:
            slot = self.ring.take(owner) if stage.readbacks else None
            start = time.perf_counter()
            before = self._upload(stage, values)
            uploaded = time.perf_counter()
            if self.plan.held and self._is_last(stage):
                held.update((o, self._shelter.take(o.type)) for o in self.plan.held)
            if recorder is not None:
                recorder.host("upload", start)
                number = recorder.submit(stage, alone, self._all_copies(stage, slot, held), before)
            elif before or held:  # which differ from run to run
                copies = self._all_copies(stage, slot, held)
                number = submit(self.device.wgpu, stage.dispatches, copies, before)
            else:
                number = self._submit_recorded(stage, slot)
            submitted = time.perf_counter()
            if slot is not None:
                slot.mapping = MappedRead(self.device.wgpu, slot.buffer, number, self.device.turn)
            stats = self.stats
            stats.dispatches += len(stage.dispatches)
            stats.submits += 1
            stats.upload_seconds += uploaded - start
            stats.encode_seconds += submitted - uploaded
            return slot

    def _one_by_one(self, stage: Stage) -> Sequence[Dispatch]:
        """Return a dispatch for each kernel; their pipelines may be new, and take the device's lock."""
        with self._errors:
            return self._resources.one_by_one(stage)

    def record_ahead(self, stage: Stage, slot: Slot) -> None:
        """Record a stage of the next runs that get a slot, while the device computes.

        Nothing is recorded after a first run, which may be the only one, and for copies that differ from run
        to run. Raises DeviceError: a device that fails here is lost, and the results must not be read.
        """
        recordings = self._resources.recordings
        differ = self.plan.held and self._is_last(stage)
        if self.stats.runs > 1 and not differ and not recordings.has(stage, slot.buffer):
            with self._errors:
                record = partial(self._record, stage, slot)
                recordings.fill(stage, slot.buffer, record, self._most_ahead())

    def _most_ahead(self) -> int:
        """Return for how many runs that get a slot a stage may be recorded at once: one, or more on software.

        A software device computes on the host's cores, and after a run their caches hold nothing that a
        recording needs: it takes four times as long as another one right after it.
        """
        if not self.device.properties.software:
            return 1
        return max(1, _AHEAD // (self._frames * self._dispatches))

    def _submit_recorded(self, stage: Stage, slot: Slot | None) -> int:
        """Submit a stage as it is in every run; return the submission's number."""
        recordings = self._resources.recordings
        commands, seconds = recordings.take(stage, slot and slot.buffer)
        if commands is None:
            commands = self._record(stage, slot)
        try:
            self.stats.ahead_seconds += seconds
            return submit_recorded(self.device.wgpu, commands)
        finally:
            recordings.leave(commands)

    def _record(self, stage: Stage, slot: Slot | None) -> Any:
        return record(self.device.wgpu, stage.dispatches, self._copies(stage, slot))

    def _all_copies(self, stage: Stage, slot: Slot | None, held: Mapping[Operand, Held]) -> list[Copy]:
        """Return the copies behind the dispatches of a stage in this run: first those to what is held."""
        kept = (self._resources.copy(self.plan.root(o), place.buffer, 0) for o, place in held.items())
        return [*kept, *self._copies(stage, slot)]

    def _copies(self, stage: Stage, slot: Slot | None) -> tuple[Copy, ...]:
        """Return the copies that follow the dispatches of a stage in every run."""
        if slot is None:
            return stage.updates
        if id(stage) not in slot.copies:
            read = (self._resources.copy(r.tensor, slot.buffer, r.offset) for r in stage.readbacks)
            slot.copies[id(stage)] = (*stage.updates, *read)
        return slot.copies[id(stage)]

    def _is_last(self, stage: Stage) -> bool:
        """Tell whether this is the last stage on the device."""
        return stage is self.stages[self.device_stages - 1]

    def _upload(self, stage: Stage, values: Mapping[Operand, Array]) -> list[Copy]:
        """Write what a stage needs to its place; return the copies that do so on the device."""
        before: list[Copy] = []
        for operand, buffer, offset in stage.uploads:
            value = values[operand]
            if isinstance(value, Held):
                before.append(Copy(value.buffer, 0, buffer, offset, device_bytes(operand)))
            else:
                self._write(buffer, offset, value)
                self.stats.bytes_uploaded += value.nbytes
        return before

    def _write(self, buffer: Any, offset: int, value: Array) -> None:
        whole = value.nbytes % WORD == 0 and value.flags.c_contiguous
        data = value if whole else as_words(value)
        if data.nbytes:
            write(self.device.wgpu, buffer, offset, data)

    def read(self, stage: Stage, mapping: MappedRead, values: dict[Operand, Array]) -> None:
        """Wait for a mapping and copy the stage's read-backs into `values`; ModelError by what is noted."""
        notes: dict[Note, Array] = {}
        with self._errors:
            mapping.wait()
            self.device.check_usable()  # of a device that was destroyed meanwhile wgpu-native reads no buffer
            memory = mapping.memory()
            for tensor, offset, shape, dtype in stage.readbacks:
                found = copied(np.ndarray(shape, dtype, memory, offset))
                if isinstance(tensor, Note):
                    notes[tensor] = found
                else:
                    values[tensor] = found
        self.stats.bytes_read_back += stage.read_bytes
        for note, found in notes.items():
            note.judge(found)

    def take_back(self, slot: Slot) -> None:
        """Take back the slot of a stage that has been read, or has failed. Raises DeviceError."""
        with self._errors:
            self.ring.give_back(slot)


@dataclass(frozen=True, slots=True)
class DeviceErrors:
    """A context in which errors of a device become DeviceError; it may be entered again and again.

    After one the device passes for lost, or, with `only_if_lost`, if it does not answer.
    """

    device: Device
    only_if_lost: bool = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, (wgpu.GPUError, RuntimeError)) or isinstance(error, DeviceError):
            return
        device = self.device
        device.lost = not self.only_if_lost or not device.answers()
        raise DeviceError(f"the device {device.info.name!r} failed: {error}") from error
