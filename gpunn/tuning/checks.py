"""objection(): what is wrong with the results of a candidate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gpunn.graph.exact import evaluate, widen
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.tolerance import bounds, half_products
from gpunn.ops.parts import Part, row_axis
from gpunn.types import Array, TensorType

MOST_WORK = 1 << 29  # additions and multiplications of what the host computes of a result: about 0.3 s


def objection(
    operation: Operation, inputs: Mapping[Operand, Array], found: Sequence[Array], halves: bool
) -> str:
    """Say how results differ from the exact ones by more than is allowed; "" if they do not.

    Of results with more than MOST_WORK it looks at the first rows and the last ones, if the op can compute
    these alone. halves: products may have been computed in f16.
    """
    whole = _Checked(operation, inputs, found)
    checked = whole.ends() or [whole]
    return next(filter(None, (each.objection(halves) for each in checked)), "")


@dataclass(frozen=True, slots=True)
class _Checked:
    """An operation, its inputs without constants, and what a candidate found."""

    operation: Operation
    inputs: Mapping[Operand, Array]
    found: Sequence[Array]

    def objection(self, halves: bool) -> str:
        """Say how the results differ from the exact ones."""
        operation, values = self.operation, {o: widen(x) for o, x in self.inputs.items()}
        results = evaluate(operation, values)
        constants = {o: widen(o.value) for o in operation.inputs if o is not None and o.value is not None}
        wide = [None if o is None else {**values, **constants}[o] for o in operation.inputs]
        further = (partial(half_products, operation),) if halves else ()
        limits = bounds(operation, wide, results, *further)
        for exact, result, bound in zip(results, map(widen, self.found), limits, strict=True):
            with np.errstate(all="ignore"):
                error = np.abs(np.subtract(result, exact, dtype=np.result_type(exact, np.float64)))
                same = (result == exact) | (np.isnan(result) & np.isnan(exact))
                over = np.where(same, 0.0, np.nan_to_num(error, nan=np.inf)) - bound.limit
            if over.size and over.max() > 0:
                worst = int(over.argmax())
                allowed = float(np.broadcast_to(bound.limit, over.shape).flat[worst])
                return f"a result is off by {error.flat[worst]:.3g}, and {allowed:.3g} is allowed"
        return ""

    def ends(self) -> list[_Checked]:
        """Return the first and the last rows of a large result; none if it is small or has no such rows."""
        divide, shape = self.operation.definition.division, self.operation.outputs[0].type.shape
        work = self.operation.definition.count_flops(self.operation.call())
        if divide is None or work <= MOST_WORK or not shape:
            return []
        rows = shape[row_axis(shape)]
        count = max(1, rows * MOST_WORK // (2 * work))
        firsts = (0, rows - count)
        parts = [divide(self.operation.call(), first, first + count) for first in firsts]
        return [self._part(p, first) for p, first in zip(parts, firsts, strict=True) if p is not None]

    def _part(self, part: Part, first: int) -> _Checked:
        """Return the rows of a part, the first of which has that number."""
        inputs = dict(self._inputs_of(part))
        values = {o: x for o, x in inputs.values() if o.value is None}
        operands = [inputs[k][0] if k in inputs else None for k in range(len(part.firsts))]
        result = replace(self.operation.outputs[0], type=part.call.y)
        alone = replace(self.operation, inputs=tuple(operands), outputs=(result,), attrs=part.call.attrs)
        return _Checked(alone, values, [_rows(self.found[0], first, part.call.y)])

    def _inputs_of(self, part: Part) -> Iterator[tuple[int, tuple[Operand, Array]]]:
        """Yield the operands of a part by their numbers, and their values."""
        for number, (operand, type) in enumerate(zip(self.operation.inputs, part.call.inputs, strict=True)):
            if operand is not None and type is not None:
                first = part.firsts[number]
                value = self.inputs[operand] if operand.value is None else operand.value
                value = value if first is None else _rows(value, first, type)
                constant = None if operand.value is None else value
                yield number, (replace(operand, type=type, value=constant), value)


def _rows(x: Array, first: int, type: TensorType) -> Array:
    """Return as many rows of an array as a type has."""
    axis = row_axis(x.shape)
    return x.take(range(first, first + type.shape[axis]), axis)
