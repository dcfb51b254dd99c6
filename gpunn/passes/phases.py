"""A concatenation of all phases of a tensor becomes one transposition, as space_to_depth is.

A phase has every n-th element along some axes, from another one on each. Swin Transformers merge patches so,
and YOLO's Focus takes an image apart: a slice for each phase, which often is a slice of a slice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.writers import Writers, writers_of
from gpunn.ops.movement.basic import concat, reshape, transpose
from gpunn.ops.movement.strided_slice import selection, strided_slice
from gpunn.passes.expand import GraphExpansion
from gpunn.passes.forms import alone, readers_of, written_by
from gpunn.passes.rewrite import with_others
from gpunn.types import Shape


class Phase(NamedTuple):
    """Every steps[d]-th element of a tensor along axis d, from offsets[d] on."""

    source: Operand
    offsets: Shape
    steps: Shape


def join_phases(model: Graph) -> Graph:
    """Put a transposition in the place of concatenations of all phases."""
    writers, readers = writers_of(model), readers_of(model)
    found: dict[Operation, list[Operation]] = {}
    for last in model.operations:
        if last.definition is not concat or last.activation is not None:
            continue
        phases = [phase_of(writers, operand) for operand in last.inputs]
        axis = last.call().axis(last.attrs["axis"], last.outputs[0].type.rank)
        axes = _nesting(phases, axis)
        made = _joined(last, phases[0], axis, axes) if axes else []
        if made and alone(writers, last, [phases[0].source], readers):
            found[last] = made
    return with_others(model, found)


def phase_of(writers: Writers, operand: Operand | None) -> Phase:
    """Return an operand as a phase of what it is a slice of, or a slice of a slice."""
    assert operand is not None
    offsets, steps = (0,) * operand.type.rank, (1,) * operand.type.rank
    while (taken := written_by(writers, operand, strided_slice)) is not None and not taken.attrs[
        "shrink_axes"
    ]:
        slices = selection(taken.call())
        kept = taken.inputs[0] is not None and taken.inputs[0].type.quantization == operand.type.quantization
        if not kept or any(r.step < 1 for r in slices):
            break
        offsets = tuple(r.start + r.step * n for r, n in zip(slices, offsets, strict=True))
        steps = tuple(r.step * n for r, n in zip(slices, steps, strict=True))
        (operand,) = taken.inputs[:1]
        assert operand is not None
    return Phase(operand, offsets, steps)


def _nesting(phases: Sequence[Phase], axis: int) -> Shape:
    """Return the axes along which phases differ, from the one that changes most seldom on; () for others.

    axis: along which they are joined. They are all phases of one tensor.
    """
    source, _, steps = phases[0]
    strided = [d for d, step in enumerate(steps) if step > 1]
    whole = axis not in strided and all(n % k == 0 for n, k in zip(source.type.shape, steps, strict=True))
    alike = all((phase.source, phase.steps) == (source, steps) for phase in phases)
    if not whole or not alike or len(phases) != math.prod(steps):
        return ()
    found = [phase.offsets for phase in phases]
    for order in itertools.permutations(strided):
        turns = itertools.product(*(range(steps[d]) for d in order))
        places = (dict(zip(order, turn, strict=True)) for turn in turns)
        if found == [tuple(place.get(d, 0) for d in range(len(steps))) for place in places]:
            return order
    return ()


def _joined(last: Operation, phase: Phase, axis: int, axes: Shape) -> list[Operation]:
    """Return the operations that compute a concatenation along an axis of the phases along `axes`.

    There are none if the phases have not all elements.
    """
    x, y = phase.source, last.outputs[0]
    if x.type.size != y.type.size or x.type.quantization != y.type.quantization:
        return []
    shape: list[int] = []
    places: dict[int, int] = {}
    for d, (n, step) in enumerate(zip(x.type.shape, phase.steps, strict=True)):
        places[d] = len(shape)
        shape += [n // step, step] if step > 1 else [n]
    inside = [*(places[d] + 1 for d in axes), places[axis]]
    perm = [at for d, place in places.items() for at in (inside if d == axis else [place])]
    to = GraphExpansion.of([x], y.name, last.origin)
    moved = to.add(transpose.name, to.add(reshape.name, x, shape=tuple(shape)), perm=tuple(perm))
    result = to.add(reshape.name, moved, shape=y.type.shape)
    return to.writing({result: y}) if result.type == y.type else []
