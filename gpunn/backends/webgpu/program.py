"""A plan on a device: frozen lists of (pipeline, bind group, grid); a run encodes, submits, reads back."""

from __future__ import annotations

import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import wgpu

from gpunn.backends.base import Stats
from gpunn.backends.cpu import run_placements
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.memory import (
    Constant,
    arena_buffer,
    as_words,
    padded,
    staging_buffer,
    uniform_buffer,
)
from gpunn.backends.webgpu.native import MAP_READ, Dispatch, drive, record
from gpunn.backends.webgpu.shader import key_of, ordered_params
from gpunn.errors import DeviceError
from gpunn.kernel import Kernel, Read, ceil_div
from gpunn.model import Operand, Operation
from gpunn.passes.partition import DEVICE
from gpunn.plan import Plan, Segment, Slot, assign, device_intervals
from gpunn.types import Array


@dataclass(frozen=True, slots=True)
class Stage:
    """A segment made ready: host operations, or uploads, dispatches and read-backs.

    `readbacks` pairs operands with their byte offset in the staging buffer.
    """

    segment: Segment
    dispatches: tuple[Dispatch, ...] = ()
    readbacks: tuple[tuple[Operand, int], ...] = ()

    @property
    def on_device(self) -> bool:
        """Whether the segment runs on the device."""
        return self.segment.backend == DEVICE


class WebGpuProgram:
    """A plan built for a device; `frames` runs may be in flight at once.

    With `prompt` a run waits by driving the device from the calling thread, which saves the hand-over
    between threads; without, it sleeps in the operating system until the device has signalled.
    """

    def __init__(self, plan: Plan, device: Device, frames: int, prompt: bool) -> None:
        self.stats = Stats()
        self.device = device
        self._plan = plan
        self._prompt = prompt
        self._lock = threading.RLock()
        self._constants: list[Constant] = []
        self._closed = False
        before = device.pipeline_count
        self._lay_out_memory()
        with self._freed_on_error():
            self._stages = self._build_stages()
            self._make_ring(frames)
        self._last_device = max((i for i, s in enumerate(self._stages) if s.on_device), default=-1)
        self.stats.pipelines = device.pipeline_count - before
        self.stats.resident_bytes = sum({id(c): c.nbytes for c in self._constants}.values())

    # ---- building

    def _lay_out_memory(self) -> None:
        """Give every tensor that lives on the device a slot in an arena."""
        plan = self._plan
        intervals = device_intervals(plan, lambda operand: padded(operand.type.nbytes))
        arenas = assign(
            list(intervals.values()),
            self.device.limit("min-storage-buffer-offset-alignment"),
            self.device.limit("max-buffer-size"),
        )
        self._slots: dict[Operand, Slot] = dict(zip(intervals, arenas.slots, strict=True))
        self._arenas = [arena_buffer(self.device, size) for size in arenas.sizes]
        self.stats.arena_bytes = sum(padded(size) for size in arenas.sizes)
        self.stats.peak_live_bytes = arenas.peak_live_bytes
        self.stats.buffers += len(self._arenas)

    def _build_stages(self) -> list[Stage]:
        recipes = [
            [(p.operation, k) for p in segment.placements for k in p.kernels if 0 not in k.groups]
            for segment in self._plan.segments
        ]
        self._params, offsets = self._upload_params([k for recipe in recipes for _, k in recipe])
        stages: list[Stage] = []
        for segment, recipe in zip(self._plan.segments, recipes, strict=True):
            dispatches = tuple(self._dispatch(operation, k, next(offsets)) for operation, k in recipe)
            stages.append(Stage(segment, dispatches, tuple(_packed(segment.readbacks))))
        return stages

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
        self.stats.buffers += 1
        return uniform_buffer(self.device, bytes(data)), iter(places)

    def _dispatch(self, operation: Operation, kernel: Kernel, params: tuple[int, int]) -> Dispatch:
        key = key_of(kernel, operation)
        pipeline, layout = self.device.pipeline(key)
        resources = [self._resource(operation, r) for r in kernel.reads if r.present]
        resources += [self._tensor(operation.outputs[w.output]) for w in kernel.writes]
        if kernel.params:
            resources.append({"buffer": self._params, "offset": params[0], "size": params[1]})
        group = self.device.wgpu.create_bind_group(
            layout=layout, entries=[{"binding": i, "resource": r} for i, r in enumerate(resources)]
        )
        self.stats.bind_groups += 1
        return Dispatch(pipeline, group, kernel.groups)

    def _resource(self, operation: Operation, read: Read) -> dict[str, Any]:
        """What is bound for an operand: its place in an arena, or a constant."""
        operand = None if read.operand is None else operation.inputs[read.operand]
        if operand is not None and operand.value is None:
            return self._tensor(operand)
        others = (operation.inputs[k] if k < len(operation.inputs) else None for k in read.also)
        used = () if operand is None else (operand, *others)
        values = [None if o is None else o.value for o in used] or [read.value]
        what = f"a constant of {operation.op} ({operation.origin})"
        constant, uploaded = self.device.constants.acquire(values, read.pack, what)
        self._constants.append(constant)
        self.stats.constant_uploads += uploaded
        return {"buffer": constant.buffer, "offset": 0, "size": constant.nbytes}

    def _tensor(self, operand: Operand) -> dict[str, Any]:
        root = self._plan.root(operand)
        slot = self._slots[root]
        return {"buffer": self._arenas[slot.arena], "offset": slot.offset, "size": padded(root.type.nbytes)}

    def _make_ring(self, frames: int) -> None:
        size = max((_staging_size(stage) for stage in self._stages), default=0)
        self._free: deque[Any] = deque(
            staging_buffer(self.device, size) for _ in range(frames if size else 0)
        )
        self._in_flight: deque[_Run] = deque()
        self.stats.staging_bytes = len(self._free) * padded(size)
        self.stats.buffers += len(self._free)

    @contextmanager
    def _freed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    # ---- running

    def submit(self, inputs: Sequence[Array]) -> _Run:
        with self._lock:
            if self._closed:
                raise DeviceError("this compilation has been closed")
            if self.device.lost:
                raise DeviceError(f"the device {self.device.info.name!r} was lost; compile the model again")
            while self._in_flight and not self._free:
                self._in_flight[0].result()
            run = _Run(self, dict(zip(self._plan.model.inputs, inputs, strict=True)))
            for stage in self._stages[: self._last_device]:
                run.advance(stage)
            if self._last_device >= 0:
                run.launch(self._stages[self._last_device])
            self.stats.runs += 1
            return run

    def run(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        return self.submit(inputs).result()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            for run in list(getattr(self, "_in_flight", ())):
                run.result()
            self._closed = True
            for constant in self._constants:
                self.device.constants.release(constant)
            for buffer in (
                *self._arenas,
                *getattr(self, "_free", ()),
                *filter(None, [getattr(self, "_params", None)]),
            ):
                buffer.destroy()

    def encode(self, stage: Stage, values: dict[Operand, Array], staging: Any) -> None:
        """Write a stage's uploads and submit its dispatches and the copies of its read-backs."""
        with self.device.lock, self._device_errors():
            start = time.perf_counter()
            queue = self.device.wgpu.queue
            for operand in stage.segment.uploads:
                slot = self._slots[operand]
                data = as_words(values[operand])
                if data.nbytes:
                    queue.write_buffer(self._arenas[slot.arena], slot.offset, data)
                self.stats.bytes_uploaded += values[operand].nbytes
            encoder = self.device.wgpu.create_command_encoder()
            if stage.dispatches:
                compute = encoder.begin_compute_pass()
                record(compute, stage.dispatches)
                compute.end()
            for operand, offset in stage.readbacks:
                slot = self._slots[operand]
                size = padded(operand.type.nbytes)
                encoder.copy_buffer_to_buffer(self._arenas[slot.arena], slot.offset, staging, offset, size)
            queue.submit([encoder.finish()])
            self.stats.dispatches += len(stage.dispatches)
            self.stats.submits += 1
            self.stats.host_seconds += time.perf_counter() - start

    def read(self, stage: Stage, staging: Any, mapping: Any, values: dict[Operand, Array]) -> None:
        """Wait for a mapping begun after encode() and copy the read-backs into `values`."""
        with self._device_errors():
            if self._prompt:
                drive(self.device.wgpu)
            mapping.sync_wait()
            memory = staging.read_mapped(copy=False)
            for operand, offset in stage.readbacks:
                type = operand.type
                view = np.frombuffer(memory, type.dtype.numpy, type.size, offset)
                values[operand] = view.reshape(type.shape).copy()
                self.stats.bytes_read_back += type.nbytes
                del view
            del memory
            staging.unmap()

    @contextmanager
    def _device_errors(self) -> Iterator[None]:
        try:
            yield
        except (wgpu.GPUError, RuntimeError) as error:
            if isinstance(error, DeviceError):
                raise
            self.device.lost = True
            raise DeviceError(f"the device {self.device.info.name!r} failed: {error}") from error


class _Run:
    """One inference on its way through the stages."""

    def __init__(self, program: WebGpuProgram, values: dict[Operand, Array]) -> None:
        self._program = program
        self._values = values
        self._finish: Callable[[], None] | None = None
        self._outputs: tuple[Array, ...] | None = None
        self._error: DeviceError | None = None

    def advance(self, stage: Stage) -> None:
        """Run a stage to its end."""
        if not stage.on_device:
            self._run_host(stage)
            return
        self.launch(stage)
        assert self._finish is not None
        self._finish()
        self._finish = None

    def launch(self, stage: Stage) -> None:
        """Submit a device stage; _finish completes it."""
        program = self._program
        if not stage.readbacks:
            program.encode(stage, self._values, None)
            self._finish = lambda: None
            return
        staging = program._free.popleft()
        program.encode(stage, self._values, staging)
        mapping = staging.map_async(MAP_READ)
        program._in_flight.append(self)

        def finish() -> None:
            try:
                program.read(stage, staging, mapping, self._values)
            finally:
                program._in_flight.remove(self)
                program._free.append(staging)

        self._finish = finish

    def _run_host(self, stage: Stage) -> None:
        for placement in stage.segment.placements:
            for operand in placement.operation.inputs:
                if operand is not None and operand.value is None:
                    self._values[operand] = self._value(operand)
        run_placements(stage.segment.placements, self._values)

    def _value(self, operand: Operand) -> Array:
        """What is known of an operand on the host, through its aliases."""
        if operand in self._values:
            return self._values[operand]
        if operand.value is not None:
            return operand.value
        return self._value(self._program._plan.root(operand)).reshape(operand.type.shape)

    def result(self) -> tuple[Array, ...]:
        """Wait for the end and return the outputs."""
        program = self._program
        with program._lock:
            if self._error is not None:
                raise self._error
            if self._outputs is None:
                try:
                    if self._finish is not None:
                        self._finish()
                except DeviceError as error:
                    self._error = error
                    raise
                for stage in program._stages[program._last_device + 1 :]:
                    self._run_host(stage)
                self._outputs = tuple(np.array(self._value(o)) for o in program._plan.model.outputs)
                self._values.clear()
            return self._outputs


def _packed(operands: Sequence[Operand]) -> Iterator[tuple[Operand, int]]:
    """Operands one behind another, each with its byte offset."""
    offset = 0
    for operand in operands:
        yield operand, offset
        offset += padded(operand.type.nbytes)


def _staging_size(stage: Stage) -> int:
    return sum(padded(o.type.nbytes) for o, _ in stage.readbacks)


def _param_block(kernel: Kernel) -> bytes:
    """`struct P` in bytes: little-endian 32-bit words, filled up to 16."""
    block = b""
    for name, value in ordered_params(kernel):
        if isinstance(value, tuple):
            block += struct.pack("<4i", *value)
        elif isinstance(value, float):
            block += struct.pack("<f", value)
        elif 0 <= value < 2**32:
            block += struct.pack("<I", value)
        else:
            raise DeviceError(f"parameter {name} of {kernel.body} does not fit 32 bits: {value}")
    return block + bytes(ceil_div(len(block), 16) * 16 - len(block))
