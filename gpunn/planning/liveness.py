"""Liveness: the first and the last step that need a tensor, on the host and on the device; their memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Note, Scratch
from gpunn.planning.partition import ALIAS, DEVICE, HOST
from gpunn.planning.plan import Plan


def last_uses(model: Graph) -> Mapping[Operation, Sequence[Operand]]:
    """List for each operation the operands that nothing needs after it.

    Constants and the results of the model are never among them. A result that nothing reads stands with the
    operation that computes it.
    """
    results = model.results
    last: dict[Operand, Operation] = {}
    for operation in model.operations:
        for operand in (*operation.inputs, *operation.outputs):
            if operand is not None and operand.value is None and operand not in results:
                last[operand] = operation
    found: dict[Operation, list[Operand]] = {}
    for operand, operation in last.items():
        found.setdefault(operation, []).append(operand)
    return found


class Interval(NamedTuple):
    """The size of a tensor in bytes, and the first and last step that need it."""

    nbytes: int
    first: int
    last: int


def peak_bytes(intervals: Iterable[Interval]) -> int:
    """Return the largest sum of bytes that are alive at one step."""
    changes: Counter[int] = Counter()
    for interval in intervals:
        changes[interval.first] += interval.nbytes
        changes[interval.last + 1] -= interval.nbytes
    alive = most = 0
    for step in sorted(changes):
        alive += changes[step]
        most = max(most, alive)
    return most


def host_bytes(plan: Plan) -> int:
    """Return the most bytes that a run has on the host at a time, without constants.

    These are inputs and variables, what the host computes and reads back, and the copies of results that the
    caller gets. What operations need for themselves, and the bodies in them, do not count.
    """
    state = [v for v in plan.model.variables if v not in plan.resident]
    first = dict.fromkeys((*plan.model.inputs, *state), 0)
    last, step = dict(first), 0
    for segment in plan.segments:
        for placement in segment.placements if segment.backend == HOST else ():
            if placement.backend != ALIAS:
                read = {plan.root(i) for i in placement.operation.inputs if i is not None}
                last.update((o, step) for o in read if o in first)
                written = dict.fromkeys(placement.operation.outputs, step)
                first.update(written)
                last.update(written)
                step += 1
        if segment.backend == DEVICE:
            read_back = {o: step for o in segment.readbacks if not isinstance(o, Note)}
            last.update((o, step) for o in segment.uploads if o in first)
            first.update(read_back)
            last.update(read_back)
            step += 1
    given = (o for o in plan.model.outputs if o not in plan.held)
    results = [plan.root(o) for o in (*given, *plan.host_updates.values())]
    last.update((o, step) for o in (*plan.model.inputs, *state, *results) if o in first)
    copies = [Interval(o.type.nbytes, step, step) for o in results]
    return peak_bytes([*copies, *(Interval(o.type.nbytes, first[o], last[o]) for o in first)])


def device_intervals(
    plan: Plan, nbytes: Callable[[Operand | Scratch], int]
) -> dict[Operand | Scratch, Interval]:
    """Give the lifetimes of all tensors that device segments touch; one operation is one step.

    An uploaded tensor lives from the first step of its segment, and a tensor that is read back lives until
    the last step of its segment. The next value of a variable that stays on the device lives until the last
    step of the plan. The variable itself lives longer than a run, so it has no interval. Scratch tensors
    live for the step of their operation.
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
            reads = (r.operand for k in placement.kernels for r in k.reads if isinstance(r.operand, Operand))
            last.update({plan.root(o): step for o in reads if o.value is None})
            written: list[Operand | Scratch] = [plan.root(o) for o in placement.operation.outputs]
            written += (scratch for kernel in placement.kernels for scratch in kernel.scratch)
            for result in written:
                first.setdefault(result, step)
                last[result] = step
            step += 1
        last.update(dict.fromkeys(segment.readbacks, step - 1))
    kept = (*plan.device_updates.values(), *(plan.root(o) for o in plan.held))
    last.update((o, step - 1) for o in kept if o in first)
    return {o: Interval(nbytes(o), first[o], last[o]) for o in first}
