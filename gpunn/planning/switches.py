"""One pipeline for kernels with appended operations, and for the same kernels without them.

A network has convolutions with a residual sum behind them, and others that are alike but for that. Two
pipelines would take a compiler twice as long, so a parameter says whether the sum is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Param, Read, Scratch
from gpunn.planning.partition import Placement

SWITCH = "then_on"  # shaders/README.md
# Rounds of loops for each operand that is read in vain, of products with 8 elements of the depth each. Where
# they were 9 on average, lavapipe took as long as before, and where they were 6, 5 % longer.
_LONG = 8

Pipeline = Callable[[Kernel, Operation], Hashable]
_Member = tuple[int, int]  # the places of a placement, and of a kernel in it


def switched(
    placements: Sequence[Placement],
    before: Mapping[Operation, Sequence[Kernel]],
    pipeline: Pipeline,
    software: bool = False,
) -> tuple[Placement, ...]:
    """Return placements whose kernels need fewer pipelines.

    before: the kernels of operations as they were without appended ones. pipeline: what the pipeline of an
    operation's kernel depends on. Only kernels with loops count: others are compiled in no time. And only
    operations that call no library and read no table: lavapipe computes both sides of a branch. For the same
    reason, kernels that clip otherwise and have short loops keep a pipeline of their own on software.
    """
    groups: dict[Hashable, list[_Member]] = {}
    for n, placement in enumerate(placements):
        for k, kernel in enumerate(before.get(placement.operation, placement.kernels)):
            if kernel.loop_iterations and placement.kernels:
                groups.setdefault(pipeline(kernel, placement.operation), []).append((n, k))
    changed = {n: [*placement.kernels] for n, placement in enumerate(placements)}
    for members in groups.values():
        if software:
            members = _quick({(n, k): placements[n].kernels[k] for n, k in members})
        for (n, k), kernel in _switched(members, placements, pipeline):
            changed[n][k] = kernel
    return tuple(replace(p, kernels=tuple(changed[n])) for n, p in enumerate(placements))


def _switched(
    members: Sequence[_Member], placements: Sequence[Placement], pipeline: Pipeline
) -> Iterator[tuple[_Member, Kernel]]:
    """Yield new kernels for some of those that were alike without appended operations."""
    found = {(n, k): placements[n].kernels[k] for n, k in members}
    plain = [member for member, kernel in found.items() if not kernel.writes[0].appended]
    chains = [m for m, kernel in found.items() if _may_be_left_out(kernel, placements[m[0]].operation)]
    chains = [m for m in chains if plain and found[m].libraries == found[plain[0]].libraries]
    if not plain or not chains:
        return
    chosen = min(chains, key=lambda member: len(found[member].writes[0].appended))
    model, wanted = found[chosen], pipeline(found[chosen], placements[chosen[0]].operation)
    left_out = [(m, _left_out(found[m], model, placements[m[0]].operation)) for m in plain]
    if any(kernel is not None for _, kernel in left_out):
        yield from ((member, kernel) for member, kernel in left_out if kernel is not None)
        for member in chains:
            if pipeline(found[member], placements[member[0]].operation) == wanted:
                yield member, _with_switch(found[member], found[member], on=True)


def _quick(members: Mapping[_Member, Kernel]) -> list[_Member]:
    """Return the members that may share a pipeline on software.

    Those that clip otherwise than kernels with appended operations must have long loops, on average, unless
    the body computes appended operations in a loop. Loops of Winograd's convolution are short, as their code
    is written out.
    """
    if all(kernel.writes[0].in_loop for kernel in members.values()):
        return [*members]
    if any(kernel.unrolled for kernel in members.values()):
        return []
    clips = {_clip(kernel) for kernel in members.values() if kernel.writes[0].appended}
    others = {member: kernel for member, kernel in members.items() if _clip(kernel) not in clips}
    invocations = sum(math.prod(kernel.threads) for kernel in others.values())
    iterations = sum(math.prod(kernel.threads) * kernel.loop_iterations for kernel in others.values())
    return [member for member in members if iterations >= _LONG * invocations or member not in others]


def _clip(kernel: Kernel) -> tuple[Param | None, Param | None]:
    """Return the bounds that a kernel clips to (ops/elementwise/clipping.py)."""
    return kernel.params.get("low"), kernel.params.get("high")


def _may_be_left_out(kernel: Kernel, operation: Operation) -> bool:
    """Tell whether the result without appended operations would have the same form, and these are quick."""
    write = kernel.writes[0]
    prefixes = tuple(appended.prefix for appended in write.appended)
    tables = any(r.value is not None for r in kernel.reads if r.name.startswith(prefixes))
    if not write.appended or write.rows is not None or tables or not isinstance(write.output, int):
        return False
    return write.appended[-1].dtype is operation.outputs[write.output].type.dtype


def _left_out(kernel: Kernel, model: Kernel, operation: Operation) -> Kernel | None:
    """Return a kernel for the pipeline of `model` that leaves the appended operations out.

    It binds what it reads anyway in place of their operands; None if there is no such tensor.
    """
    own = (
        read.operand
        for read in kernel.reads
        if read.window is None and read.segments is None and _computed(read, operation)
    )
    stand_in = next(own, None)
    reads = [*kernel.reads]
    for read in model.reads[len(reads) :]:
        operand = read.operand
        assert operand is not None and not isinstance(operand, int)
        if isinstance(operand, Operand) and operand.value is not None:
            value = np.zeros(4, operand.type.dtype.numpy)
            reads.append(Read(read.name, None, read.width, value=value))
        elif stand_in is None:
            return None
        else:
            reads.append(Read(read.name, stand_in, read.width, dtype=operand.type.dtype, rows=read.rows))
    return _with_switch(replace(kernel, reads=tuple(reads)), model, on=False)


def _computed(read: Read, operation: Operation) -> bool:
    """Tell whether a read is of a tensor that is computed in a run."""
    operand = operation.inputs[read.operand] if isinstance(read.operand, int) else read.operand
    return isinstance(operand, Scratch) or (isinstance(operand, Operand) and operand.value is None)


def _with_switch(kernel: Kernel, model: Kernel, on: bool) -> Kernel:
    """Return a kernel with the appended operations of `model`, switched on or off."""
    first, *others = kernel.writes
    write = replace(first, appended=model.writes[0].appended, optional=True)
    params = {**model.params, **kernel.params, SWITCH: int(on)}
    return replace(kernel, writes=(write, *others), params=params, libraries=model.libraries)
