"""Layer normalisation, which converters write as means, squares, a root and a product.

With d = x - mean(x) and s = mean(d^2) + epsilon, all along one axis, these are d rsqrt(s), d / sqrt(s), and,
as Keras writes it, x f + (bias - mean(x) f) with f = rsqrt(s) scale. With d = x it is RMSNorm. One kernel
computes what is six dispatches otherwise, most of which read or write the whole tensor.
"""

from __future__ import annotations

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


def _number(operand: Operand | None) -> float | None:
    """Return the value of a constant with one element."""
    if operand is None or operand.value is None or operand.value.size != 1:
        return None
    return float(operand.value.reshape(()))


def _mean(writers: Writers, operand: Operand | None) -> tuple[Operand, int] | None:
    """Return of what an operand is the mean, and along which axis, that stays."""
    found = _of(writers, operand, _MEAN) or _sum_of_shares(writers, operand)
    if found is None or len(found.attrs["axes"]) != 1 or not found.attrs["keep_dims"]:
        return None
    x = found.inputs[0]
    return None if x is None else (x, found.attrs["axes"][0] % x.type.rank)


def _sum_of_shares(writers: Writers, operand: Operand | None) -> Operation | None:
    """Return a sum that is multiplied with 1 / the number of its terms, or divided by that."""
    scaled = _of(writers, operand, _MUL, _DIV)
    for total, constant in () if scaled is None else _pairs(scaled):
        found, share = _of(writers, total, _SUM), _number(constant)
        if found is not None and share and scaled is not None:
            terms = found.call().x.size / max(found.outputs[0].type.size, 1)
            off = share * terms - 1 if scaled.definition is _MUL else share / max(terms, 1) - 1
            return found if abs(off) <= _ROUNDED.get(found.call().x.dtype, 0) else None
    return None


def _spread(writers: Writers, operand: Operand | None) -> _Spread | None:
    """Return what an operand is the spread of."""
    total = _of(writers, operand, _ADD)
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
    root = _of(writers, factor, _RSQRT if last.definition is _MUL else _SQRT)
    spread = None if root is None else _spread(writers, root.inputs[0])
    if spread is None:
        return None
    difference = _of(writers, away, _SUB)
    if difference is None or _mean(writers, difference.inputs[1]) != (difference.inputs[0], spread.axis):
        same = spread.away is away
        return _Norm(away, spread.axis, spread.epsilon, False) if same else None
    x, centre = difference.inputs
    squared = _of(writers, spread.away, _SUB)
    same = spread.away is away or (x, centre) in ((spread.x, spread.centre), squared and squared.inputs)
    return _Norm(x, spread.axis, spread.epsilon, True) if x is not None and same else None


def _keras(writers: Writers, product: Operand, rest: Operand) -> _Norm | None:
    """Return the normalisation that is x f + (bias - mean f)."""
    scaled, difference = _of(writers, product, _MUL), _of(writers, rest, _SUB)
    shifted = None if difference is None else _of(writers, difference.inputs[1], _MUL)
    if scaled is None or difference is None or shifted is None:
        return None
    for x, factor in _pairs(scaled):
        for centre, again in _pairs(shifted):
            found = _mean(writers, centre)
            if again is not factor or found is None or found[0] is not x:
                continue
            for root, scale in _factors(writers, factor):
                spread = _spread(writers, root.inputs[0])
                if spread is not None and (spread.x, spread.centre, spread.axis) == (x, centre, found[1]):
                    return _Norm(x, found[1], spread.epsilon, True, scale, difference.inputs[0])
    return None


def _factors(writers: Writers, factor: Operand) -> Iterator[tuple[Operation, Operand | None]]:
    """Yield a reciprocal root, and what it is multiplied with, if it is."""
    root, product = _of(writers, factor, _RSQRT), _of(writers, factor, _MUL)
    if root is not None:
        yield root, None
    for a, scale in () if product is None else _pairs(product):
        if (root := _of(writers, a, _RSQRT)) is not None:
            yield root, scale


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
