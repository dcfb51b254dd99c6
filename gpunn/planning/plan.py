"""Plan: placed operations cut into segments, with lifetimes, buffer assignment and host<->device crossings.

A plan knows no device: it is arithmetic over operands, and tested as such.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Note, Scratch
from gpunn.planning.partition import ALIAS, DEVICE, HOST, Placement


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive operations in one place.

    `uploads` are written to the device before a device segment, `readbacks` are read after it. These include
    what kernels note.
    """

    backend: str
    placements: tuple[Placement, ...]
    uploads: tuple[Operand, ...] = ()
    readbacks: tuple[Operand | Note, ...] = ()

    @property
    def notes(self) -> tuple[Note, ...]:
        """What kernels note, in their order."""
        return tuple(r for r in self.readbacks if isinstance(r, Note))


@dataclass(frozen=True, slots=True)
class Slot:
    """Where an intermediate lives: which arena, at which byte."""

    arena: int
    offset: int


@dataclass(frozen=True, slots=True)
class Plan:
    """All decisions of an execution. Operands that are aliases of one another share a root.

    `resident` are the variables that stay on the device from run to run; the others stay on the host. `held`
    are outputs that stay there for another program.
    """

    model: Graph
    segments: tuple[Segment, ...]
    roots: Mapping[Operand, Operand]
    resident: tuple[Operand, ...] = ()
    held: tuple[Operand, ...] = ()

    def root(self, operand: Operand) -> Operand:
        """The operand that owns the bytes of this one."""
        return self.roots.get(operand, operand)

    @property
    def device_updates(self) -> dict[Operand, Operand]:
        """Resident variables, and what owns the bytes of their next values."""
        updates = self.model.updates
        return {v: self.root(updates[v]) for v in self.resident if v in updates}

    @property
    def host_updates(self) -> dict[Operand, Operand]:
        """Variables that stay on the host, and their next values."""
        resident = set(self.resident)
        return {v: o for v, o in self.model.updates.items() if v not in resident}


@dataclass(frozen=True, slots=True)
class Interval:
    """A tensor's bytes and the first and last step at which they must stay."""

    nbytes: int
    first: int
    last: int

    def overlaps(self, other: Interval) -> bool:
        """Whether both are alive at some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Arenas:
    """The result of assign(): a slot per tensor, the arenas' sizes, and the lower bound of their sum."""

    slots: tuple[Slot, ...]
    sizes: tuple[int, ...]
    peak_live_bytes: int


def make_plan(model: Graph, placements: Sequence[Placement], hold: Collection[Operand] = ()) -> Plan:
    """Cut placed operations into segments and find every crossing.

    The outputs in `hold` stay on the device, where it has them.
    """
    roots: dict[Operand, Operand] = {}
    for placement in placements:
        if placement.backend == ALIAS:
            source = placement.operation.inputs[0]
            assert source is not None
            roots[placement.operation.outputs[0]] = roots.get(source, source)
    runs = _runs(placements)
    plan = Plan(model, (), roots)
    there = {plan.root(o) for p in placements if p.backend == DEVICE for o in _tensors(p.operation)}
    held = tuple(dict.fromkeys(o for o in hold if plan.root(o) in there))
    plan = replace(plan, resident=tuple(_resident(plan, placements)), held=held)
    return replace(plan, segments=tuple(_with_crossings(plan, runs)))


def _tensors(operation: Operation) -> Iterator[Operand]:
    """What an operation reads and writes, constants apart."""
    yield from (i for i in operation.inputs if i is not None and i.value is None)
    yield from operation.outputs


def _resident(plan: Plan, placements: Sequence[Placement]) -> Iterable[Operand]:
    """Variables that need not leave the device: only it reads them, and it computes their next values."""
    computed: set[Operand] = set()
    elsewhere = {plan.root(o) for o in plan.model.results}
    for placement in placements:
        if placement.backend == DEVICE:
            computed.update(placement.operation.outputs)
        elif placement.backend == HOST:
            elsewhere.update(plan.root(i) for i in placement.operation.inputs if i is not None)
    for variable in plan.model.variables:
        update = plan.model.updates.get(variable)
        if variable not in elsewhere and (update is None or plan.root(update) in computed):
            yield variable


def _runs(placements: Sequence[Placement]) -> list[tuple[str, list[Placement]]]:
    """Maximal runs of one backend; an alias joins the run before it, leading ones the first run."""
    leading: list[Placement] = []
    runs: list[tuple[str, list[Placement]]] = []
    for placement in placements:
        if runs and placement.backend in (ALIAS, runs[-1][0]):
            runs[-1][1].append(placement)
        elif placement.backend == ALIAS:
            leading.append(placement)
        else:
            runs.append((placement.backend, [placement]))
    if runs:
        runs[0][1][:0] = leading
    elif leading:
        runs.append((HOST, leading))
    return runs


def _with_crossings(plan: Plan, runs: list[tuple[str, list[Placement]]]) -> Iterable[Segment]:
    on_device: set[Operand] = set(plan.resident)
    wanted_later = _wanted_on_host(plan, runs)
    for index, (backend, placements) in enumerate(runs):
        real = [p for p in placements if p.backend != ALIAS]
        reads = dict.fromkeys(
            plan.root(i) for p in real for i in p.operation.inputs if i is not None and i.value is None
        )
        writes = dict.fromkeys(o for p in real for o in p.operation.outputs)
        if backend == HOST:
            yield Segment(HOST, tuple(placements))
            continue
        uploads = tuple(r for r in reads if r not in on_device and r not in writes)
        on_device.update(uploads, writes)
        readbacks = tuple(w for w in writes if w in wanted_later[index])
        scratch = (s for p in placements for kernel in p.kernels for s in kernel.scratch)
        notes = tuple(s for s in scratch if isinstance(s, Note))
        yield Segment(DEVICE, tuple(placements), uploads, (*readbacks, *notes))


def _wanted_on_host(plan: Plan, runs: list[tuple[str, list[Placement]]]) -> list[set[Operand]]:
    """For each run the operands that the host reads after it."""
    outputs = (o for o in plan.model.outputs if o not in plan.held)
    wanted = {plan.root(o) for o in (*outputs, *plan.host_updates.values())}
    result: list[set[Operand]] = []
    for backend, placements in reversed(runs):
        result.append(set(wanted))
        if backend == HOST:
            wanted |= {plan.root(i) for p in placements for i in p.operation.inputs if i is not None}
    return result[::-1]


def device_intervals(
    plan: Plan, nbytes: Callable[[Operand | Scratch], int]
) -> dict[Operand | Scratch, Interval]:
    """Lifetimes, in dispatch steps, of all tensors that device segments touch.

    A tensor that is uploaded lives from its segment's first step, one that is read back to its
    segment's last, the next value of a variable that stays on the device to the very last. Such a variable
    itself lives longer than a run, so it has no interval here. What the kernels of an operation hand on lives
    for its step.
    """
    first: dict[Operand | Scratch, int] = {}
    last: dict[Operand | Scratch, int] = {}
    step = 0
    for segment in plan.segments:
        if segment.backend != DEVICE:
            continue
        start = step
        for operand in segment.uploads:
            first[operand] = last[operand] = start
        for placement in segment.placements:
            if placement.backend == ALIAS:
                continue
            last.update(
                {plan.root(i): step for i in placement.operation.inputs if i is not None and i.value is None}
            )
            written: list[Operand | Scratch] = [*placement.operation.outputs]
            written += (scratch for kernel in placement.kernels for scratch in kernel.scratch)
            for result in written:
                first[result] = last[result] = step
            step += 1
        last.update(dict.fromkeys(segment.readbacks, step - 1))
    kept = (*plan.device_updates.values(), *(plan.root(o) for o in plan.held))
    last.update((o, step - 1) for o in kept if o in first)
    return {o: Interval(nbytes(o), first[o], last[o]) for o in first}


def assign(intervals: Sequence[Interval], alignment: int, capacity: int) -> Arenas:
    """Place tensors in arenas, largest first, each at the lowest place that is free over its whole life.

    Tensors alive at the same step never overlap. `alignment` is that of offsets and `capacity` the most
    that one arena may grow to, in bytes; there is a second arena only when the first is full.
    """
    slots: dict[int, Slot] = {}
    sizes: list[int] = []
    for index in sorted(range(len(intervals)), key=lambda i: (-intervals[i].nbytes, intervals[i].first)):
        slot = _place(index, intervals, slots, alignment, capacity)
        end = slot.offset + intervals[index].nbytes
        if slot.arena == len(sizes):
            sizes.append(0)
        sizes[slot.arena] = max(sizes[slot.arena], end)
        slots[index] = slot
    return Arenas(tuple(slots[i] for i in range(len(intervals))), tuple(sizes), _peak(intervals))


def _place(
    index: int, intervals: Sequence[Interval], slots: Mapping[int, Slot], alignment: int, capacity: int
) -> Slot:
    """The first arena with room for a tensor, and the place there; a new arena always has room."""
    for arena in itertools.count():
        offset = _lowest_fit(index, arena, intervals, slots, alignment)
        if offset == 0 or offset + intervals[index].nbytes <= capacity:
            return Slot(arena, offset)
    raise AssertionError("unreachable")


def _lowest_fit(
    index: int, arena: int, intervals: Sequence[Interval], slots: Mapping[int, Slot], alignment: int
) -> int:
    """The lowest aligned offset in an arena that is free over the tensor's whole life."""
    mine = intervals[index]
    taken = sorted(
        (slot.offset, slot.offset + intervals[other].nbytes)
        for other, slot in slots.items()
        if slot.arena == arena and intervals[other].overlaps(mine)
    )
    offset = 0
    for start, end in taken:
        if offset + mine.nbytes <= start:
            break
        offset = max(offset, -(-end // alignment) * alignment)
    return offset


def _peak(intervals: Sequence[Interval]) -> int:
    """The largest sum of live tensors over all steps."""
    starts = {i.first for i in intervals}
    return max((sum(i.nbytes for i in intervals if i.first <= s <= i.last) for s in starts), default=0)
