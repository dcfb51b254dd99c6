"""Several operations that one kernel computes, so that what lies between them is in no buffer.

Such a kernel is a candidate of an operation that computes what all of them do (gpunn.ops.fusion). The first
candidate of this operation are the kernels that they have, so a tuner can measure both ways. It is a matter
of planning: the graph, its references and the CPU backend know of the single operations alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpunn.device import DeviceProperties
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Candidate, Kernel, Scratch
from gpunn.ops.call import Call
from gpunn.ops.fusion import Fusion
from gpunn.ops.fusions import FUSIONS
from gpunn.planning.append import append
from gpunn.planning.partition import DEVICE, HOST, Lower, Placement
from gpunn.planning.places import whole, written_in_rows
from gpunn.rows import Walk

_MOST = max(map(len, FUSIONS))  # operations in one


@dataclass(frozen=True, slots=True)
class _Found:
    """The places of placements in their order, and the operation that computes what they all do."""

    places: tuple[int, ...]
    whole: Operation


def fuse(
    model: Graph,
    placements: Sequence[Placement],
    joined: Mapping[Operand, Operand],
    lowering: Callable[[Sequence[Operation]], Lower],
    device: DeviceProperties,
    tuned: bool,
) -> tuple[tuple[Placement, ...], dict[Operand, Operand]]:
    """Let one kernel compute several operations where that is the way which their `whole` is lowered to.

    `joined`: the owners of gpunn.planning.join, which comes before. lowering: returns what lowers operations;
    it gets all of them at once. device: the one that the kernels are for. tuned: whether a tuner decides; the
    rule is asked only where it takes the one kernel.
    Returns the placements with their new kernels, and for each operand that has no bytes of its own any more
    the operand that has them.
    """
    made, owners = [*placements], dict(joined)
    found = tuple(_found(model, placements, joined, device, tuned))
    lower, taken = lowering([each.whole for each in found]), set[int]()
    for each in found:
        *others, last = each.places
        home, kernels = made[last], lower(each.whole)
        if isinstance(kernels, str) or len(kernels) > 1 or not taken.isdisjoint(each.places):
            continue  # with kernels of their own they have two or more
        kernels, (result, *_) = (_on_operands(kernels[0], each.whole),), home.operation.outputs
        order = _order(home)
        written = kernels if order is None else written_in_rows(kernels, 0, order, result, owners[result])
        assert written is not None  # the last operation's own kernels are, and these end as they do
        taken.update(each.places)
        made[last] = replace(home, kernels=written)
        reason = f"computed with the {home.operation.op} behind it"
        for place in others:
            owners[made[place].operation.outputs[0]] = owners.get(result, result)
            made[place] = replace(made[place], kernels=(), reason=reason, within=home.operation)
    return tuple(made), owners


def _found(
    model: Graph,
    placements: Sequence[Placement],
    joined: Mapping[Operand, Operand],
    device: DeviceProperties,
    tuned: bool,
) -> Iterator[_Found]:
    """Yield operations one after the other between which the host does nothing."""
    readers = Counter(o for p in placements for o in p.operation.inputs)
    readers.update(model.results)
    moved = {*joined, *joined.values()}
    writers: dict[Operand | None, int] = {}
    for number, placement in enumerate(placements):
        if placement.backend == HOST:
            writers.clear()
        places, first = [number], placement.operation
        apart = _order(placement) is not None or moved.isdisjoint(placement.operation.outputs)
        while first.inputs and apart and len(places) < _MOST:
            between = first.inputs[0]
            if between not in writers or readers[between] > 1 or between in moved:
                break
            places.insert(0, writers[between])
            first = placements[places[0]].operation
            operation = _whole(model, [placements[n] for n in places], device, tuned)
            if operation is not None:
                yield _Found(tuple(places), operation)
        if placement.backend == DEVICE:
            writers.update(dict.fromkeys(placement.operation.outputs, number))


def _whole(
    model: Graph, placements: Sequence[Placement], device: DeviceProperties, tuned: bool
) -> Operation | None:
    """Return the operation that computes what several do; None if no op does, or if nobody would take it."""
    operations = [p.operation for p in placements]
    fusion = FUSIONS.get(tuple(o.op for o in operations))
    if fusion is None or not all(map(_plain, placements)):
        return None
    calls = [o.call() for o in operations]
    attrs = fusion.attrs(*calls)
    if attrs is None or len({o.outputs[0].type.dtype for o in operations}) > 1:
        return None

    def appended() -> Sequence[Placement]:
        return append(model, placements, {}, device)[0]

    places = (None if place is None else (operations[place[0]], place[1]) for place in fusion.operands)
    operation = Operation(
        fusion.whole.name,
        tuple(None if place is None else (*place[0].inputs, None, None)[place[1]] for place in places),
        operations[-1].outputs,
        fusion.whole.complete(calls[-1], attrs),
        " and ".join(o.origin for o in operations),
        custom=replace(fusion.whole, kernel=lambda call: _ways(fusion, call, appended())),
        relaxed=all(o.relaxed for o in operations),
    )
    return operation if tuned or fusion.leads(replace(operation.call(), device=device)) else None


def _order(placement: Placement) -> Walk | None:
    """Return the order in which kernels write the result of an operation, if it is another one."""
    found = (w.rows for kernel in placement.kernels for w in kernel.writes if w.output == 0)
    return next((rows for rows in found if isinstance(rows, Walk)), None)


def _plain(placement: Placement) -> bool:
    """Tell whether kernels of gpunn compute reals of operands that they bind as a whole."""
    operation, kernels = placement.operation, placement.kernels
    alone = all(all(map(whole, k.reads)) and all(map(whole, k.writes)) for k in kernels)
    dense = all(read.rows is None for k in kernels for read in k.reads)
    return bool(kernels) and alone and dense and operation.custom is None and not operation.integer


def _ways(fusion: Fusion, call: Call, placements: Sequence[Placement]) -> Iterator[Candidate]:
    """Yield the kernels that placements have as one candidate, and those of the op for all of them: one of
    these first if the rule takes it.
    """
    assert fusion.whole.kernel is not None
    together = fusion.whole.kernel(call)
    assert isinstance(together, Iterator)
    if fusion.leads(call):
        yield next(together)
    yield Candidate([*_apart(fusion, placements)], "kernels for each of them")
    yield from together


def _apart(fusion: Fusion, placements: Sequence[Placement]) -> Iterator[Kernel]:
    """Yield the kernels of placements as those of `whole`, with scratch for what lies between them."""
    numbers = {place: number for number, place in enumerate(fusion.operands)}
    operations = [p.operation for p in placements]
    # What the kernels of an operation store is the result of the last one that is appended to it.
    stored = {p.within or p.operation: p.operation.outputs[0] for p in placements}
    tensors: dict[Operand | None, int | Scratch] = {o: Scratch(o.type) for o in stored.values()}
    for which, operation in enumerate(operations):
        given = enumerate(operation.inputs)
        tensors.update({o: numbers[which, k] for k, o in given if (which, k) in numbers})
    tensors[operations[-1].outputs[0]] = 0
    for which, placement in enumerate(placements):
        for kernel in placement.kernels:
            operands = placement.operation.inputs
            reads = (
                replace(
                    r,
                    operand=tensors[operands[r.operand] if isinstance(r.operand, int) else r.operand],
                    also=tuple(numbers[which, k] for k in r.also),
                )
                if isinstance(r.operand, int | Operand)
                else r
                for r in kernel.reads
            )
            result = tensors[stored[placement.operation]]
            writes = (replace(w, output=result, rows=None) if w.output == 0 else w for w in kernel.writes)
            yield replace(kernel, reads=tuple(reads), writes=tuple(writes))


def _on_operands(kernel: Kernel, whole: Operation) -> Kernel:
    """Return a kernel of `whole` for another operation: it names operands themselves, not their places."""
    inputs = whole.inputs
    reads = (replace(r, operand=inputs[r.operand]) if isinstance(r.operand, int) else r for r in kernel.reads)
    return replace(kernel, reads=tuple(reads))
