"""The place of each operation: on the device unless the backend gives a reason not to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Read, Write

DEVICE, HOST, ALIAS = "webgpu", "cpu", "alias"

Lower = Callable[[Operation], tuple[Kernel, ...] | str]


@dataclass(frozen=True, slots=True)
class Placement:
    """One operation with its place: "webgpu" (with its kernels), "cpu" (with the reason) or "alias".

    An alias gives its input's bytes another shape or type; nothing runs. `depth` is the number of bodies of
    other operations around it. `within`: the operation whose kernels compute this one, too
    (gpunn.planning.fusion, gpunn.planning.append, gpunn.planning.prepend).
    """

    operation: Operation
    backend: str
    reason: str = ""
    kernels: tuple[Kernel, ...] = ()
    depth: int = 0
    within: Operation | None = None


def partition(model: Graph, lower: Lower | None) -> tuple[Placement, ...]:
    """Place every operation. `lower` gives an operation's kernels, or the reason why it has none;
    without it (None) everything runs on the host.
    """
    return tuple(_place(operation, lower) for operation in model.operations)


def _place(operation: Operation, lower: Lower | None) -> Placement:
    if operation.definition.alias:
        return Placement(operation, ALIAS)
    if lower is None:
        return Placement(operation, HOST, "the model was compiled for the cpu backend")
    result = lower(operation)
    if isinstance(result, str):
        return Placement(operation, HOST, result)
    return Placement(operation, DEVICE, "", result)


def read_from(operation: Operation, read: Read) -> Operand | None:
    """Return the operand that a kernel of an operation reads; None for what is none of the graph."""
    operand = operation.inputs[read.operand] if isinstance(read.operand, int) else read.operand
    return operand if isinstance(operand, Operand) else None


def written_to(operation: Operation, write: Write) -> Operand | None:
    """Return the operand that a kernel of an operation writes; None for what is none of the graph."""
    return operation.outputs[write.output] if isinstance(write.output, int) else None


def read_by(operation: Operation, kernel: Kernel) -> Iterator[Operand]:
    """Yield the operands that a kernel of an operation reads."""
    return filter(None, (read_from(operation, read) for read in kernel.reads))


def written_by(operation: Operation, kernel: Kernel) -> Iterator[Operand]:
    """Yield the operands that a kernel of an operation writes."""
    return filter(None, (written_to(operation, write) for write in kernel.writes))


def appended(placements: Iterable[Placement]) -> Mapping[Operation, tuple[Operation, ...]]:
    """Return for operations that compute others behind them, too, which these are, in their order."""
    return _within(placements, True)


def prepended(placements: Iterable[Placement]) -> Mapping[Operation, tuple[Operation, ...]]:
    """Return for operations that compute others before them, too, which these are, in their order."""
    return _within(placements, False)


def _within(placements: Iterable[Placement], behind: bool) -> Mapping[Operation, tuple[Operation, ...]]:
    begun: set[Operation] = set()
    found: dict[Operation, tuple[Operation, ...]] = {}
    for placement in placements:
        home = placement.within
        begun.add(placement.operation)
        if home is not None and (home in begun) is behind:
            found[home] = (*found.get(home, ()), placement.operation)
    return found
