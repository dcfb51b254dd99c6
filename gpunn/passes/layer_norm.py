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
from collections.abc import Iterator
from typing import NamedTuple

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.writers import Writers, before_reshapes, writers_of
from gpunn.ops import OPS
from gpunn.ops.kernels.strides import broadcast_strides, broadcasts, merge
from gpunn.ops.movement.repeat import broadcast_to
from gpunn.ops.normalization.moments import groups_of
from gpunn.passes.expand import GraphExpansion
from gpunn.passes.forms import (
    ADD,
    MUL,
    SUB,
    alone,
    beside_rows,
    negated,
    number,
    pairs,
    readers_of,
    written_behind_reshapes,
    written_by,
)
from gpunn.passes.rewrite import with_others
from gpunn.types import DType

_DIV, _SQUARED_DIFFERENCE, _SQUARE, _SQRT, _RSQRT, _MEAN, _SUM = (
    OPS[name] for name in ("div", "squared_difference", "square", "sqrt", "rsqrt", "mean", "reduce_sum")
)
# By how much a share of a mean is off where it is rounded to that type; 1 / (n - 1) is farther from 1 / n.
_ROUNDED = {DType.FLOAT32: 2.0**-22, DType.FLOAT16: 2.0**-10}


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
    writers, readers = writers_of(model), readers_of(model)
    found: dict[Operation, list[Operation]] = {}
    for operation in model.operations:
        norm = _ends(writers, operation)
        made = None if norm is None else _written(operation, norm)
        if norm is None or made is None:
            continue
        if alone(writers, operation, (norm.x, norm.source, norm.scale, norm.bias), readers):
            found[operation] = made
    return with_others(model, found)


def _ends(writers: Writers, last: Operation) -> _Norm | None:
    """Return the normalisation that ends with an operation."""
    if last.integer or last.outputs[0].type.dtype not in _ROUNDED:
        return None
    if last.definition is ADD:
        forms = (form(writers, *pair) for pair in pairs(last) for form in (_keras, _of_groups))
        return next(filter(None, forms), None)
    if last.definition in (MUL, _DIV):
        return next(filter(None, (_quotient(writers, last, *pair) for pair in pairs(last))), None)
    return None


def _same(writers: Writers, a: Operand | None, b: Operand | None) -> bool:
    """Tell whether two operands are the same, or reshapes of the same."""
    return before_reshapes(writers, a) is before_reshapes(writers, b)


def _mean(writers: Writers, operand: Operand | None) -> tuple[Operand, tuple[int, ...]] | None:
    """Return of what an operand is the mean, or a reshape of it, and along which axes."""
    found = written_behind_reshapes(writers, operand, _MEAN) or _sum_of_shares(writers, operand)
    x = None if found is None else found.inputs[0]
    if found is None or x is None:
        return None
    axes = sorted({axis % x.type.rank for axis in found.attrs["axes"]})
    long = [axis for axis in axes if x.type.shape[axis] != 1] or axes[:1]
    return (x, tuple(long)) if long and groups_of(x.type.shape, long) is not None else None


def _is_mean(writers: Writers, operand: Operand | None, x: Operand | None, axes: tuple[int, ...]) -> bool:
    """Tell whether an operand is the mean of x along axes, beside its terms."""
    return _mean(writers, operand) == (x, axes) and beside_rows(x, axes, operand)


def _sum_of_shares(writers: Writers, operand: Operand | None) -> Operation | None:
    """Return a sum that is multiplied with 1 / the number of its terms, or divided by that."""
    scaled = written_behind_reshapes(writers, operand, MUL, _DIV)
    for total, constant in () if scaled is None else pairs(scaled):
        found, share = written_behind_reshapes(writers, total, _SUM), number(constant)
        if found is not None and share and scaled is not None:
            terms = found.call().x.size / max(found.outputs[0].type.size, 1)
            off = share * terms - 1 if scaled.definition is MUL else share / max(terms, 1) - 1
            return found if abs(off) <= _ROUNDED.get(found.call().x.dtype, 0) else None
    return None


def _spread(writers: Writers, operand: Operand | None) -> _Spread | None:
    """Return what an operand is the spread of."""
    total = written_behind_reshapes(writers, operand, ADD)
    for variance, constant in () if total is None else pairs(total):
        epsilon, found = number(constant), _mean(writers, variance)
        if epsilon is None or not 0 < epsilon < math.inf or found is None:
            continue
        squares, axes = found
        if (difference := written_by(writers, squares, _SQUARED_DIFFERENCE)) is not None:
            return _Spread(axes, epsilon, None, *difference.inputs)
        square = written_by(writers, squares, _SQUARE, MUL)
        if square is not None and square.inputs[0] is square.inputs[-1]:
            away = written_by(writers, square.inputs[0], SUB)
            return _Spread(axes, epsilon, square.inputs[0], *(() if away is None else away.inputs))
    return None


def _quotient(writers: Writers, last: Operation, away: Operand, factor: Operand) -> _Norm | None:
    """Return the normalisation that is away times a factor, or divided by it."""
    root = written_behind_reshapes(writers, factor, _RSQRT if last.definition is MUL else _SQRT)
    spread = None if root is None else _spread(writers, root.inputs[0])
    if spread is None or not beside_rows(away, spread.axes, factor):
        return None
    difference = written_by(writers, away, SUB)
    if difference is None or not _is_mean(writers, difference.inputs[1], difference.inputs[0], spread.axes):
        same = spread.away is away
        return _Norm(away, spread.axes, spread.epsilon, False) if same else None
    x, centre = difference.inputs
    same = spread.away is away or (x, centre) == (spread.x, spread.centre)
    return _Norm(x, spread.axes, spread.epsilon, True) if x is not None and same else None


def _keras(writers: Writers, product: Operand, rest: Operand) -> _Norm | None:
    """Return the normalisation that is x f + (bias - mean f)."""
    scaled, difference = written_by(writers, product, MUL), written_behind_reshapes(writers, rest, SUB)
    shifted = None if difference is None else written_behind_reshapes(writers, difference.inputs[1], MUL)
    if scaled is None or difference is None or shifted is None:
        return None
    bias = difference.inputs[0]
    for (x, factor), (centre, again) in itertools.product(pairs(scaled), pairs(shifted)):
        for root, scale in _factors(writers, factor) if _same(writers, again, factor) else ():
            inverse = written_behind_reshapes(writers, root, _RSQRT)
            spread = None if inverse is None else _spread(writers, inverse.inputs[0])
            if spread is None or spread.x is not x or not _same(writers, spread.centre, centre):
                continue
            centred = _is_mean(writers, spread.centre, x, spread.axes)
            # Only numbers of rows may be reshaped.
            alike = (rest, difference.inputs[1]) == (difference.outputs[0], shifted.outputs[0])
            reshaped = not alike or again is not factor or centre is not spread.centre
            rows = scale is None and number(bias) == 0 and beside_rows(x, spread.axes, rest)
            if centred and beside_rows(x, spread.axes, root) and (rows or not reshaped):
                return _Norm(x, spread.axes, spread.epsilon, True, scale, None if rows else bias)
    return None


def _factors(writers: Writers, factor: Operand) -> Iterator[tuple[Operand, Operand | None]]:
    """Yield what may be a reciprocal root, and what it is multiplied with, if it is."""
    yield factor, None
    product = written_by(writers, factor, MUL)
    yield from () if product is None else pairs(product)


def _of_groups(writers: Writers, product: Operand, rest: Operand) -> _Norm | None:
    """Return the normalisation that is x f + (bias - mean f), with f and mean of groups, a reshape of x."""
    scaled = written_by(writers, product, MUL)
    for x, use in () if scaled is None else pairs(scaled):
        factor, shift = _before_repeats(writers, use), _before_repeats(writers, rest)
        for root, scale in _factors(writers, factor):
            inverse = written_behind_reshapes(writers, root, _RSQRT)
            spread = None if inverse is None else _spread(writers, inverse.inputs[0])
            groups = None if spread is None else spread.x
            if spread is None or groups is None or not _same(writers, groups, x):
                continue
            fits = all(_placed_alike(writers, o, x, groups) for o in (use, rest))
            beside = beside_rows(groups, spread.axes, root)
            for bias, centre in _biases(writers, shift, factor) if fits and beside else ():
                if all(_is_mean(writers, o, groups, spread.axes) for o in (centre, spread.centre)):
                    return _Norm(groups, spread.axes, spread.epsilon, True, scale, bias, x)
    return None


def _before_repeats(writers: Writers, operand: Operand) -> Operand:
    """Return an operand before reshapes, and before it was repeated along dimensions that were 1."""
    before = before_reshapes(writers, operand) or operand
    repeated = written_by(writers, before, broadcast_to)
    return (None if repeated is None else repeated.inputs[0]) or before


def _placed_alike(writers: Writers, operand: Operand, x: Operand, groups: Operand) -> bool:
    """Tell whether an operand is broadcast to x as, before reshapes, it is to a reshape of x."""
    before = before_reshapes(writers, operand) or operand
    walks = [
        merge(to.type.shape, broadcast_strides(of.type.shape, to.type.shape))
        for of, to in ((operand, x), (before, groups))
        if broadcasts(of.type.shape, to.type.shape)
    ]
    return len(walks) == 2 and walks[0] == walks[1]


def _biases(writers: Writers, shift: Operand, factor: Operand) -> Iterator[tuple[Operand | None, Operand]]:
    """Yield what may be the bias and the mean, if an operand is bias - mean factor."""
    if (difference := written_by(writers, shift, SUB)) is not None:
        yield from ((difference.inputs[0], mean) for mean in _others(writers, difference.inputs[1], factor))
    sums = written_by(writers, shift, ADD)
    for product, bias in ((shift, None),) if sums is None else pairs(sums):
        for less in _others(writers, product, factor):
            yield from ((bias, mean) for mean in negated(writers, less))


def _others(writers: Writers, operand: Operand | None, factor: Operand) -> Iterator[Operand]:
    """Yield what is multiplied with a factor, if an operand is such a product."""
    product = written_by(writers, operand, MUL)
    yield from () if product is None else (a for a, b in pairs(product) if b is factor)


def _written(last: Operation, norm: _Norm) -> list[Operation] | None:
    """Return the operations that compute what ends with an operation; None if they cannot.

    Constants of one element with more dimensions than x give the result their rank.
    """
    given = [o for o in (norm.x, norm.scale, norm.bias) if o is not None and o.value is None]
    place = GraphExpansion.of(given, last.outputs[0].name, last.origin)
    x, axes, epsilon, centred, *_ = norm
    y = place.add("layer_normalization", x, axes=axes, epsilon=epsilon, centred=centred)
    for op, operand in (("mul", norm.scale), ("add", norm.bias)):
        y = y if operand is None else place.add(op, y, operand)
    if last.activation is not None:
        y = place.add(last.activation, y)
    if norm.source is not None:
        y = place.add("reshape", y, shape=norm.source.type.shape)
    return place.writing({y: last.outputs[0]}) if y.type == last.outputs[0].type else None
