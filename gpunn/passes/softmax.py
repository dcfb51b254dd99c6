"""Softmax and its logarithm, which converters write out: LiteRT Torch does for another axis than the last.

With d = x - max(x) they are exp(d) / sum(exp(d)) and d - log(sum(exp(d))), all along one axis.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.writers import Writers, writers_of
from gpunn.ops import OPS
from gpunn.passes.forms import (
    SUB,
    alone,
    beside_rows,
    number,
    readers_of,
    written_behind_reshapes,
    written_by,
)
from gpunn.types import DType

_NAMES = "div", "exp", "log", "maximum", "reduce_max", "reduce_sum", "softmax", "log_softmax"
_DIV, _EXP, _LOG, _MAXIMUM, _REDUCE_MAX, _REDUCE_SUM, _SOFTMAX, _LOG_SOFTMAX = (OPS[name] for name in _NAMES)
_LOWEST = float(np.finfo(np.float32).min)


class _Differences(NamedTuple):
    """An operand that is x - max(x) along an axis."""

    x: Operand
    axis: int


def fuse_softmax(model: Graph) -> Graph:
    """Put softmax and log_softmax in the place of what computes them."""
    writers, readers = writers_of(model), readers_of(model)
    found: dict[Operation, Operation] = {}
    for last in model.operations:
        if last.definition not in (_DIV, SUB) or last.activation is not None:
            continue
        differences = _quotient(writers, last) if last.definition is _DIV else _logarithm(writers, last)
        if differences is None or not alone(writers, last, [differences.x], readers):
            continue
        x, axis = differences
        op, attrs = (_SOFTMAX, {"beta": 1.0}) if last.definition is _DIV else (_LOG_SOFTMAX, {})
        found[last] = Operation(op.name, (x,), last.outputs, {"axis": axis, **attrs}, last.origin)
    return model.with_operations(found.get(o, o) for o in model.operations) if found else model


def _quotient(writers: Writers, last: Operation) -> _Differences | None:
    """Return d if an operation is exp(d) / sum(exp(d))."""
    powers = written_by(writers, last.inputs[0], _EXP)
    found = None if powers is None else _differences(writers, powers.inputs[0])
    return found if found and _is_sum(writers, last.inputs[1], powers, found.axis) else None


def _logarithm(writers: Writers, last: Operation) -> _Differences | None:
    """Return d if an operation is d - log(sum(exp(d)))."""
    d, other = last.inputs
    logarithm, found = written_behind_reshapes(writers, other, _LOG), _differences(writers, d)
    if logarithm is None or found is None or not beside_rows(d, (found.axis,), other):
        return None
    total = written_behind_reshapes(writers, logarithm.inputs[0], _REDUCE_SUM)
    powers = None if total is None else written_by(writers, total.inputs[0], _EXP)
    summed = total is not None and _along(total) == found.axis
    return found if summed and powers is not None and powers.inputs[0] is d else None


def _is_sum(writers: Writers, operand: Operand | None, terms: Operation | None, axis: int) -> bool:
    """Tell whether an operand is the sum of an operation's results along an axis, beside these."""
    total = written_behind_reshapes(writers, operand, _REDUCE_SUM)
    if total is None or terms is None or total.inputs[0] is not terms.outputs[0]:
        return False
    return _along(total) == axis and beside_rows(terms.outputs[0], (axis,), operand)


def _differences(writers: Writers, operand: Operand | None) -> _Differences | None:
    """Return what an operand is if it is x - max(x) of reals; the maximum may include the lowest number."""
    difference = written_by(writers, operand, SUB)
    x, most = (None, None) if difference is None else difference.inputs
    if x is None or operand is None or x.type != operand.type or x.type.dtype is not DType.FLOAT32:
        return None
    joined = written_behind_reshapes(writers, most, _MAXIMUM)
    tops = [most] if joined is None else [o for o in joined.inputs if not _is_lowest(o)]
    largest = written_behind_reshapes(writers, tops[0], _REDUCE_MAX) if len(tops) == 1 else None
    axis = None if largest is None or largest.inputs[0] is not x else _along(largest)
    return _Differences(x, axis) if axis is not None and beside_rows(x, (axis,), most) else None


def _is_lowest(operand: Operand | None) -> bool:
    """Tell whether an operand is one number that no other is below."""
    value = number(operand)
    return value is not None and value <= _LOWEST


def _along(reduction: Operation) -> int | None:
    """Return the one axis of a reduction that has several elements; None if not exactly one has."""
    shape = reduction.call().x.shape
    long = {axis % len(shape) for axis in reduction.attrs["axes"] if shape[axis] != 1}
    return long.pop() if len(long) == 1 else None
