"""Liveness: the first and the last step that need a tensor, on the host and on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Scratch
from gpunn.planning.partition import ALIAS, DEVICE
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


@dataclass(frozen=True, slots=True)
class Interval:
    """The size of a tensor in bytes, and the first and last step that need it."""

    nbytes: int
    first: int
    last: int

    def overlaps(self, other: Interval) -> bool:
        """Tell whether both are alive at some step."""
        return self.first <= other.last and other.first <= self.last


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
            written: list[Operand | Scratch] = [*placement.operation.outputs]
            written += (scratch for kernel in placement.kernels for scratch in kernel.scratch)
            for result in written:
                first[result] = last[result] = step
            step += 1
        last.update(dict.fromkeys(segment.readbacks, step - 1))
    kept = (*plan.device_updates.values(), *(plan.root(o) for o in plan.held))
    last.update((o, step - 1) for o in kept if o in first)
    return {o: Interval(nbytes(o), first[o], last[o]) for o in first}
