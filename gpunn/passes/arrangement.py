"""Arrangements: the axes of a tensor in another order, and the operations that lead from one to another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.ops.movement.basic import reshape, transpose
from gpunn.types import Shape, TensorType

# The axes of a tensor in some order. None stands for an axis of extent 1: these may come and go.
Arrangement = tuple[int | None, ...]
MAX_MOVED_BYTES = 256 << 20  # of constants in all: a small file may need a large one in many orders


def own(shape: Shape) -> Arrangement:
    """Return the arrangement of a tensor as it is."""
    return tuple([None if extent == 1 else axis for axis, extent in enumerate(shape)])


def moves(arrangement: Arrangement) -> Shape:
    """Return the order of the axes that are longer than 1: it decides on the order of the elements."""
    return tuple([axis for axis in arrangement if axis is not None])


def arranged(type: TensorType, arrangement: Arrangement) -> TensorType:
    """Return the type of a tensor in an arrangement."""
    return type.with_shape(tuple([1 if axis is None else type.shape[axis] for axis in arrangement]))


class View(NamedTuple):
    """A tensor that has the elements of `source`, in the arrangement `axes` of the source's axes."""

    source: Operand
    axes: Arrangement

    def through(self, arrangement: Arrangement) -> Arrangement:
        """Return an arrangement of the view's axes as one of the source's axes."""
        return tuple([None if axis is None else self.axes[axis] for axis in arrangement])

    def back(self, arrangement: Arrangement) -> Arrangement:
        """Return an arrangement of the source's axes as one of the view's axes."""
        places = {axis: place for place, axis in enumerate(self.axes)}
        return tuple([None if axis is None else places[axis] for axis in arrangement])


def view_of(operation: Operation, source: View) -> View | None:
    """Return the result of an operation as a view, if it only moves axes or axes of extent 1.

    `source` is the view that the operation reads. Constants are no sources: what is computed from them is
    folded, unless it is too large. Neither are tensors with a scale for each index of an axis.
    """
    definition = operation.definition
    if not definition.algebra.permutes or source.source.value is not None:
        return None
    before, after = operation.inputs[0], operation.outputs[0]
    assert before is not None
    quantization = before.type.quantization
    if (before.type.dtype, quantization) != (after.type.dtype, after.type.quantization):
        return None
    if quantization is not None and not quantization.per_tensor:
        return None
    if definition is transpose:
        shape = before.type.shape
        perm = tuple([None if shape[axis] == 1 else axis for axis in operation.attrs["perm"]])
        return View(source.source, source.through(perm))
    long = [axis for axis, extent in enumerate(before.type.shape) if extent != 1]
    if [before.type.shape[a] for a in long] != [n for n in after.type.shape if n != 1]:
        return None
    rest = iter(long)
    kept = tuple([None if n == 1 else next(rest) for n in after.type.shape])
    return View(source.source, source.through(kept))


@dataclass(slots=True)
class Conversions:
    """Adds the operations that bring tensors into other arrangements, each once.

    `place` is where a tensor is, and in which arrangement of its axes; `add` appends an operation.
    """

    place: dict[Operand, tuple[Operand, Arrangement]]
    add: Callable[[Operation], None]
    made: dict[tuple[Operand, Arrangement], Operand] = field(default_factory=dict)
    moved: dict[tuple[Operand, Shape], tuple[Operand, Arrangement]] = field(default_factory=dict)
    left: int = MAX_MOVED_BYTES

    def get(self, operand: Operand, wanted: Arrangement, origin: str) -> Operand:
        """Return a tensor in an arrangement."""
        found, stored = self.place.get(operand) or (operand, own(operand.type.shape))
        if stored == wanted:
            return found
        key = operand, wanted
        if key not in self.made:
            constant = self._constant(operand, wanted)
            self.made[key] = constant or self._convert(operand, found, stored, wanted, origin, None)
        return self.made[key]

    def write(self, operand: Operand, wanted: Arrangement, result: Operand, origin: str) -> None:
        """Write a tensor in an arrangement to `result`."""
        found, stored = self.place.get(operand) or (operand, own(operand.type.shape))
        self._convert(operand, found, stored, wanted, origin, result)

    def _constant(self, operand: Operand, wanted: Arrangement) -> Operand | None:
        """Return a constant in an arrangement; None for other operands, and if too many bytes were moved."""
        if operand.value is None or operand.type.nbytes > self.left:
            return None
        type = arranged(operand.type, wanted)
        self.left -= type.nbytes
        order = moves(wanted)
        rest = [axis for axis in range(operand.type.rank) if axis not in order]
        value = np.ascontiguousarray(operand.value.transpose([*rest, *order])).reshape(type.shape)
        return replace(operand, type=type, value=value)

    def _convert(
        self,
        operand: Operand,
        found: Operand,
        stored: Arrangement,
        wanted: Arrangement,
        origin: str,
        result: Operand | None,
    ) -> Operand:
        order = moves(wanted)
        if order != moves(stored):
            if (operand, order) not in self.moved:
                perm, reached = _permutation(stored, wanted)
                whole = result if reached == wanted else None
                changed = self._add(transpose.name, operand, found, reached, {"perm": perm}, origin, whole)
                self.moved[operand, order] = changed, reached
            found, stored = self.moved[operand, order]
            if found is result or (stored == wanted and result is None):
                return found
        shape = arranged(operand.type, wanted).shape
        return self._add(reshape.name, operand, found, wanted, {"shape": shape}, origin, result)

    def _add(
        self,
        op: str,
        operand: Operand,
        source: Operand,
        reached: Arrangement,
        attrs: dict[str, Shape],
        origin: str,
        result: Operand | None,
    ) -> Operand:
        if result is None:
            type = arranged(operand.type, reached)
            result = Operand(f"{operand.name}: {op}", type, Lifetime.TEMPORARY, hybrid=operand.hybrid)
        self.add(Operation(op, (source,), (result,), attrs, origin))
        return result


def _permutation(stored: Arrangement, wanted: Arrangement) -> tuple[Shape, Arrangement]:
    """Return the permutation that leads from one arrangement to another, but for axes of extent 1.

    The second result is the arrangement that it leads to.
    """
    spare = [place for place, axis in enumerate(stored) if axis is None]
    places = {axis: place for place, axis in enumerate(stored)}
    perm: list[int] = []
    for axis in wanted:
        if axis is not None:
            perm.append(places[axis])
        elif spare:
            perm.append(spare.pop(0))
    perm = [*spare, *perm]
    return tuple(perm), tuple([stored[place] for place in perm])
