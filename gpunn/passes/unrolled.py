"""The steps of a recurrent layer that a converter has written one after the other become one recurrence.

LiteRT Torch writes the layers of PyTorch so: one product of x has the sums of all steps, and each takes its
part of these. Keras writes layers so that are not to be loops, with a product of x for each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.writers import Writers, writers_of
from gpunn.ops.contraction.matmul import fully_connected
from gpunn.ops.kernels.strides import dense, rows_walked
from gpunn.ops.movement.strided_slice import selection, strided_slice
from gpunn.passes.affine import Affines
from gpunn.passes.cells import Cell, Cells, recurrence
from gpunn.passes.expand import GraphExpansion
from gpunn.passes.forms import readers_of, written_by
from gpunn.passes.prune import prune_unread
from gpunn.passes.rejoin import Pieces, pieces_of
from gpunn.passes.rewrite import with_others
from gpunn.types import Array

_READS_OF_CELL = 2  # of a state c: the state h, and the next step


def fuse_steps(model: Graph) -> Graph:
    """Put a recurrence in the place of the steps of a layer, and slices of its result in that of states."""
    filters = _equal_filters(model)
    if not filters:
        return model
    writers = writers_of(model)
    layers = [*_layers(Cells(Affines(writers, filters)), model.operations)]
    finder = _Finder(writers, pieces_of(model), readers_of(model)) if layers else None
    instead: dict[Operation, list[Operation]] = {}
    for steps in layers:
        found = any(writers[step.state] in instead for step in steps)
        made = None if finder is None or found else finder.written(steps)
        if made is not None:
            operations, results = made
            instead.update((writers[result], []) for result in results)
            instead[writers[steps[0].state]] = operations
    return prune_unread(with_others(model, instead)) if instead else model


def _equal_filters(model: Graph) -> dict[Operand, Operand]:
    """Return for filters of products the first of the same value; nothing if no two products have the same.

    Files have one filter for all steps, or one for each.
    """
    found: dict[Operand, Operand] = {}
    alike: dict[tuple[object, bytes], list[tuple[Operand, Array]]] = {}
    products = [o.inputs[1] for o in model.operations if o.definition is fully_connected]
    filters = [(o, o.value) for o in products if o is not None and o.value is not None]
    for filter, value in filters:
        if filter not in found:
            others = alike.setdefault((filter.type, value[:1, :8].tobytes()), [])
            found[filter] = next((o for o, other in others if np.array_equal(other, value)), filter)
            if found[filter] is filter:
                others.append((filter, value))
    return found if len(filters) > len({*found.values()}) else {}


def _layers(cells: Cells, operations: Sequence[Operation]) -> Iterator[list[Cell]]:
    """Yield the steps of layers, two or more, each of which begins with the states behind the one before."""
    steps = [cell for operation in operations for cell in cells.of(operation.outputs[0])]
    by_states: dict[tuple[Operand, ...], list[Cell]] = {}
    for step in steps:
        by_states.setdefault(step.behind, []).append(step)
    following: dict[Cell, Cell] = {}
    later = set[Cell]()
    for step in steps:
        for previous in by_states.get(step.before, ()):
            if previous not in following and step.follows(previous):
                following[previous] = step
                later.add(step)
                break
    for step in following:
        if step not in later:
            layer = [step]
            while (behind := following.get(layer[-1])) is not None:
                layer.append(behind)
            yield layer


@dataclass(frozen=True, slots=True)
class _Finder:
    """Knows which operation computes an operand, of what that is a piece, and how often it is read."""

    writers: Writers
    pieces: Pieces
    readers: Mapping[Operand | None, int]

    def written(self, steps: Sequence[Cell]) -> tuple[list[Operation], Sequence[Operand]] | None:
        """Return what computes states, and which: h behind all steps, and the last c if others read it.

        None if others read another state c, or the steps do not read all of one x in turn.
        """
        first, cell = steps[0], steps[-1]
        memory = [state for step in steps for state in step.behind[1:]]
        found = self._source([step.x for step in steps], cell)
        if found is None or any(self.readers[state] != _READS_OF_CELL for state in memory[:-1]):
            return None
        x, time_major, reverse = found
        batch, units = x.type.shape[time_major], cell.units
        states = [*first.before, *(state for step in steps for state in step.behind)]
        if any(state.type.size != batch * units for state in states):
            return None
        to = GraphExpansion.of([x, *first.before], first.state.name, self.writers[first.state].origin)
        before = [to.add("reshape", state, shape=(batch, units)) for state in first.before]
        zeros = [to.constant(np.zeros((batch, units), np.float32)) for _ in cell.before[len(before) :]]
        *last, y = recurrence(to, cell, x, [*before, *zeros], time_major, reverse)
        exchange = {}
        for number, step in enumerate(steps[::-1] if reverse else steps):
            exchange[_state(to, y, number, time_major, step.state)] = step.state
        if memory and self.readers[memory[-1]] > 1:
            exchange[to.add("reshape", last[1], shape=memory[-1].type.shape)] = memory[-1]
        return to.writing(exchange), [*exchange.values()]

    def _source(self, rows: Sequence[Operand], cell: Cell) -> tuple[Operand, bool, bool] | None:
        """Return what has the rows of all steps; whether along the first axis, and from the last one on."""
        x, _ = self.pieces.get(rows[0], (None, None))
        elements = cell.of_x[0].shape[1]
        if x is None or x.type.rank != 3 or x.type.shape[-1] != elements:
            return None
        found, strides = [self.pieces.get(row) for row in rows], dense(x.type.shape)
        for axis in (0, 1):
            shape = tuple(1 if d == axis else n for d, n in enumerate(x.type.shape))
            places = range(x.type.shape[axis])
            wanted = [(x, rows_walked(shape, strides, place * strides[axis])) for place in places]
            for reverse in (False, True):
                if found == (wanted[::-1] if reverse else wanted):
                    turned = self._turned(x, axis)
                    return turned or x, axis == 0, reverse ^ (turned is not None)
        return None

    def _turned(self, x: Operand, axis: int) -> Operand | None:
        """Return what x is with an axis the other way round."""
        taken = written_by(self.writers, x, strided_slice)
        if taken is None or taken.attrs["shrink_axes"]:
            return None
        ranges = selection(taken.call())
        whole = [range(n) for n in x.type.shape]
        step, ranges[axis] = ranges[axis].step, ranges[axis][::-1]
        return taken.inputs[0] if ranges == whole and step < 0 else None


def _state(to: GraphExpansion, y: Operand, number: int, time_major: bool, state: Operand) -> Operand:
    """Add what takes the state behind a step out of all."""
    begin, end = [0, 0, 0], [*y.type.shape]
    begin[not time_major], end[not time_major] = number, number + 1
    shrink = (int(not time_major),) if state.type.rank == y.type.rank - 1 else ()
    found = to.add(
        "strided_slice", y, begin=tuple(begin), end=tuple(end), strides=(1, 1, 1), shrink_axes=shrink
    )
    return found if found.type == state.type else to.add("reshape", found, shape=state.type.shape)
