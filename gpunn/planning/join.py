"""Joined results: operations write at once where a concatenation or a transposition would copy theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.planning.partition import ALIAS, DEVICE, Placement
from gpunn.planning.places import Numbered, Place, Places, whole, written_in_rows
from gpunn.rows import Rows, Walk


def join(
    model: Graph, placements: Sequence[Placement], software: bool
) -> tuple[tuple[Placement, ...], dict[Operand, Place]]:
    """Let operations of a device write into the result of the operation that would only copy theirs.

    software: whether the CPU does the device's work; then transpositions stay (docs/kernels.md).
    Returns the placements with their new kernels, and the places of operands that have no bytes of their own
    any more. docs/architecture.md has the conditions.
    """
    state = Places(placements, model.results)
    joins = _Joins(state, software)
    for run in state.runs():
        near = {p.operation for p in run}
        for placement in reversed(run):
            if placement.backend == DEVICE and placement.operation.definition.places is not None:
                joins.join(placement.operation, near)
    return state.placed("its operands are stored where it would copy them"), state.places


@dataclass(frozen=True, slots=True)
class _Joins:
    """The state of join(); `software`: whether the CPU does the device's work."""

    state: Places
    software: bool

    def join(self, operation: Operation, near: set[Operation]) -> None:
        """Let those who compute the operands of an operation write where it would copy them.

        near: the operations between which the host does nothing.
        """
        state, places = self.state, operation.definition.places
        assert places is not None
        (result,) = operation.outputs
        owner, outer = state.places.get(result, (result, None))
        kernels = state.bindings(operation)
        for operand, rows in zip(operation.inputs, places(operation.call()), strict=True):
            assert operand is not None
            assert not isinstance(outer, Walk)  # results of operations with places are copied there: _moved()
            place = rows if rows is None or outer is None else rows.within(outer, result.type.size)
            copies = kernels.reading(operand)
            if place is not None and all(whole(w) for k in copies.values() for w in k.writes):
                source = state.source(operand)
                producer = state.producers.get(source)
                if producer is not None and producer.operation in near and producer.backend == DEVICE:
                    changed = self._moved(producer.operation, operation, source, (owner, place))
                    if changed is not None:
                        state.put(source, (owner, place), changed)
                        kernels.drop(copies)

    def _moved(
        self, producer: Operation, copier: Operation, source: Operand, place: Place
    ) -> dict[Operation, Numbered] | None:
        """Return the new kernels of those who write and read a result that an operation copies to a place.

        None if one of them cannot do so there.
        """
        state, (owner, rows) = self.state, place
        views = [*state.views(source)]
        everyone = Counter(p.operation for v in views for p in state.readers.get(v, ()) if p.backend != ALIAS)
        if source in state.places or everyone[copier] != 1 or not state.results.isdisjoint(views):
            return None
        kernels = state.bindings(producer).writing(source)
        made = written_in_rows([*kernels.values()], producer.outputs.index(source), rows, source, owner)
        others = [operation for operation in everyone if operation is not copier]
        joins = producer.definition.places is not None
        if isinstance(rows, Walk) and (self.software or others or joins):
            return None  # others find their elements in rows alone
        if made is None:
            return None
        written = dict(zip(kernels, made, strict=True))
        if state.binds_twice(producer, written, owner, views):
            return None
        if not others:
            return {producer: written}
        assert isinstance(rows, Rows)
        changed = state.reading(others, views, owner, rows)
        return None if changed is None else {producer: written, **changed}
