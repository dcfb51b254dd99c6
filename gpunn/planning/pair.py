"""Pairs of operations that one kernel computes, so that what lies between them is in no buffer.

Such a kernel is a candidate of an operation that computes what both do (gpunn.ops.pair). The first candidate
of this operation are the kernels that the two have, so a tuner can measure both ways. It is a matter of
planning: the graph, its references and the CPU backend know of the two operations alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Candidate, Kernel, Scratch
from gpunn.ops import PAIRS
from gpunn.ops.call import Call
from gpunn.ops.pair import Pair
from gpunn.planning.join import whole
from gpunn.planning.partition import DEVICE, HOST, Lower, Placement


@dataclass(frozen=True, slots=True)
class _Found:
    """The places of two placements, and the operation that computes what both do."""

    first: int
    second: int
    whole: Operation


def pair(
    model: Graph,
    placements: Sequence[Placement],
    joined: Mapping[Operand, Operand],
    lowering: Callable[[Sequence[Operation]], Lower],
) -> tuple[tuple[Placement, ...], dict[Operand, Operand]]:
    """Let one kernel compute two operations where that is the way which their `whole` is lowered to.

    `joined`: see gpunn.planning.join, which comes before. lowering: returns what lowers operations; it gets
    all of them at once. Returns the placements with their new kernels, and for each operand that has no bytes
    of its own any more the operand that has them.
    """
    made, owners = [*placements], dict(joined)
    found = tuple(_found(model, placements, joined))
    lower = lowering([each.whole for each in found])
    for each in found:
        kernels = lower(each.whole)
        if isinstance(kernels, str) or len(kernels) > 1:  # each of the two has at least one of its own
            continue
        first, second = made[each.first], made[each.second]
        made[each.first] = replace(first, kernels=(_on_operands(kernels[0], each.whole),))
        reason = f"computed with the {first.operation.op} before it"
        made[each.second] = replace(second, kernels=(), reason=reason, within=first.operation)
        owners[first.operation.outputs[0]] = second.operation.outputs[0]
    return tuple(made), owners


def _found(
    model: Graph, placements: Sequence[Placement], joined: Mapping[Operand, Operand]
) -> Iterator[_Found]:
    """Yield the pairs between which the host does nothing."""
    readers = Counter(o for p in placements for o in p.operation.inputs)
    readers.update(model.results)
    moved = {*joined, *joined.values()}
    writers: dict[Operand | None, int] = {}
    for number, placement in enumerate(placements):
        if placement.backend == HOST:
            writers.clear()
        operation = placement.operation
        between = operation.inputs[0] if operation.inputs else None
        if between in writers and readers[between] == 1 and moved.isdisjoint((between, *operation.outputs)):
            whole = _whole(placements[writers[between]], placement)
            if whole is not None:
                yield _Found(writers[between], number, whole)
        if placement.backend == DEVICE:
            writers.update(dict.fromkeys(operation.outputs, number))


def _whole(first: Placement, second: Placement) -> Operation | None:
    """Return the operation that computes what two do; None if no op does."""
    a, b = first.operation, second.operation
    pair = PAIRS.get((a.op, b.op))
    if pair is None or not (_plain(first) and _plain(second)):
        return None
    attrs = pair.attrs(a.call(), b.call())
    if attrs is None or a.outputs[0].type.dtype is not b.outputs[0].type.dtype:
        return None
    inputs = ((*(a, b)[which].inputs, None, None)[k] for which, k in pair.operands)
    return Operation(
        pair.whole.name,
        tuple(inputs),
        b.outputs,
        pair.whole.complete(b.call(), attrs),
        f"{a.origin} and {b.origin}",
        custom=replace(pair.whole, kernel=lambda call: _ways(pair, call, first, second)),
        relaxed=a.relaxed and b.relaxed,
    )


def _plain(placement: Placement) -> bool:
    """Tell whether kernels of gpunn compute reals of operands that they bind as a whole."""
    operation, kernels = placement.operation, placement.kernels
    alone = all(all(map(whole, k.reads)) and all(map(whole, k.writes)) for k in kernels)
    dense = all(read.rows is None for k in kernels for read in k.reads)
    return bool(kernels) and alone and dense and operation.custom is None and not operation.integer


def _ways(pair: Pair, call: Call, first: Placement, second: Placement) -> Iterator[Candidate]:
    """Yield the kernels that two placements have as one candidate, and then those of the op for both."""
    between = Scratch(first.operation.outputs[0].type)
    places = [{k: n for n, (of, k) in enumerate(pair.operands) if of == which} for which in (0, 1)]
    apart = [_moved(k, places[0], between, between) for k in first.kernels]
    apart += [_moved(k, places[1], between, 0) for k in second.kernels]
    yield Candidate(apart, "a kernel for each of the two")
    assert pair.whole.kernel is not None
    both = pair.whole.kernel(call)
    assert isinstance(both, Iterator)
    yield from both


def _moved(kernel: Kernel, places: Mapping[int, int], between: Scratch, result: int | Scratch) -> Kernel:
    """Return a kernel whose operands stand at other places; one without a place lies between the two."""
    reads = (
        replace(r, operand=places.get(r.operand, between), also=tuple(places[k] for k in r.also))
        if isinstance(r.operand, int)
        else r
        for r in kernel.reads
    )
    writes = (replace(w, output=result) if w.output == 0 else w for w in kernel.writes)
    return replace(kernel, reads=tuple(reads), writes=tuple(writes))


def _on_operands(kernel: Kernel, whole: Operation) -> Kernel:
    """Return a kernel of `whole` for another operation: it names operands themselves, not their places."""
    inputs = whole.inputs
    reads = (replace(r, operand=inputs[r.operand]) if isinstance(r.operand, int) else r for r in kernel.reads)
    return replace(kernel, reads=tuple(reads))
