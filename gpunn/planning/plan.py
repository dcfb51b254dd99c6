"""Plan: placed operations cut into segments, with every crossing between the host and the device.

A plan knows no device. It is arithmetic over operands, and the tests need no device either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Note
from gpunn.planning.partition import ALIAS, DEVICE, HOST, Placement


class Segment(NamedTuple):
    """Consecutive operations in one place.

    `uploads` are written to the device before a device segment, `readbacks` are read after it. The readbacks
    include the notes of kernels.
    """

    backend: str
    placements: tuple[Placement, ...]
    uploads: tuple[Operand, ...] = ()
    readbacks: tuple[Operand | Note, ...] = ()

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return the notes of the kernels, in their order."""
        return tuple(r for r in self.readbacks if isinstance(r, Note))


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
        """Return the operand that owns the bytes of this one."""
        return self.roots.get(operand, operand)

    @property
    def device_updates(self) -> dict[Operand, Operand]:
        """Map resident variables to the operands that own the bytes of their next values."""
        updates = self.model.updates
        return {v: self.root(updates[v]) for v in self.resident if v in updates}

    @property
    def host_updates(self) -> dict[Operand, Operand]:
        """Map variables that stay on the host to their next values."""
        resident = set(self.resident)
        return {v: o for v, o in self.model.updates.items() if v not in resident}


def make_plan(
    model: Graph,
    placements: Sequence[Placement],
    hold: Collection[Operand] = (),
    joined: Mapping[Operand, Operand] | None = None,
) -> Plan:
    """Cut placed operations into segments and find every crossing.

    The outputs in `hold` stay on the device if it computes or reads them. joined: see gpunn.planning.pieces.
    """
    roots = dict(joined or {})
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
    """Yield the operands that an operation reads and writes, without constants."""
    yield from (i for i in operation.inputs if i is not None and i.value is None)
    yield from operation.outputs


def _resident(plan: Plan, placements: Sequence[Placement]) -> Iterable[Operand]:
    """Find variables that can stay on the device: only it reads them and computes their next values."""
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
    """Group placements into maximal runs of one backend; an alias joins the run before it, or the first."""
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
        computed = {o: p for p in real for o in p.operation.outputs}
        # A result that is read where it is a part of an upload is not written.
        writes = dict.fromkeys(o for o in map(plan.root, computed) if o in computed)
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
    """Return for each run the operands that the host reads after it."""
    outputs = (o for o in plan.model.outputs if o not in plan.held)
    wanted = {plan.root(o) for o in (*outputs, *plan.host_updates.values())}
    result: list[set[Operand]] = []
    for backend, placements in reversed(runs):
        result.append(set(wanted))
        if backend == HOST:
            wanted |= {plan.root(i) for p in placements for i in p.operation.inputs if i is not None}
    return result[::-1]
