"""Layer normalisation, which converters write as means, squares, a root and a product.

With d = x - mean(x) and s = mean(d^2) + epsilon, all along one axis, these are d rsqrt(s), d / sqrt(s), and,
as Keras writes it, x f + (bias - mean(x) f) with f = rsqrt(s) scale. With d = x it is RMSNorm. LiteRT Torch
writes them with reshapes between: its means lose the dimension. One kernel computes what is six dispatches
otherwise, most of which read or write the whole tensor.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.ops import OPS
from gpunn.ops.op import Op
from gpunn.passes.expand import GraphExpansion
from gpunn.passes.rewrite import replace_outputs
from gpunn.types import DType

_ADD, _SUB, _MUL, _DIV, _SQUARED_DIFFERENCE, _SQUARE, _SQRT, _RSQRT, _MEAN, _SUM = (
    OPS[name]
    for name in (
        *("add", "sub", "mul", "div", "squared_difference", "square", "sqrt", "rsqrt", "mean", "reduce_sum"),
    )
)
# By how much a share of a mean is off where it is rounded to that type; 1 / (n - 1) is farther from 1 / n.
_ROUNDED = {DType.FLOAT32: 2.0**-22, DType.FLOAT16: 2.0**-10}

Writers = Mapping[Operand | None, Operation]


class _Norm(NamedTuple):
    """A normalisation of x along an axis; centred: the mean is taken out. Then a scale and a bias, if any."""

    x: Operand
    axis: int
    epsilon: float
    centred: bool
    scale: Operand | None = None
    bias: Operand | None = None


class _Spread(NamedTuple):
    """The mean of squares along an axis, and epsilon. The squares are of `away`, or of x - `centre`."""

    axis: int
    epsilon: float
    away: Operand | None
    x: Operand | None = None
    centre: Operand | None = None


def fuse_layer_norms(model: Graph) -> Graph:
    """Put layer_normalization, and a product and a sum behind it, in the place of what computes it."""
    writers: dict[Operand | None, Operation] = {o: w for w in model.operations for o in w.outputs}
    readers = Counter(o for operation in model.operations for o in operation.inputs)
    readers.update(model.results)
    found: dict[Operation, list[Operation]] = {}
    for operation in model.operations:
        norm = _ends(writers, operation)
        made = None if norm is None else _written(operation, norm)
        if norm is not None and made is not None and _alone(writers, operation, norm, readers):
            found[operation] = made
    if not found:
        return model
    return model.with_operations(made for o in model.operations for made in found.get(o, [o]))


def _ends(writers: Writers, last: Operation) -> _Norm | None:
    """Return the normalisation that ends with an operation."""
    if last.integer or last.outputs[0].type.dtype not in _ROUNDED:
        return None
    if last.definition is _ADD:
        return next(filter(None, (_keras(writers, *pair) for pair in _pairs(last))), None)
    if last.activation is None and last.definition in (_MUL, _DIV):
        return next(filter(None, (_quotient(writers, last, *pair) for pair in _pairs(last))), None)
    return None


def _pairs(operation: Operation) -> Iterator[tuple[Operand, Operand]]:
    """Yield both inputs of an operation, and in the other order where that makes no difference."""
    a, b = operation.inputs
    assert a is not None and b is not None
    yield a, b
    if operation.definition in (_ADD, _MUL):
        yield b, a


def _of(writers: Writers, operand: Operand | None, *ops: Op) -> Operation | None:
    """Return the operation that computes an operand, if it is of one of these ops."""
    writer = writers.get(operand)
    plain = writer is not None and writer.definition in ops and writer.attrs.get("activation") is None
    return writer if plain else None


def _of_rows(writers: Writers, operand: Operand | None, *ops: Op) -> Operation | None:
    """Return the operation that computes one number for each row, if it is of one of these ops.

    Reshapes in between leave these numbers in order; PyTorch's means do not keep the dimension.
    """
    return _of(writers, _before_reshapes(writers, operand), *ops)


def _before_reshapes(writers: Writers, operand: Operand | None) -> Operand | None:
    while (writer := writers.get(operand)) is not None and writer.definition.alias:
        first = writer.inputs[0]
        if first is None or first.type.dtype is not writer.outputs[0].type.dtype:
            break
        operand = first
    return operand


def _same(writers: Writers, a: Operand | None, b: Operand | None) -> bool:
    """Tell whether two operands are the same, or reshapes of the same."""
    return _before_reshapes(writers, a) is _before_reshapes(writers, b)


def _beside_rows(x: Operand | None, axis: int, operand: Operand | None) -> bool:
    """Tell whether an operand has one number for each row of x along an axis, and is broadcast to these."""
    if x is None or operand is None:
        return False
    shape, rank = operand.type.shape, x.type.rank
    beside = tuple(1 if d == axis else n for d, n in enumerate(x.type.shape))
    return len(shape) <= rank and (1,) * (rank - len(shape)) + shape == beside


def _number(operand: Operand | None) -> float | None:
    """Return the value of a constant with one element."""
    if operand is None or operand.value is None or operand.value.size != 1:
        return None
    return float(operand.value.reshape(()))


def _mean(writers: Writers, operand: Operand | None) -> tuple[Operand, int] | None:
    """Return of what an operand is the mean, or a reshape of it, and along which axis."""
    found = _of_rows(writers, operand, _MEAN) or _sum_of_shares(writers, operand)
    x = None if found is None else found.inputs[0]
    if found is None or x is None:
        return None
    axes = [axis % x.type.rank for axis in found.attrs["axes"]]
    long = [axis for axis in axes if x.type.shape[axis] != 1] or axes
    return (x, long[0]) if len(long) == 1 else None


def _is_mean(writers: Writers, operand: Operand | None, x: Operand | None, axis: int) -> bool:
    """Tell whether an operand is the mean of x along an axis, beside its rows."""
    return _mean(writers, operand) == (x, axis) and _beside_rows(x, axis, operand)


def _sum_of_shares(writers: Writers, operand: Operand | None) -> Operation | None:
    """Return a sum that is multiplied with 1 / the number of its terms, or divided by that."""
    scaled = _of_rows(writers, operand, _MUL, _DIV)
    for total, constant in () if scaled is None else _pairs(scaled):
        found, share = _of_rows(writers, total, _SUM), _number(constant)
        if found is not None and share and scaled is not None:
            terms = found.call().x.size / max(found.outputs[0].type.size, 1)
            off = share * terms - 1 if scaled.definition is _MUL else share / max(terms, 1) - 1
            return found if abs(off) <= _ROUNDED.get(found.call().x.dtype, 0) else None
    return None


def _spread(writers: Writers, operand: Operand | None) -> _Spread | None:
    """Return what an operand is the spread of."""
    total = _of_rows(writers, operand, _ADD)
    for variance, constant in () if total is None else _pairs(total):
        epsilon, found = _number(constant), _mean(writers, variance)
        if epsilon is None or not 0 < epsilon < math.inf or found is None:
            continue
        squares, axis = found
        if (square := _of(writers, squares, _SQUARE)) is not None:
            return _Spread(axis, epsilon, square.inputs[0])
        if (product := _of(writers, squares, _MUL)) is not None and product.inputs[0] is product.inputs[1]:
            return _Spread(axis, epsilon, product.inputs[0])
        if (difference := _of(writers, squares, _SQUARED_DIFFERENCE)) is not None:
            return _Spread(axis, epsilon, None, *difference.inputs)
    return None


def _quotient(writers: Writers, last: Operation, away: Operand, factor: Operand) -> _Norm | None:
    """Return the normalisation that is away times a factor, or divided by it."""
    root = _of_rows(writers, factor, _RSQRT if last.definition is _MUL else _SQRT)
    spread = None if root is None else _spread(writers, root.inputs[0])
    if spread is None or not _beside_rows(away, spread.axis, factor):
        return None
    difference = _of(writers, away, _SUB)
    if difference is None or not _is_mean(writers, difference.inputs[1], difference.inputs[0], spread.axis):
        same = spread.away is away
        return _Norm(away, spread.axis, spread.epsilon, False) if same else None
    x, centre = difference.inputs
    squared = _of(writers, spread.away, _SUB)
    same = spread.away is away or (x, centre) in ((spread.x, spread.centre), squared and squared.inputs)
    return _Norm(x, spread.axis, spread.epsilon, True) if x is not None and same else None


def _keras(writers: Writers, product: Operand, rest: Operand) -> _Norm | None:
    """Return the normalisation that is x f + (bias - mean f)."""
    scaled, difference = _of(writers, product, _MUL), _of_rows(writers, rest, _SUB)
    shifted = None if difference is None else _of_rows(writers, difference.inputs[1], _MUL)
    if scaled is None or difference is None or shifted is None:
        return None
    bias = difference.inputs[0]
    for (x, factor), (centre, again) in itertools.product(_pairs(scaled), _pairs(shifted)):
        for root, scale in _factors(writers, factor) if _same(writers, again, factor) else ():
            inverse = _of_rows(writers, root, _RSQRT)
            spread = None if inverse is None else _spread(writers, inverse.inputs[0])
            if spread is None or spread.x is not x or not _same(writers, spread.centre, centre):
                continue
            centred = _is_mean(writers, spread.centre, x, spread.axis)
            # Only numbers of rows may be reshaped.
            alike = (rest, difference.inputs[1]) == (difference.outputs[0], shifted.outputs[0])
            reshaped = not alike or again is not factor or centre is not spread.centre
            rows = scale is None and _number(bias) == 0 and _beside_rows(x, spread.axis, rest)
            if centred and _beside_rows(x, spread.axis, root) and (rows or not reshaped):
                return _Norm(x, spread.axis, spread.epsilon, True, scale, None if rows else bias)
    return None


def _factors(writers: Writers, factor: Operand) -> Iterator[tuple[Operand, Operand | None]]:
    """Yield what may be a reciprocal root, and what it is multiplied with, if it is."""
    yield factor, None
    product = _of(writers, factor, _MUL)
    yield from () if product is None else _pairs(product)


def _alone(writers: Writers, last: Operation, norm: _Norm, readers: Mapping[Operand | None, int]) -> bool:
    """Tell whether nothing else reads what lies between x and the last operation."""
    between, left = dict[Operation, None](), [last]
    while left:
        for operand in left.pop().inputs:
            writer = None if operand in (norm.x, norm.scale, norm.bias) else writers.get(operand)
            if writer is not None and writer not in between:
                between[writer] = None
                left.append(writer)
    reads = Counter(o for operation in (*between, last) for o in operation.inputs)
    return all(readers[o] == reads[o] for operation in between for o in operation.outputs)


def _written(last: Operation, norm: _Norm) -> list[Operation] | None:
    """Return the operations that compute what ends with an operation; None if they give another type.

    Constants of one element with more dimensions than x give the result their rank.
    """
    given = [o for o in (norm.x, norm.scale, norm.bias) if o is not None and o.value is None]
    place = GraphExpansion(Graph(inputs=given).with_operations(()), last.outputs[0].name, last.origin)
    x, axis, epsilon, centred, *_ = norm
    y = place.add("layer_normalization", x, axis=axis, epsilon=epsilon, centred=centred)
    for op, operand in (("mul", norm.scale), ("add", norm.bias)):
        y = y if operand is None else place.add(op, y, operand)
    if y.type != last.outputs[0].type:
        return None
    *others, end = place.graph.operations
    if last.activation is not None:
        end = replace(end, attrs={**end.attrs, "activation": last.activation})
    return [*others, replace_outputs(end, {y: last.outputs[0]})]
