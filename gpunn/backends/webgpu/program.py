"""A plan on a device: frozen lists of (pipeline, bind group, grid); a run encodes, submits, reads back."""

from __future__ import annotations

import struct
import threading
import time
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import wgpu

from gpunn.backends.base import Stats, Trace
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.held import Held, Shelter
from gpunn.backends.webgpu.memory import (
    Constant,
    arena_buffer,
    as_words,
    padded,
    staging_buffer,
    uniform_buffer,
)
from gpunn.backends.webgpu.native import Copy, Dispatch, MappedRead, submit
from gpunn.backends.webgpu.recorder import Recorder
from gpunn.backends.webgpu.run import Run, Stage
from gpunn.backends.webgpu.shader import key_of, ordered_params, source, target
from gpunn.errors import DeviceError
from gpunn.kernel import Kernel, Note, Read, Scratch, ceil_div
from gpunn.operation import Operand, Operation
from gpunn.plan import Interval, Plan, Slot, assign, device_intervals
from gpunn.types import Array


class WebGpuProgram:
    """A plan built for a device; `frames` runs may be in flight at once."""

    def __init__(self, plan: Plan, device: Device, frames: int) -> None:
        self.stats = Stats()
        self.device = device
        self.plan = plan
        self._lock = threading.RLock()
        self._constants: list[Constant] = []
        self._buffers: list[Any] = []
        self._arenas: list[Any] = []
        self._slots: dict[Operand | Scratch, Slot] = {}
        self._late_updates: tuple[Copy, ...] = ()
        self._shelter = Shelter(device, self.stats, self._device_errors)
        self._in_flight: deque[Run] = deque()
        self._closed = False
        before = device.pipeline_count
        with self._freed_on_error():
            self._lay_out_memory()
            self._stages = self._build_stages()
            self._free = self._make_ring(frames)
            self.reset_state()
        # Runs are submitted up to the last device stage; the host's work after it is done when the result is
        # taken, and then must not depend on the caller's arrays any more.
        self._split = max((i + 1 for i, s in enumerate(self._stages) if s.on_device), default=0)
        self._late_inputs = self._split < len(self._stages) or not set(plan.model.inputs).isdisjoint(
            plan.root(o) for o in plan.model.outputs
        )
        self.stats.pipelines = device.pipeline_count - before
        self.constants: Mapping[Hashable, int] = {c.key: c.nbytes for c in self._constants}
        self.stats.resident_bytes = sum(self.constants.values())

    # ---- building

    def _lay_out_memory(self) -> None:
        """Give every tensor that lives on the device a slot, variables apart from what a run writes."""
        intervals = device_intervals(self.plan, _device_bytes)
        self.stats.arena_bytes, self.stats.peak_live_bytes = self._allocate(intervals)
        states = {v: Interval(_device_bytes(v), 0, 0) for v in self.plan.resident}
        self.stats.state_bytes, _ = self._allocate(states)

    def _allocate(
        self, intervals: Mapping[Operand, Interval] | Mapping[Operand | Scratch, Interval]
    ) -> tuple[int, int]:
        """Make arenas for tensors; their bytes, and the most that is alive at a time."""
        arenas = assign(
            list(intervals.values()),
            self.device.limit("min-storage-buffer-offset-alignment"),
            self.device.limit("max-buffer-size"),
        )
        first = len(self._arenas)
        for operand, slot in zip(intervals, arenas.slots, strict=True):
            self._slots[operand] = Slot(first + slot.arena, slot.offset)
        self._arenas += [self._keep(arena_buffer(self.device, size)) for size in arenas.sizes]
        return sum(padded(size) for size in arenas.sizes), arenas.peak_live_bytes

    def _keep(self, buffer: Any) -> Any:
        """Note a buffer that goes with this program."""
        self._buffers.append(buffer)
        self.stats.buffers += 1
        return buffer

    def _build_stages(self) -> list[Stage]:
        recipes = [
            [(p.operation, k) for p in segment.placements for k in p.kernels if 0 not in k.groups]
            for segment in self.plan.segments
        ]
        self._params, offsets = self._upload_params([k for recipe in recipes for _, k in recipe])
        stages: list[Stage] = []
        for segment, recipe in zip(self.plan.segments, recipes, strict=True):
            dispatches = tuple(self._dispatch(operation, k, next(offsets)) for operation, k in recipe)
            readbacks = tuple(_packed(segment.readbacks))
            stages.append(Stage(segment, dispatches, (), readbacks, tuple(recipe)))
        targets = ((o, self._slots[v]) for v, o in self.plan.device_updates.items())
        updates = tuple(self._copy(o, self._arenas[slot.arena], slot.offset) for o, slot in targets)
        if stages and stages[-1].on_device and not any(s.notes for s in self.plan.segments):
            stages[-1] = replace(stages[-1], updates=updates)
        else:  # the host may still fail, or refuse a value, which must leave the state as it is
            self._late_updates = updates
        return stages

    def _copy(self, tensor: Operand | Scratch, target: Any, offset: int) -> Copy:
        slot = self._slots[tensor]
        return Copy(self._arenas[slot.arena], slot.offset, target, offset, _device_bytes(tensor))

    def _upload_params(self, kernels: list[Kernel]) -> tuple[Any, Iterator[tuple[int, int]]]:
        """All kernels' parameter blocks in one uniform buffer, and each block's offset and size."""
        alignment = self.device.limit("min-uniform-buffer-offset-alignment")
        data = bytearray()
        places: list[tuple[int, int]] = []
        for kernel in kernels:
            block = _param_block(kernel)
            data.extend(bytes(-len(data) % alignment))
            places.append((len(data), len(block)))
            data.extend(block)
        return self._keep(uniform_buffer(self.device, bytes(data))), iter(places)

    def _dispatch(self, operation: Operation, kernel: Kernel, params: tuple[int, int]) -> Dispatch:
        key = key_of(kernel, operation)
        pipeline, layout = self.device.pipeline(key)
        resources = [self._resource(operation, r) for r in kernel.reads if r.present]
        resources += [self._tensor(target(w, operation)) for w in kernel.writes]
        if kernel.params:
            resources.append({"buffer": self._params, "offset": params[0], "size": params[1]})
        group = self.device.wgpu.create_bind_group(
            layout=layout, entries=[{"binding": i, "resource": r} for i, r in enumerate(resources)]
        )
        self.stats.bind_groups += 1
        return Dispatch(pipeline, group, kernel.groups)

    def _resource(self, operation: Operation, read: Read) -> dict[str, Any]:
        """What is bound for an operand: its place in an arena, or a constant."""
        operand = source(read, operation)
        if isinstance(operand, Scratch) or (operand is not None and operand.value is None):
            return self._tensor(operand)
        others = (operation.inputs[k] if k < len(operation.inputs) else None for k in read.also)
        used = () if operand is None else (operand, *others)
        values = [None if o is None else o.value for o in used] or [read.value]
        what = f"a constant of {operation.op} ({operation.origin})"
        constant, uploaded = self.device.constants.acquire(values, read.pack, what)
        self._constants.append(constant)
        self.stats.constant_uploads += uploaded
        return {"buffer": constant.buffer, "offset": 0, "size": constant.nbytes}

    def _tensor(self, tensor: Operand | Scratch) -> dict[str, Any]:
        root = tensor if isinstance(tensor, Scratch) else self.plan.root(tensor)
        slot = self._slots[root]
        return {"buffer": self._arenas[slot.arena], "offset": slot.offset, "size": _device_bytes(root)}

    def _make_ring(self, frames: int) -> deque[Any]:
        """Staging buffers for as many runs as may be in flight, each with room for any stage's read-backs."""
        size = max((_staging_size(stage) for stage in self._stages), default=0)
        ring = [self._keep(staging_buffer(self.device, size)) for _ in range(frames if size else 0)]
        self.stats.staging_bytes = len(ring) * padded(size)
        return deque(ring)

    @contextmanager
    def _freed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    # ---- running

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
        for constant in self._constants:
            self.device.constants.release(constant)
        for buffer in self._buffers:
            buffer.destroy()
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
        if self._late_updates or self.plan.host_updates:
            self._finish(run)
        self.stats.runs += 1
        return run

    def _finish(self, run: Run) -> None:
        """Bring a run to its end, so that the next one finds the state that it leaves."""
        run.result()
        if self._late_updates:
            with self.device.lock, self._device_errors():
                submit(self.device.wgpu, (), self._late_updates)
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
            copies = [self._copy(self.plan.root(o), place.buffer, 0) for o, place in held.items()]
            copies += stage.updates
            copies += (self._copy(operand, staging, offset) for operand, offset in stage.readbacks)
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
            slot = self._slots[operand]
            yield Copy(value.buffer, 0, self._arenas[slot.arena], slot.offset, _device_bytes(operand))
            return
        self._write(operand, value)
        self.stats.bytes_uploaded += value.nbytes

    def _write(self, operand: Operand, value: Array) -> None:
        slot, data = self._slots[operand], as_words(value)
        if data.nbytes:
            self.device.wgpu.queue.write_buffer(self._arenas[slot.arena], slot.offset, data)

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


def _device_bytes(tensor: Operand | Scratch) -> int:
    return padded(tensor.type.nbytes)


def _packed(tensors: Sequence[Operand | Note]) -> Iterator[tuple[Operand | Note, int]]:
    """Tensors one behind another, each with its byte offset."""
    offset = 0
    for tensor in tensors:
        yield tensor, offset
        offset += _device_bytes(tensor)


def _staging_size(stage: Stage) -> int:
    return sum(_device_bytes(o) for o, _ in stage.readbacks)


def _param_block(kernel: Kernel) -> bytes:
    """`struct P` in bytes: little-endian 32-bit words, filled up to 16."""
    block = b""
    for name, value in ordered_params(kernel):
        if isinstance(value, tuple):
            block += struct.pack("<4i" if len(value) == 4 else "<2I", *value)
        elif isinstance(value, float):
            block += struct.pack("<f", value)
        elif 0 <= value < 2**32:
            block += struct.pack("<I", value)
        else:
            raise DeviceError(f"parameter {name} of {kernel.body} does not fit 32 bits: {value}")
    return block + bytes(ceil_div(len(block), 16) * 16 - len(block))
