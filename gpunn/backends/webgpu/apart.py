"""Tensors apart: what a kernel reads in other buffers than what it writes (docs/architecture.md)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from gpunn.backends.webgpu.bundles import MAX_WORK
from gpunn.backends.webgpu.calls import work_of
from gpunn.backends.webgpu.shader import source, target
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Scratch
from gpunn.planning.arenas import GROUPS, grouped
from gpunn.planning.partition import Placement
from gpunn.planning.plan import Plan

Tensor = Operand | Scratch
_MOST_ALONE = 64  # tensors of a program
_ROOM = 4  # times the invocations that occupy a device: a dispatch of more gains little beside another one


class _Touched(NamedTuple):
    """The tensors in arenas that a dispatch reads and writes; `fits`: it may well run beside another one."""

    reads: set[Tensor]
    writes: set[Tensor]
    fits: bool


def groups_apart(plan: Plan, tensors: Iterable[Tensor], occupied: int) -> Sequence[int]:
    """Give the tensors of a plan groups, so that dispatches read from other buffers than they write to.

    Results of dispatches that need not wait for the one before are alone in a group. occupied: invocations
    that occupy the device.
    """
    numbers = {tensor: k for k, tensor in enumerate(tensors)}
    segments = [[*_dispatches(plan, segment.placements, numbers, occupied)] for segment in plan.segments]
    pairs = (
        (numbers[r], numbers[w]) for s in segments for d in s for r in d.reads for w in d.writes if r != w
    )
    groups = grouped(len(numbers), pairs)
    written = Counter(w for segment in segments for d in segment for w in d.writes)
    alone = (w for segment in segments for w in _beside(segment) if written[w] == 1)
    for number, tensor in enumerate(islice(alone, _MOST_ALONE), GROUPS):
        groups[numbers[tensor]] = number
    return groups


def _dispatches(
    plan: Plan, placements: Iterable[Placement], tensors: Container[Tensor], occupied: int
) -> Iterator[_Touched]:
    """Yield what the dispatches of a segment touch, of these tensors.

    None of those that may be bundled fits beside another one.
    """
    for operation, kernel in ((p.operation, k) for p in placements for k in p.kernels):
        reads, writes = ({t for t in found if t in tensors} for found in touched(plan, operation, kernel))
        fits = work_of(kernel) > MAX_WORK and math.prod(kernel.threads) <= _ROOM * occupied
        yield _Touched(reads, writes, fits)


def _beside(dispatches: Iterable[_Touched]) -> Iterator[Tensor]:
    """Yield what dispatches write that read nothing but what those right before them read, too.

    wgpu puts no barrier in front of such a dispatch if its result is in a buffer that no other has touched in
    this pass, so it begins while those before it go on. Such buffers serve once in a run.
    """
    reads, writes = set[Tensor](), set[Tensor]()
    for dispatch in dispatches:
        known = bool(dispatch.reads) and dispatch.reads <= reads
        if known and dispatch.fits and writes.isdisjoint(dispatch.reads | dispatch.writes):
            yield from dispatch.writes
            writes |= dispatch.writes
        else:
            reads, writes = dispatch.reads, dispatch.writes


def touched(plan: Plan, operation: Operation, kernel: Kernel) -> tuple[set[Tensor], set[Tensor]]:
    """Return the tensors in arenas that a kernel of an operation reads, and those that it writes."""
    found = (source(read, operation) for read in kernel.reads if read.present)
    reads = (t for t in found if isinstance(t, Scratch) or (t is not None and t.value is None))
    writes = (target(write, operation) for write in kernel.writes)
    return {root_of(plan, t) for t in reads}, {root_of(plan, t) for t in writes}


def within(plan: Plan, operation: Operation, kernel: Kernel) -> dict[str, str]:
    """Return what a kernel reads in the tensor that it writes: its name, and that of the result."""
    written = {root_of(plan, target(w, operation)): w.name for w in kernel.writes}
    reads = ((r.name, source(r, operation)) for r in kernel.reads if r.present)
    found = ((name, None if t is None else root_of(plan, t)) for name, t in reads)
    return {name: written[root] for name, root in found if root in written}


def root_of(plan: Plan, tensor: Tensor) -> Tensor:
    """Return the tensor whose memory one has."""
    return tensor if isinstance(tensor, Scratch) else plan.root(tensor)
