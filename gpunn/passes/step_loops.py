"""A loop over the steps of a recurrent layer becomes one product and one recurrence.

Converters write layers so that they have no operator for: the one of TensorFlow those of Keras, with the
state h from round to round and a list of all states or the last one as result; coremltools the GRU of
PyTorch, whose rounds read the state before from the list. A round reads the row of x for its step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.writers import Writers, before_reshapes, writers_of
from gpunn.ops import OPS
from gpunn.ops.control import while_loop
from gpunn.ops.movement.basic import concat
from gpunn.passes.affine import Affines
from gpunn.passes.cells import Cell, Cells, recurrence
from gpunn.passes.expand import GraphExpansion
from gpunn.passes.fold import fold_constants
from gpunn.passes.forms import readers_of, written_by
from gpunn.passes.loops import counted, is_plain, values_in_rounds
from gpunn.passes.prune import bypass_identities, prune_unread
from gpunn.passes.rewrite import with_others
from gpunn.types import DType

_GATHER, _SCATTER = (OPS[name] for name in ("gather", "scatter_slices"))
_UPDATE = "dynamic_update_slice"  # of a family that most programs need not import


def fuse_step_loops(model: Graph) -> Graph:
    """Put a recurrence in the place of loops that compute the states of a cell one after the other."""
    if all(o.definition is not while_loop for o in model.operations):
        return model
    folded = fold_constants(model)
    writers, readers = writers_of(folded), readers_of(folded)
    found: dict[Operation, list[Operation]] = {}
    for operation in folded.operations:
        loop = counted(operation) if operation.definition is while_loop and is_plain(operation) else None
        if loop is None or loop.attrs["condition"] is not None or not loop.attrs["rounds"]:
            continue
        body = bypass_identities(loop.attrs["body"])
        steps = _Steps(replace(loop, attrs={**loop.attrs, "body": body}), body, writers_of(body))
        read = [k for k, result in enumerate(loop.outputs) if readers[result]]
        made = next(filter(None, (steps.written(cell, read, writers) for cell in steps.cells())), None)
        if made is not None:
            found[operation] = made
    return prune_unread(with_others(folded, found)) if found else model


@dataclass(frozen=True, slots=True)
class _Steps:
    """The rounds of a loop, whose number is known; `writers` are those of its body."""

    loop: Operation
    body: Graph
    writers: Writers

    @property
    def rounds(self) -> int:
        """Return how many there are."""
        found: int = self.loop.attrs["rounds"]
        return found

    def cells(self) -> Iterator[Cell]:
        """Yield the cells whose states h the rounds may compute."""
        candidates: dict[Operand | None, None] = {}
        for given, kept in zip(self.body.inputs, self.body.outputs, strict=True):
            if kept is not given and kept.type.dtype is DType.FLOAT32:
                writer = self.writers.get(kept)
                row = writer.inputs[2] if writer is not None and writer.definition is _SCATTER else kept
                candidates[self._before(row)] = None
        found = Cells(Affines(self.writers))
        for state in candidates:
            yield from (cell for cell in found.of(state) if cell.before)

    def written(self, cell: Cell, read: Sequence[int], around: Writers) -> list[Operation] | None:
        """Return what computes the results of the loop that are read; None if it computes something else.

        around: the writers of the graph around the loop.
        """
        batch, units = cell.state.type.size // cell.units, cell.units
        taken, starts = self._row(cell.x), self._starts(cell)
        if taken is None or starts is None:
            return None
        number, first = taken
        x, fixed = self.loop.inputs[number], self.body.outputs[number] is self.body.inputs[number]
        if x is None or not fixed or x.type.shape[1:] != (batch, cell.of_x[0].shape[1]):
            return None
        wide = all(start.type.shape[-2:] == (batch, units) for start, _ in starts)
        if first + self.rounds > x.type.shape[0] or not wide:
            return None
        given = [x, *(start for start, _ in starts), *(self.loop.inputs[k] for k in read)]
        inputs = [o for o in given if o is not None and o.value is None]
        to = GraphExpansion.of(inputs, cell.state.name, self.loop.origin)
        before = [
            to.add("reshape", start if row is None else _rows(to, start, row, row + 1), shape=(batch, units))
            for start, row in starts
        ]
        rows = _rows(to, x, first, first + self.rounds)
        results = recurrence(to, cell, rows, before, time_major=True, reverse=False)
        exchange = {}
        for k in read:
            made = self._result(to, cell, k, results, around)
            if made is None:
                return None
            exchange[made] = self.loop.outputs[k]
        return to.writing(exchange)

    def _before(self, operand: Operand | None) -> Operand | None:
        return before_reshapes(self.writers, operand)

    def _row(self, operand: Operand | None) -> tuple[int, int] | None:
        """Return of which state of the loop an operand is a row, and which row in the first round."""
        taken = written_by(self.writers, self._before(operand), _GATHER)
        if taken is None or taken.attrs["axis"] != 0 or taken.attrs["batch_dims"] != 0:
            return None
        x, place = taken.inputs
        if x not in self.body.inputs or place is None or place.type.size != 1:
            return None
        first = self._first(place)
        return None if first is None else (self.body.inputs.index(x), first)

    def _first(self, place: Operand) -> int | None:
        """Return the row that is named in the first round, if each round names the row after the one before.

        place: the row, or where something starts along all axes: along the others at 0.
        """
        values = values_in_rounds(self.loop, [place], self.rounds)
        if values is None:
            return None
        found = np.array([value.reshape(-1) for (value,) in values])
        rows = found[0, 0] + np.arange(len(found))
        in_order = (found[:, 0] == rows).all() and not found[:, 1:].any() and rows[0] >= 0
        return int(rows[0]) if in_order else None

    def _starts(self, cell: Cell) -> list[tuple[Operand, int | None]] | None:
        """Return what has the states before the first round, and in which row if it is a list of states."""
        row = self._row(cell.before[0]) if len(cell.before) == 1 else None
        if row is not None:
            number, place = row
            start, first = self.loop.inputs[number], self._list(number, cell)
            return [(start, place)] if start is not None and first == place + 1 else None
        found: list[tuple[Operand, int | None]] = []
        for before, behind in zip(cell.before, cell.behind, strict=True):
            number = self.body.inputs.index(before) if before in self.body.inputs else -1
            start = self.loop.inputs[number]
            kept = number >= 0 and self._before(self.body.outputs[number]) is self._before(behind)
            if start is None or not kept:
                return None
            found.append((start, None))
        return found

    def _list(self, number: int, cell: Cell) -> int | None:
        """Return in which row of a list the first round puts its state; None if the list is none of these."""
        writer, given = self.writers.get(self.body.outputs[number]), self.body.inputs[number]
        if writer is None or writer.inputs[0] is not given or given.type.rank != 3:
            return None
        if writer.op == _UPDATE:
            _, row, place = writer.inputs
        elif writer.definition is _SCATTER and _is_of_row(writer):
            _, place, row = writer.inputs
        else:
            return None
        whole = row is not None and row.type.size * given.type.shape[0] == given.type.size
        if place is None or not whole or self._before(row) is not self._before(cell.state):
            return None
        first = self._first(place)
        return first if first is not None and first + self.rounds <= given.type.shape[0] else None

    def _result(
        self, to: GraphExpansion, cell: Cell, number: int, results: Sequence[Operand], around: Writers
    ) -> Operand | None:
        """Add a result of the loop: a state behind the last round, or the list of all; None for others."""
        kept, shape = self._before(self.body.outputs[number]), self.body.outputs[number].type.shape
        *last, y = results
        for behind, state in zip(cell.behind, last, strict=True):
            if kept is self._before(behind):
                return to.add("reshape", state, shape=shape)
        first, start = self._list(number, cell), self.loop.inputs[number]
        if first is None or start is None:
            return None
        end, writer = first + self.rounds, self.writers[self.body.outputs[number]]
        if writer.attrs.get("function") and not _are_zeros(around, start, first, end):
            return None
        parts = [_rows(to, start, *ends) for ends in ((0, first), (end, shape[0])) if ends[0] < ends[1]]
        parts.insert(int(first > 0), y)
        return to.add("concat", *parts, axis=0) if len(parts) > 1 else to.add("reshape", y, shape=shape)


def _is_of_row(scatter: Operation) -> bool:
    """Tell whether an operation puts one row into a tensor, or adds it to what is there."""
    attrs, place = scatter.attrs, scatter.inputs[1]
    rows = tuple(attrs["inserted_window_dims"]) == tuple(attrs["scatter_dims_to_operand_dims"]) == (0,)
    return rows and place is not None and place.type.size == 1 and attrs["function"] in (None, "sum")


def _are_zeros(writers: Writers, states: Operand, begin: int, end: int) -> bool:
    """Tell whether a tensor has zeros in these rows: it is a constant, or has a constant part there."""
    if states.value is not None:
        return not states.value[begin:end].any()
    joined, row = written_by(writers, states, concat), 0
    if joined is None or joined.attrs["axis"] % states.type.rank:
        return False
    for part in joined.inputs:
        assert part is not None
        if row < end and row + part.type.shape[0] > begin:
            some = None if part.value is None else part.value[max(begin - row, 0) : end - row]
            if some is None or some.any():
                return False
        row += part.type.shape[0]
    return True


def _rows(to: GraphExpansion, of: Operand, begin: int, end: int) -> Operand:
    """Add rows of a tensor."""
    zeros = (0,) * (of.type.rank - 1)
    until = (end, *of.type.shape[1:])
    return to.add("strided_slice", of, begin=(begin, *zeros), end=until, strides=(1,) * of.type.rank)
