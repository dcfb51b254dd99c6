"""The resources of a plan on a device, made once: arenas, constants, parameters, bind groups, staging
buffers.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from gpunn.backends.base import Stats
from gpunn.backends.interrupt import check, holding
from gpunn.backends.webgpu.apart import groups_apart, root_of, touched, within
from gpunn.backends.webgpu.bundle_writer import Bundle, Dispatched
from gpunn.backends.webgpu.bundles import bundled
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.memory import WORD, Constant, padded
from gpunn.backends.webgpu.native import Copy, Dispatch, await_submission, submit
from gpunn.backends.webgpu.params import param_block
from gpunn.backends.webgpu.recordings import Recordings
from gpunn.backends.webgpu.ring import Ring
from gpunn.backends.webgpu.shader import ShaderKey, key_of, source, target
from gpunn.backends.webgpu.stage import ReadBack, Stage, Upload
from gpunn.backends.webgpu.textures import Texels
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Note, Pack, Read, Scratch, Write
from gpunn.planning.arenas import Slot, assign
from gpunn.planning.liveness import Interval, device_intervals
from gpunn.planning.plan import Plan
from gpunn.types import Array


class Resources:
    """Buffers of a plan, its stages, and `late_updates`: copies that follow the host's part of a run."""

    def __init__(
        self, plan: Plan, device: Device, stats: Stats, limit: int | None = None, apart: bool = False
    ) -> None:
        """Make all but staging buffers, and count it in `stats`.

        limit: bytes that gpunn may have on the device with it. apart: dispatches read from other buffers
        than they write to.
        """
        self._memory = device.memory.within(limit)
        self._apart = apart
        self.stats = stats
        self.device = device
        self.plan = plan
        self._constants: list[Constant] = []
        self._buffers: dict[int, Any] = {}
        self._arenas: list[Any] = []
        self._slots: dict[Operand | Scratch, Slot] = {}
        self.late_updates: tuple[Copy, ...] = ()
        self.recordings = Recordings(device)
        self._one_by_one: dict[int, Sequence[Dispatch]] = {}
        self._begun: list[int] = []
        before = device.pipeline_count
        with self._freed_on_error(), self._pipelines_awaited():
            self._lay_out_memory()
            self.stages = self._build_stages()
        stats.pipelines = device.pipeline_count - before
        self.constants: Mapping[Hashable, int] = {c.key: c.nbytes for c in self._constants}
        stats.resident_bytes = sum(self.constants.values())

    def place(self, tensor: Operand | Scratch) -> tuple[Any, int]:
        """Return the buffer of a tensor, and the tensor's offset in it."""
        slot = self._slots[tensor]
        return self._arenas[slot.arena], slot.offset

    def copy(self, tensor: Operand | Scratch, target: Any, offset: int) -> Copy:
        """Make the copy of a tensor into a buffer."""
        return Copy(*self.place(tensor), target, offset, device_bytes(tensor))

    def one_by_one(self, stage: Stage) -> Sequence[Dispatch]:
        """Return a dispatch for each kernel of a stage; those of bundles are made when they are asked for."""
        if len(stage.dispatches) == len(stage.dispatched):
            return stage.dispatches
        if id(stage) not in self._one_by_one:
            with self._pipelines_awaited():
                made = self._dispatches(stage.dispatched)
            self._one_by_one[id(stage)] = [made[id(kernel)] for _, kernel in stage.dispatched]
        return self._one_by_one[id(stage)]

    def ring(self, frames: int) -> Ring:
        """Make staging buffers for as many runs as may be in flight, each with room for any stage's
        read-backs.
        """
        size = max((_staging_size(stage) for stage in self.stages), default=0)
        count = frames if size else 0
        self.stats.staging_bytes = count * padded(size)
        return Ring(count, lambda: self._keep(self._memory.staging(size)), self.free)

    def shelter(self, nbytes: int) -> Any:
        """Make a buffer for results that stay on the device."""
        return self._keep(self._memory.cached(nbytes))

    def give_up(self, buffer: Any) -> None:
        """Leave a buffer to somebody else, who frees it."""
        self._buffers.pop(id(buffer), None)

    def free(self, buffer: Any) -> None:
        """Free a buffer, in whatever state it is."""
        self.give_up(buffer)
        self.recordings.forget(buffer)
        self.device.memory.free(buffer)

    def release(self) -> None:
        """Free all of it; a second call frees what is left."""
        self.recordings.clear()
        while self._constants:
            self.device.constants.release(self._constants[-1])
            self._constants.pop()
        for buffer in tuple(self._buffers.values()):
            self.free(buffer)

    def _lay_out_memory(self) -> None:
        """Give every tensor that lives on the device a slot, variables apart from what a run writes."""
        intervals = device_intervals(self.plan, device_bytes)
        occupied = self.device.properties.parallel_invocations
        groups = groups_apart(self.plan, intervals, occupied) if self._apart else None
        self.stats.arena_bytes, self.stats.peak_live_bytes = self._allocate(intervals, groups)
        states = {v: Interval(device_bytes(v), 0, 0) for v in self.plan.resident}
        self.stats.state_bytes, _ = self._allocate(states)

    def _allocate(
        self,
        intervals: Mapping[Operand, Interval] | Mapping[Operand | Scratch, Interval],
        groups: Sequence[int] | None = None,
    ) -> tuple[int, int]:
        """Make arenas for tensors; their bytes, and the most that is alive at a time."""
        arenas = assign(
            list(intervals.values()),
            self.device.properties.limit("min-storage-buffer-offset-alignment"),
            self.device.properties.limit("max-buffer-size"),
            groups,
        )
        first = len(self._arenas)
        for operand, slot in zip(intervals, arenas.slots, strict=True):
            self._slots[operand] = Slot(first + slot.arena, slot.offset)
        self._arenas += [self._keep(self._memory.arena(size)) for size in arenas.sizes]
        return sum(padded(size) for size in arenas.sizes), arenas.peak_live_bytes

    def _keep(self, buffer: Any) -> Any:
        """Note a buffer that is freed with this program."""
        self._buffers[id(buffer)] = buffer
        self.stats.buffers += 1
        return buffer

    def _build_stages(self) -> list[Stage]:
        recipes = [
            [(p.operation, k) for p in segment.placements for k in p.kernels if 0 not in k.groups]
            for segment in self.plan.segments
        ]
        sizes = [arena.size for arena in self._arenas]
        units = bundled(recipes, self.plan, self._slots, sizes, self.device.properties)
        made = self._dispatches([unit for listed in units for unit in listed if not isinstance(unit, Bundle)])
        bundles = self._bundle_dispatches([u for listed in units for u in listed if isinstance(u, Bundle)])
        stages: list[Stage] = []
        for segment, recipe, listed in zip(self.plan.segments, recipes, units, strict=True):
            dispatches: list[Dispatch] = []
            together: list[tuple[int, int]] = []
            place = 0
            for unit in listed:
                count = unit.count if isinstance(unit, Bundle) else 1
                if isinstance(unit, Bundle):
                    dispatches += next(bundles)
                    together.append((place, place + count))
                else:
                    dispatches.append(made[id(unit[1])])
                place += count
            uploads = tuple(Upload(o, *self.place(o)) for o in segment.uploads)
            readbacks = tuple(_packed(segment.readbacks))
            made_ready = tuple(dispatches), (), uploads, readbacks, tuple(recipe), tuple(together)
            stages.append(Stage(segment, *made_ready))
        updates = tuple(self.copy(o, *self.place(v)) for v, o in self.plan.device_updates.items())
        hosts = self.plan.host_updates or any(s.notes for s in self.plan.segments)
        if stages and stages[-1].on_device and not hosts:
            stages[-1] = replace(stages[-1], updates=updates)
        else:  # the host may fail, refuse a value or be interrupted, which must leave the state as it is
            self.late_updates = updates
        return stages

    def _dispatches(self, recipe: Sequence[Dispatched]) -> dict[int, Dispatch]:
        """Return the dispatch of each kernel by its id; the rounds of a loop share theirs."""
        alone = {id(k): (o, k) for o, k in recipe}
        self.device.prepare(self._key(o, k) for o, k in alone.values())
        params = self._upload_params([param_block(k) for _, k in alone.values()])
        return {number: self._dispatch(o, k, next(params)) for number, (o, k) in alone.items()}

    def _upload_params(self, blocks: Sequence[bytes]) -> Iterator[dict[str, Any]]:
        """Put parameter blocks into one uniform buffer; yield the binding of each."""
        alignment = self.device.properties.limit("min-uniform-buffer-offset-alignment")
        data = bytearray()
        places: list[tuple[int, int]] = []
        for block in blocks:
            data.extend(bytes(-len(data) % alignment))
            places.append((len(data), len(block)))
            data.extend(block)
        buffer = self._keep(self._memory.uniform(bytes(data)))
        return ({"buffer": buffer, "offset": offset, "size": size} for offset, size in places)

    def _bundle_dispatches(self, bundles: Sequence[Bundle]) -> Iterator[list[Dispatch]]:
        """Yield the dispatches of each bundle; all have the same memory, one after the other."""
        if not bundles:
            return
        size = WORD * max(bundle.words for bundle in bundles)
        memory = self._keep(self._memory.arena(size))
        self.stats.arena_bytes += padded(size)
        blocks = [struct.pack("<4I", *found, 0, 0) for bundle in bundles for found in bundle.ranges]
        params = self._upload_params(blocks)
        for bundle in bundles:
            check()
            pipeline, layout, new = self._pipeline(bundle.key)
            table = self._constant([bundle.table], None, "the table of a bundle")
            buffers = [
                *[table.buffer] * (1 + bundle.fours),
                memory,
                *(self._arenas[k] for k in bundle.arenas),
            ]
            bound = [{"buffer": buffer, "offset": 0, "size": buffer.size} for buffer in buffers]
            made = [
                Dispatch(pipeline, self._group(layout, [*bound, next(params)]), (1, 1, 1))
                for _ in bundle.ranges
            ]
            if new:
                self._begin(made[0])
            yield made

    def _group(self, layout: Any, resources: Sequence[dict[str, Any]]) -> Any:
        """Make a bind group."""
        self.stats.bind_groups += 1
        entries = [{"binding": i, "resource": r} for i, r in enumerate(resources)]
        return self.device.wgpu.create_bind_group(layout=layout, entries=entries)

    def _dispatch(self, operation: Operation, kernel: Kernel, params: dict[str, Any]) -> Dispatch:
        check()
        key = self._key(operation, kernel)
        pipeline, layout, new = self._pipeline(key)
        inside = within(self.plan, operation, kernel)
        bindings = zip(kernel.reads, key.bindings, strict=False)  # results are behind
        reads = ((r, b.texture) for r, b in bindings if r.present and r.name not in inside)
        resources = [b for r, texels in reads for b in _bound(self._resource(operation, r, texels), r)]
        for write in kernel.writes:
            resources += _bound(self._tensor(target(write, operation), write.window), write)
        resources += [params] if key.bound_params else []
        made = Dispatch(pipeline, self._group(layout, resources), kernel.groups)
        if new:
            self._begin(made)
        return made

    def _key(self, operation: Operation, kernel: Kernel) -> ShaderKey:
        """Return the key of a kernel's pipeline."""
        reads, writes = touched(self.plan, operation, kernel)
        others, own = ({id(self.place(t)[0]) for t in tensors} for tensors in (reads - writes, writes))
        apart = self._apart and others.isdisjoint(own)
        return key_of(kernel, operation, apart, within(self.plan, operation, kernel))

    def _pipeline(self, key: ShaderKey) -> tuple[Any, Any, bool]:
        """Return a pipeline, the layout of its bind groups, and whether the device had none like it."""
        count = self.device.pipeline_count
        return *self.device.pipeline(key), self.device.pipeline_count > count

    def _begin(self, dispatch: Dispatch) -> None:
        """Have a software driver compile a new pipeline, while the host goes on.

        Lavapipe compiles a pipeline for the first dispatch, even one of no workgroups, on its own thread.
        """
        if self.device.properties.software:
            with holding(self.device.lock):
                none = replace(dispatch, groups=(0, 1, 1))
                self._begun.append(submit(self.device.wgpu, [none], ()))

    @contextmanager
    def _pipelines_awaited(self) -> Iterator[None]:
        """Wait for the pipelines that the driver compiles: a process that ended meanwhile could crash."""
        try:
            yield
        finally:
            for number in self._begun:
                await_submission(self.device.wgpu, number, self.device.turn)

    def _resource(self, operation: Operation, read: Read, texels: Texels | None) -> Any:
        """Return the binding of an operand: its place in an arena, or a constant, maybe in a texture."""
        operand = source(read, operation)
        if isinstance(operand, Scratch) or (operand is not None and operand.value is None):
            return self._tensor(operand, read.window)
        others = (operation.inputs[k] if k < len(operation.inputs) else None for k in read.also)
        used = () if operand is None else (operand, *others)
        values = [None if o is None else o.value for o in used] or [read.value]
        what = f"a constant of {operation.op} ({operation.origin})"
        constant = self._constant(values, read.pack, what, texels)
        if texels:
            return constant.buffer.create_view()
        first, nbytes = read.window or (0, constant.nbytes)
        return {"buffer": constant.buffer, "offset": first, "size": padded(nbytes)}

    def _constant(
        self, values: Sequence[Array | None], pack: Pack | None, what: str, texels: Texels | None = None
    ) -> Constant:
        """Return a constant on the device, `what` for errors."""
        constant, uploaded = self.device.constants.acquire(values, pack, what, self._memory, texels)
        self._constants.append(constant)
        self.stats.constant_uploads += uploaded
        return constant

    def _tensor(self, tensor: Operand | Scratch, window: tuple[int, int] | None) -> dict[str, Any]:
        """Return the binding of a tensor, or of a part of it."""
        root = root_of(self.plan, tensor)
        buffer, offset = self.place(root)
        first, nbytes = window or (0, root.type.nbytes)
        return {"buffer": buffer, "offset": offset + first, "size": padded(nbytes)}

    @contextmanager
    def _freed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.release()
            raise


def device_bytes(tensor: Operand | Scratch) -> int:
    """Return the bytes of a tensor on a device."""
    return padded(tensor.type.nbytes)


def _bound(resource: Any, bound: Read | Write) -> Iterator[Any]:
    """Yield the bindings of an operand: one, or its segments side by side."""
    segments = bound.segments
    if segments is None:
        yield resource
        return
    end = resource["offset"] + resource["size"]
    for offset in range(resource["offset"], end, segments.nbytes):
        yield {**resource, "offset": offset, "size": min(segments.nbytes, end - offset)}


def _packed(tensors: Sequence[Operand | Note]) -> Iterator[ReadBack]:
    """Yield tensors one behind another."""
    offset = 0
    for tensor in tensors:
        yield ReadBack.of(tensor, offset)
        offset += device_bytes(tensor)


def _staging_size(stage: Stage) -> int:
    return sum(device_bytes(r.tensor) for r in stage.readbacks)
