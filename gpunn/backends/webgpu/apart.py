"""Tensors apart: what a kernel reads in other buffers than what it writes (docs/architecture.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpunn.backends.webgpu.shader import source, target
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Scratch
from gpunn.planning.arenas import grouped
from gpunn.planning.plan import Plan

Tensor = Operand | Scratch


def groups_apart(plan: Plan, tensors: Iterable[Tensor]) -> Sequence[int]:
    """Give the tensors of a plan groups, so that dispatches read from other buffers than they write to."""
    numbers = {tensor: k for k, tensor in enumerate(tensors)}
    pairs: list[tuple[int, int]] = []
    placements = (p for segment in plan.segments for p in segment.placements)
    for operation, kernel in ((p.operation, k) for p in placements for k in p.kernels):
        found = touched(plan, operation, kernel)
        reads, writes = ([numbers[t] for t in tensors if t in numbers] for tensors in found)
        pairs += ((r, w) for r in reads for w in writes if r != w)
    return grouped(len(numbers), pairs)


def touched(plan: Plan, operation: Operation, kernel: Kernel) -> tuple[set[Tensor], set[Tensor]]:
    """Return the tensors in arenas that a kernel of an operation reads, and those that it writes."""
    found = (source(read, operation) for read in kernel.reads if read.present)
    reads = (t for t in found if isinstance(t, Scratch) or (t is not None and t.value is None))
    writes = (target(write, operation) for write in kernel.writes)
    return {root_of(plan, t) for t in reads}, {root_of(plan, t) for t in writes}


def root_of(plan: Plan, tensor: Tensor) -> Tensor:
    """Return the tensor whose memory one has."""
    return tensor if isinstance(tensor, Scratch) else plan.root(tensor)
