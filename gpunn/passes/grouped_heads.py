"""Heads of attention that share keys and values: these are read as they are, not copied for each head.

Grouped-query attention (Ainslie et al., 2023, arXiv:2305.13245) has several heads of queries for one of keys
and values. Converters copy the latter, by a broadcast and a reshape, to have as many of each. A product of
stacks of matrices broadcasts by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.writers import Writers, writers_of
from gpunn.ops.contraction.batch_matmul import batch_matmul
from gpunn.ops.movement.basic import reshape, transpose
from gpunn.ops.movement.repeat import broadcast_to
from gpunn.ops.normalization.normalize import softmax
from gpunn.passes.combine import reshapes
from gpunn.passes.expand import GraphExpansion
from gpunn.passes.forms import ADD, MUL, number, pairs, readers_of
from gpunn.passes.prune import prune_unread
from gpunn.passes.rewrite import with_others
from gpunn.types import Shape


class _Shared(NamedTuple):
    """Matrices each of which is the second factor of several products: so many groups of so many heads.

    They are the source, times numbers, after moves of its elements, if there are such numbers: these fit
    together with what is before a move. Of both, the last one comes first.
    """

    source: Operand
    groups: int
    heads: int
    factors: tuple[Operand, ...]
    moves: tuple[Operation, ...]


class _Link(NamedTuple):
    """An operation of attention: a product with what heads share, softmax, or arithmetic with a mask."""

    operation: Operation
    shared: _Shared | None
    mask: Operand | None


def share_heads(model: Graph) -> Graph:
    """Let products of attention broadcast keys and values that several heads share."""
    if all(o.definition is not broadcast_to for o in model.operations):
        return model
    finder = _Finder(writers_of(model), readers_of(model))
    instead: dict[Operation, list[Operation]] = {}
    for operation in model.operations:
        shared = finder.shared(operation)
        if shared is not None:
            chain = [*finder.scores(operation.inputs[0], shared), _Link(operation, shared, None)]
            instead.update((link.operation, []) for link in chain)
            instead[operation] = _written(chain, shared)
    return prune_unread(with_others(model, instead)) if instead else model


@dataclass(frozen=True, slots=True)
class _Finder:
    """Knows which operation computes an operand, and how often it is read."""

    writers: Writers
    readers: Mapping[Operand | None, int]

    def shared(self, product: Operation) -> _Shared | None:
        """Return what a product's second factor is copies of; None for others."""
        if product.definition is not batch_matmul or product.integer or product.outputs[0].hybrid:
            return None
        a, operand = product.inputs
        if a is None or operand is None or a.type.shape[:-2] != operand.type.shape[:-2]:
            return None
        size, factors = math.prod(operand.type.shape[-2:]), list[Operand]()
        while (writer := self.writers.get(operand)) is not None and writer.definition is not broadcast_to:
            scaled = _scaled(writer)
            if scaled is not None:
                operand, factor = scaled
                factors.append(factor)
            elif reshapes(writer) and writer.inputs[0] is not None:
                operand = writer.inputs[0]
            else:
                return None
        source = None if writer is None else writer.inputs[0]
        found = None if source is None else _groups(source.type.shape, operand.type.shape, size)
        if source is None or found is None:
            return None
        moves = list[Operation]()
        while factors and self.readers[source] == 1 and (move := self.writers.get(source)) is not None:
            before = move.inputs[0]
            if before is None or move.definition not in (reshape, transpose) or move.activation is not None:
                break
            moves.append(move)
            source = before
        return _Shared(source, *found, tuple(factors), tuple(moves))

    def scores(self, weights: Operand | None, values: _Shared) -> list[_Link]:
        """Return what computes weights from queries and keys that are shared as the values are.

        Nothing, if it is something else, or others read what lies between.
        """
        found: list[_Link] = []
        operand = weights
        while self.readers[operand] == 1 and (writer := self.writers.get(operand)) is not None:
            keys, masked = self.shared(writer), _masked(writer)
            if keys is not None:
                alike = (keys.groups, keys.heads) == (values.groups, values.heads)
                return [_Link(writer, keys, None), *found[::-1]] if alike and found else []
            if reshapes(writer) and not found:
                operand = writer.inputs[0]
            elif not found and _is_softmax(writer) and _same_matrices(weights, operand):
                operand = writer.inputs[0]
                found.append(_Link(writer, None, None))
            elif found and masked is not None:
                operand, mask = masked
                found.append(_Link(writer, None, mask))
            else:
                break
        return []


def _scaled(operation: Operation) -> tuple[Operand, Operand] | None:
    """Return what an operation multiplies by a number that adds no axes, and the number; None for others."""
    if operation.definition is not MUL or operation.activation is not None or operation.integer:
        return None
    numbers = ((x, factor) for x, factor in pairs(operation) if number(factor) is not None)
    return next(((x, factor) for x, factor in numbers if factor.type.rank < 2 <= x.type.rank), None)


def _groups(given: Shape, copied: Shape, size: int) -> tuple[int, int] | None:
    """Return how many matrices of a size a broadcast copies, and how often; None if along other axes."""
    given = (1,) * (len(copied) - len(given)) + given
    axes = [d for d, (n, m) in enumerate(zip(given, copied, strict=True)) if n != m]
    if len(axes) != 1 or not size or math.prod(copied[axes[0] + 1 :]) != size:
        return None
    return math.prod(copied[: axes[0]]), copied[axes[0]]


def _is_softmax(operation: Operation) -> bool:
    """Tell whether an operation is softmax of each row."""
    if operation.definition is not softmax or operation.integer:
        return False
    rank = operation.outputs[0].type.rank
    return operation.call().axis(operation.attrs["axis"], rank) == rank - 1


def _same_matrices(a: Operand | None, b: Operand | None) -> bool:
    """Tell whether two tensors have matrices of the same shape."""
    return a is not None and b is not None and a.type.shape[-2:] == b.type.shape[-2:]


def _masked(operation: Operation) -> tuple[Operand, Operand] | None:
    """Return what an operation adds to, or multiplies by, what is the same for all heads, and that."""
    if operation.definition not in (ADD, MUL) or operation.activation is not None or operation.integer:
        return None
    y = operation.outputs[0].type
    for x, mask in pairs(operation):
        same = mask.type.size == math.prod(mask.type.shape[-2:])
        if same and (x.type.size, x.type.shape[-2:]) == (y.size, y.shape[-2:]):
            return x, mask
    return None


def _written(chain: Sequence[_Link], values: _Shared) -> list[Operation]:
    """Return the operations of a chain on stacks of matrices: one for each head, of groups of heads.

    If heads have one row each, or a product stands alone, the heads of a group are rows of one matrix.
    """
    first, last = chain[0].operation, chain[-1].operation
    x, y = first.inputs[0], last.outputs[0]
    assert x is not None
    rows, depth = x.type.shape[-2:]
    as_rows = not any(link.operation.attrs["adj_a"] for link in chain if link.shared is not None)
    alone = as_rows and (rows == 1 or len(chain) == 1)
    stack, ones = ((values.groups,), ()) if alone else ((values.groups, values.heads), (1,))
    sources = [o for link in chain if link.shared for o in (link.shared.source, *link.shared.factors)]
    given = [x, *sources, *(link.mask for link in chain if link.mask is not None)]
    to = GraphExpansion.of([o for o in given if o.value is None], y.name, last.origin)
    found = to.add("reshape", x, shape=(*stack, rows * (values.heads if alone else 1), depth))
    for operation, shared, mask in chain:
        attrs = operation.attrs
        if shared is not None:
            b = operation.inputs[1]
            assert b is not None
            matrices = shared.source
            for factor in shared.factors[::-1]:
                matrices = to.add("mul", matrices, factor)
            for move in shared.moves[::-1]:
                matrices = to.add(move.op, matrices, **move.attrs)
            matrices = to.add("reshape", matrices, shape=(values.groups, *ones, *b.type.shape[-2:]))
            found = to.add(operation.op, found, matrices, **attrs)
        elif mask is None:
            found = to.add(operation.op, found, **{**attrs, "axis": -1})
        else:
            if mask.type.rank > 2:
                mask = to.add("reshape", mask, shape=(1, *ones, *mask.type.shape[-2:]))
            found = to.add(operation.op, found, mask, **attrs)
    return to.writing({to.add("reshape", found, shape=y.type.shape): y})
