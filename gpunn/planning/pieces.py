"""Pieces: operations read parts of a tensor where they are, so that no split and no slice copies them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.planning.partition import ALIAS, DEVICE, Placement
from gpunn.planning.places import Numbered, Place, Places, in_words, owners, whole
from gpunn.rows import Rows, Walk


def find_pieces(
    model: Graph,
    placements: Sequence[Placement],
    joined: Mapping[Operand, Operand],
    places: Mapping[Operand, Place],
) -> tuple[tuple[Placement, ...], dict[Operand, Operand]]:
    """Let operations of a device read what another one would only copy from its operand.

    `places`: see gpunn.planning.join, which comes before; `joined`: see gpunn.planning.fusion.
    Returns the placements with their new kernels, and for each operand that has no bytes of its own any more
    the operand that has them. docs/architecture.md has the conditions.
    """
    state = Places(placements, model.results, places=dict(places))
    for run in state.runs():
        near = {p.operation for p in run}
        for placement in run:
            if placement.backend == DEVICE and placement.operation.definition.sources is not None:
                _leave(state, placement.operation, near)
    placed = state.placed("its results are read where it would copy them from")
    return placed, {**joined, **owners(state.places)}


def _leave(state: Places, operation: Operation, near: set[Operation]) -> None:
    """Let those who read the results of an operation find them in its operand, from which it copies them.

    near: the operations between which the host does nothing.
    """
    sources, operand = operation.definition.sources, operation.inputs[0]
    assert sources is not None and operand is not None
    source = state.source(operand)
    owner, outer = state.places.get(source, (source, None))
    if owner.lifetime in (Lifetime.CONSTANT, Lifetime.VARIABLE) or isinstance(outer, Walk):
        return  # what a variable holds may be replaced before a piece of it is read
    if any(o.type.dtype is not owner.type.dtype for o in (operand, *operation.outputs)):
        return  # it would copy each element as one of another type
    kernels = state.bindings(operation)
    for result, rows in zip(operation.outputs, sources(operation.call()), strict=True):
        place = rows if rows is None or outer is None else rows.within(outer, operand.type.size)
        copies = kernels.writing(result)
        if place is not None and all(whole(r) for k in copies.values() for r in k.reads):
            changed = _found(state, result, owner, place, near)
            if changed is not None:
                state.put(result, (owner, place), changed)
                kernels.drop(copies)


def _found(
    state: Places, result: Operand, owner: Operand, rows: Rows, near: set[Operation]
) -> dict[Operation, Numbered] | None:
    """Return the new kernels of those who read a result, if all of them find it in its owner; else None."""
    views = [*state.views(result)]
    readers = {p.operation: p for v in views for p in state.readers.get(v, ()) if p.backend != ALIAS}
    if result in state.places or not state.results.isdisjoint(views) or not in_words(result, rows):
        return None
    if any(p.backend != DEVICE or operation not in near for operation, p in readers.items()):
        return None
    return state.reading([*readers], views, owner, rows)
