"""Rotary position embedding, which converters write as slices, products, sums and a concatenation.

With a and b the halves of x along an axis, it is x cos + concat(-b, a) sin, as the Llama of Hugging Face has
it, or concat(a cos - b sin, b cos + a sin), as the models of LiteRT Torch have it. Where a and b are every
second element of x, and stand in turn, as in EVA-02, the former is found, too. Each of them takes three
dispatches or more, which read or write most of the tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.writers import Writers, before_reshapes, writers_of
from gpunn.ops.check import FLOATS
from gpunn.ops.elementwise.rotary import rotary_embedding
from gpunn.ops.movement.basic import concat, reshape
from gpunn.passes.expand import GraphExpansion
from gpunn.passes.forms import ADD, MUL, SUB, alone, negated, pairs, readers_of, written_by
from gpunn.passes.phases import Phase, phase_of
from gpunn.passes.rejoin import Pieces, count_pieces, pieces_of
from gpunn.passes.rewrite import with_others
from gpunn.types import Shape

GetPieces = Callable[[], Pieces]  # which few models need, and takes longer than all else here


class _Turn(NamedTuple):
    """Pairs of x that are turned by angles with these cosines and sines.

    axis: along which a pair is one element of each half; None: it is two neighbours along the last one.
    """

    x: Operand
    cos: Operand
    sin: Operand
    axis: int | None


def fuse_rotary_embeddings(model: Graph) -> Graph:
    """Put rotary_embedding in the place of what computes it."""
    writers, readers, pieces = writers_of(model), readers_of(model), cache(lambda: pieces_of(model))
    found: dict[Operation, list[Operation]] = {}
    for operation in model.operations:
        for turn in _turns(writers, operation, pieces):
            if alone(writers, operation, turn[:-1], readers):
                found[operation] = _turned(turn, operation)
                break
    return with_others(model, found)


def _turned(turn: _Turn, last: Operation) -> list[Operation]:
    """Return the operations that turn pairs, in the place of the last one; neighbours get an axis."""
    *operands, axis = turn
    (y,) = last.outputs
    if axis is not None:
        return [Operation(rotary_embedding.name, turn[:-1], (y,), {"axis": axis}, last.origin)]
    to = GraphExpansion.of(operands, y.name, last.origin)
    pairs = [to.add(reshape.name, o, shape=_of_pairs(o.type.shape)) for o in operands]
    result = to.add(reshape.name, to.add(rotary_embedding.name, *pairs, axis=-1), shape=y.type.shape)
    return to.writing({result: y})


def _of_pairs(shape: Shape) -> Shape:
    """Return a shape in which neighbours along the last axis have an axis of their own."""
    *others, last = shape
    return (*others, 1, 1) if last == 1 else (*others, last // 2, 2)


def _turns(writers: Writers, last: Operation, pieces: GetPieces) -> Iterator[_Turn]:
    """Yield what may end with an operation, if its result has the type of x."""
    y = last.outputs[0]
    if last.definition not in (ADD, concat) or last.activation is not None or y.type.dtype not in FLOATS:
        return
    if y.type.size and y.type.quantization is None:
        form = _of_a_sum if last.definition is ADD else _of_halves
        yield from (turn for turn in form(writers, last, pieces) if turn.x.type == y.type)


def _of_a_sum(writers: Writers, last: Operation, pieces: GetPieces) -> Iterator[_Turn]:
    """Yield x cos + concat(-b, a) sin."""
    for near, far in pairs(last):
        first, second = written_by(writers, near, MUL), written_by(writers, far, MUL)
        if first is None or second is None:
            continue
        for (turned, sin), (x, cos) in product(pairs(second), pairs(first)):
            turn = _with_turned(writers, (x, cos), (turned, sin), pieces)
            if turn is not None:
                yield turn


def _with_turned(
    writers: Writers, first: tuple[Operand, Operand], second: tuple[Operand, Operand], pieces: GetPieces
) -> _Turn | None:
    """Return x cos + y sin as a turn, by the factors of both products; None unless y is concat(-b, a)."""
    (x, cos), (y, sin) = first, second
    joined = written_by(writers, before_reshapes(writers, y), concat)
    if joined is None or len(joined.inputs) != 2:
        return None
    axis = joined.call().axis(joined.attrs["axis"], joined.outputs[0].type.rank)
    if joined.outputs[0] is not y:
        found = _are_neighbours(writers, joined, axis, x) and _have_pairs(x, cos, sin)
        return _Turn(x, cos, sin, None) if found else None
    negative, a = joined.inputs
    assert negative is not None and a is not None
    found = any(_are_halves((a, b), x, axis, pieces) for b in negated(writers, negative))
    return _Turn(x, cos, sin, axis) if found else None


def _of_halves(writers: Writers, last: Operation, pieces: GetPieces) -> Iterator[_Turn]:
    """Yield concat(a cos - b sin, b cos + a sin)."""
    if len(last.inputs) != 2:
        return
    axis = last.call().axis(last.attrs["axis"], last.outputs[0].type.rank)
    difference, total = (written_by(writers, i, o) for i, o in zip(last.inputs, (SUB, ADD), strict=True))
    if difference is None or total is None:
        return
    for (a, cos), (b, sin) in _products(writers, difference):
        x, _ = pieces().get(a, (None, None))
        if x is not None and _are_halves((a, b), x, axis, pieces):
            others = ((b, cos), (a, sin))
            if any({*found} == {*others} for found in _products(writers, total)):
                yield _Turn(x, cos, sin, axis)


def _products(
    writers: Writers, operation: Operation
) -> Iterator[tuple[tuple[Operand, Operand], tuple[Operand, Operand]]]:
    """Yield the factors of both operands, if these are products, in any order."""
    first, second = (written_by(writers, operand, MUL) for operand in operation.inputs)
    if first is not None and second is not None:
        yield from ((one, other) for one in pairs(first) for other in pairs(second))


def _are_halves(parts: tuple[Operand, Operand], x: Operand, axis: int, pieces: GetPieces) -> bool:
    """Tell whether two tensors are the halves of x along an axis, in this order."""
    a, b = parts
    return a.type == b.type and count_pieces(parts, x, axis, pieces()) == 2


def _are_neighbours(writers: Writers, joined: Operation, axis: int, x: Operand) -> bool:
    """Tell whether a concatenation has -b and a in turn; a is every second element of x, b the others."""
    shape = joined.outputs[0].type.shape
    if axis != len(shape) - 1 or not x.type.rank or x.type.shape[-1] % 2 or shape != _of_pairs(x.type.shape):
        return False
    negative, a = (before_reshapes(writers, operand) for operand in joined.inputs)
    assert negative is not None and a is not None
    whole = phase_of(writers, x)
    *outer, step = whole.steps
    first, second = (
        Phase(whole.source, (*whole.offsets[:-1], whole.offsets[-1] + k * step), (*outer, 2 * step))
        for k in (0, 1)
    )
    ends = [phase_of(writers, b) for b in negated(writers, negative) if b.type == a.type]
    return (
        a.type.shape == (*x.type.shape[:-1], shape[-2]) and phase_of(writers, a) == first and second in ends
    )


def _have_pairs(x: Operand, *tables: Operand) -> bool:
    """Tell whether tables have one number for each pair of neighbours of x, or for each of these."""
    last = x.type.shape[-1]
    return all(t.type.rank and t.type.shape[-1] in (1, last) for t in tables)
