"""Layer normalisation, which converters write as means, squares, a root and a product.

With d = x - mean(x) and s = mean(d^2) + epsilon, all along the same axes, these are d rsqrt(s), d / sqrt(s),
and, as Keras writes it, x f + (bias - mean(x) f) with f = rsqrt(s) scale. With d = x it is RMSNorm. LiteRT
Torch writes them with reshapes between: its means lose the dimension, and those of groups of channels are of
a reshape of x. One or two kernels compute what is six dispatches otherwise, most of which read or write the
whole tensor.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.ops import OPS
from gpunn.ops.kernels.strides import broadcast_strides, merge
from gpunn.ops.normalization.moments import groups_of
from gpunn.ops.op import Op
from gpunn.passes.expand import GraphExpansion
from gpunn.passes.rewrite import replace_outputs
from gpunn.types import DType, Shape

_ADD, _SUB, _MUL, _DIV, _SQUARED_DIFFERENCE, _SQUARE, _SQRT, _RSQRT, _MEAN, _SUM, _NEG, _BROADCAST = (
    OPS[name]
    for name in (
        *("add", "sub", "mul", "div", "squared_difference", "square", "sqrt", "rsqrt", "mean", "reduce_sum"),
        *("neg", "broadcast_to"),
    )
)
# By how much a share of a mean is off where it is rounded to that type; 1 / (n - 1) is farther from 1 / n.
_ROUNDED = {DType.FLOAT32: 2.0**-22, DType.FLOAT16: 2.0**-10}

Writers = Mapping[Operand | None, Operation]


class _Norm(NamedTuple):
    """A normalisation of x along axes; centred: the mean is taken out. Then a scale and a bias, if any.

    source: what is read beside x, which is a reshape of it.
    """

    x: Operand
    axes: tuple[int, ...]
    epsilon: float
    centred: bool
    scale: Operand | None = None
    bias: Operand | None = None
    source: Operand | None = None


class _Spread(NamedTuple):
    """The mean of squares along axes, and epsilon. The squares are of `away`, or of x - `centre`, or both."""

    axes: tuple[int, ...]
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
        forms = (form(writers, *pair) for pair in _pairs(last) for form in (_keras, _of_groups))
        return next(filter(None, forms), None)
    if last.definition in (_MUL, _DIV):
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


def _beside_rows(x: Operand | None, axes: tuple[int, ...], operand: Operand | None) -> bool:
    """Tell whether an operand has one number for each mean of x along axes, and is broadcast to its terms."""
    if x is None or operand is None:
        return False
    shape, rank = operand.type.shape, x.type.rank
    beside = tuple(1 if d in axes else n for d, n in enumerate(x.type.shape))
    return len(shape) <= rank and (1,) * (rank - len(shape)) + shape == beside


def _number(operand: Operand | None) -> float | None:
    """Return the value of a constant with one element."""
    if operand is None or operand.value is None or operand.value.size != 1:
        return None
    return float(operand.value.reshape(()))


def _mean(writers: Writers, operand: Operand | None) -> tuple[Operand, tuple[int, ...]] | None:
    """Return of what an operand is the mean, or a reshape of it, and along which axes."""
    found = _of_rows(writers, operand, _MEAN) or _sum_of_shares(writers, operand)
    x = None if found is None else found.inputs[0]
    if found is None or x is None:
        return None
    axes = sorted({axis % x.type.rank for axis in found.attrs["axes"]})
    long = [axis for axis in axes if x.type.shape[axis] != 1] or axes[:1]
    return (x, tuple(long)) if long and groups_of(x.type.shape, long) is not None else None


def _is_mean(writers: Writers, operand: Operand | None, x: Operand | None, axes: tuple[int, ...]) -> bool:
    """Tell whether an operand is the mean of x along axes, beside its terms."""
    return _mean(writers, operand) == (x, axes) and _beside_rows(x, axes, operand)


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
        squares, axes = found
        if (difference := _of(writers, squares, _SQUARED_DIFFERENCE)) is not None:
            return _Spread(axes, epsilon, None, *difference.inputs)
        square = _of(writers, squares, _SQUARE, _MUL)
        if square is not None and square.inputs[0] is square.inputs[-1]:
            away = _of(writers, square.inputs[0], _SUB)
            return _Spread(axes, epsilon, square.inputs[0], *(() if away is None else away.inputs))
    return None


def _quotient(writers: Writers, last: Operation, away: Operand, factor: Operand) -> _Norm | None:
    """Return the normalisation that is away times a factor, or divided by it."""
    root = _of_rows(writers, factor, _RSQRT if last.definition is _MUL else _SQRT)
    spread = None if root is None else _spread(writers, root.inputs[0])
    if spread is None or not _beside_rows(away, spread.axes, factor):
        return None
    difference = _of(writers, away, _SUB)
    if difference is None or not _is_mean(writers, difference.inputs[1], difference.inputs[0], spread.axes):
        same = spread.away is away
        return _Norm(away, spread.axes, spread.epsilon, False) if same else None
    x, centre = difference.inputs
    same = spread.away is away or (x, centre) == (spread.x, spread.centre)
    return _Norm(x, spread.axes, spread.epsilon, True) if x is not None and same else None


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
            centred = _is_mean(writers, spread.centre, x, spread.axes)
            # Only numbers of rows may be reshaped.
            alike = (rest, difference.inputs[1]) == (difference.outputs[0], shifted.outputs[0])
            reshaped = not alike or again is not factor or centre is not spread.centre
            rows = scale is None and _number(bias) == 0 and _beside_rows(x, spread.axes, rest)
            if centred and _beside_rows(x, spread.axes, root) and (rows or not reshaped):
                return _Norm(x, spread.axes, spread.epsilon, True, scale, None if rows else bias)
    return None


def _factors(writers: Writers, factor: Operand) -> Iterator[tuple[Operand, Operand | None]]:
    """Yield what may be a reciprocal root, and what it is multiplied with, if it is."""
    yield factor, None
    product = _of(writers, factor, _MUL)
    yield from () if product is None else _pairs(product)


def _of_groups(writers: Writers, product: Operand, rest: Operand) -> _Norm | None:
    """Return the normalisation that is x f + (bias - mean f), with f and mean of groups, a reshape of x."""
    scaled = _of(writers, product, _MUL)
    for x, use in () if scaled is None else _pairs(scaled):
        factor, shift = _before_repeats(writers, use), _before_repeats(writers, rest)
        for root, scale in _factors(writers, factor):
            inverse = _of_rows(writers, root, _RSQRT)
            spread = None if inverse is None else _spread(writers, inverse.inputs[0])
            groups = None if spread is None else spread.x
            if spread is None or groups is None or not _same(writers, groups, x):
                continue
            fits = all(_placed_alike(writers, o, x, groups) for o in (use, rest))
            beside = _beside_rows(groups, spread.axes, root)
            for bias, centre in _biases(writers, shift, factor) if fits and beside else ():
                if all(_is_mean(writers, o, groups, spread.axes) for o in (centre, spread.centre)):
                    return _Norm(groups, spread.axes, spread.epsilon, True, scale, bias, x)
    return None


def _before_repeats(writers: Writers, operand: Operand) -> Operand:
    """Return an operand before reshapes, and before it was repeated along dimensions that were 1."""
    before = _before_reshapes(writers, operand) or operand
    repeated = _of(writers, before, _BROADCAST)
    return (None if repeated is None else repeated.inputs[0]) or before


def _placed_alike(writers: Writers, operand: Operand, x: Operand, groups: Operand) -> bool:
    """Tell whether an operand is broadcast to x as, before reshapes, it is to a reshape of x."""
    before = _before_reshapes(writers, operand) or operand
    walks = [
        merge(to.type.shape, broadcast_strides(of.type.shape, to.type.shape))
        for of, to in ((operand, x), (before, groups))
        if _fits(of.type.shape, to.type.shape)
    ]
    return len(walks) == 2 and walks[0] == walks[1]


def _fits(shape: Shape, to: Shape) -> bool:
    """Tell whether a shape is broadcast to another one."""
    pairs = zip(shape[::-1], to[::-1], strict=False)
    return len(shape) <= len(to) and all(n in (1, m) for n, m in pairs)


def _biases(writers: Writers, shift: Operand, factor: Operand) -> Iterator[tuple[Operand | None, Operand]]:
    """Yield what may be the bias and the mean, if an operand is bias - mean factor."""
    if (difference := _of(writers, shift, _SUB)) is not None:
        yield from ((difference.inputs[0], mean) for mean in _others(writers, difference.inputs[1], factor))
    sums = _of(writers, shift, _ADD)
    for product, bias in ((shift, None),) if sums is None else _pairs(sums):
        for less in _others(writers, product, factor):
            yield from ((bias, mean) for mean in _negated(writers, less))


def _others(writers: Writers, operand: Operand | None, factor: Operand) -> Iterator[Operand]:
    """Yield what is multiplied with a factor, if an operand is such a product."""
    product = _of(writers, operand, _MUL)
    yield from () if product is None else (a for a, b in _pairs(product) if b is factor)


def _negated(writers: Writers, operand: Operand) -> Iterator[Operand]:
    """Yield what an operand is the negative of."""
    if (negative := _of(writers, operand, _NEG)) is not None and negative.inputs[0] is not None:
        yield negative.inputs[0]
    product = _of(writers, operand, _MUL)
    yield from () if product is None else (a for a, b in _pairs(product) if _number(b) == -1)


def _alone(writers: Writers, last: Operation, norm: _Norm, readers: Mapping[Operand | None, int]) -> bool:
    """Tell whether nothing else reads what lies between x and the last operation."""
    between, left = dict[Operation, None](), [last]
    while left:
        for operand in left.pop().inputs:
            outside = operand in (norm.x, norm.source, norm.scale, norm.bias)
            writer = None if outside else writers.get(operand)
            if writer is not None and writer not in between:
                between[writer] = None
                left.append(writer)
    reads = Counter(o for operation in (*between, last) for o in operation.inputs)
    return all(readers[o] == reads[o] for operation in between for o in operation.outputs)


def _written(last: Operation, norm: _Norm) -> list[Operation] | None:
    """Return the operations that compute what ends with an operation; None if they cannot.

    Constants of one element with more dimensions than x give the result their rank.
    """
    given = [o for o in (norm.x, norm.scale, norm.bias) if o is not None and o.value is None]
    place = GraphExpansion(Graph(inputs=given).with_operations(()), last.outputs[0].name, last.origin)
    x, axes, epsilon, centred, *_ = norm
    y = place.add("layer_normalization", x, axes=axes, epsilon=epsilon, centred=centred)
    for op, operand in (("mul", norm.scale), ("add", norm.bias)):
        y = y if operand is None else place.add(op, y, operand)
    if last.activation is not None:
        y = place.add(last.activation, y)
    if norm.source is not None:
        y = place.add("reshape", y, shape=norm.source.type.shape)
    *others, end = place.graph.operations
    return [*others, replace_outputs(end, {y: last.outputs[0]})] if y.type == last.outputs[0].type else None
