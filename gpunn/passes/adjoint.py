"""A product of matrices takes an operand that is transposed before it as it was, and transposes by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.graph.writers import Writers, writers_of
from gpunn.ops.contraction.batch_matmul import batch_matmul
from gpunn.ops.movement.basic import reshape, transpose
from gpunn.passes.combine import reshapes
from gpunn.passes.forms import readers_of
from gpunn.passes.prune import prune_unread
from gpunn.passes.rewrite import keeps_scale
from gpunn.types import Shape


def fold_adjoints(model: Graph) -> Graph:
    """Let products of matrices transpose what is transposed so that rows become columns.

    Keys of attention often are. A transposition that moves other axes, too, still does, but rows stay rows,
    which takes less time.
    """
    moves = _Moves(writers_of(model), readers_of(model))
    made: list[Operation] = []
    for operation in model.operations:
        if operation.definition is batch_matmul:
            operation = _folded(operation, moves, made)
        made.append(operation)
    changed = any(new is not old for new, old in zip(made, model.operations, strict=False))
    return prune_unread(model.with_operations(made)) if changed else model


class _Moves(NamedTuple):
    """The operations of a model by their results, and how often each operand is read, or a result of it."""

    writers: Writers
    readers: Mapping[Operand | None, int]

    def transposition(self, operand: Operand) -> Operation | None:
        """Return what makes columns of the rows of matrices; the stack of them may be reshaped behind it.

        None if it would have to be done twice, for others.
        """
        between = [operand]
        while (move := self.writers.get(between[-1])) is not None and reshapes(move):
            (source,) = move.inputs[:1]
            assert source is not None
            between.append(source)
        if move is None or move.definition is not transpose or move.activation is not None:
            return None
        if between[-1].type.shape[-2:] != operand.type.shape[-2:]:
            return None
        perm = move.attrs["perm"]
        alone = all(self.readers[o] == 1 for o in between) or _turned(perm) == tuple(range(len(perm)))
        turns = len(perm) > 1 and perm[-2] == len(perm) - 1
        return move if turns and alone and keeps_scale(move) else None


def _turned(perm: Shape) -> Shape:
    """Return a permutation of axes with the last two exchanged."""
    return (*perm[:-2], *perm[:-3:-1])


def _folded(product: Operation, moves: _Moves, made: list[Operation]) -> Operation:
    """Return the product that transposes by itself what it can; `made` gets what computes its operands."""
    inputs, attrs = [*product.inputs], dict(product.attrs)
    for index, adjoint in enumerate(("adj_a", "adj_b")):
        operand = inputs[index]
        move = None if operand is None else moves.transposition(operand)
        if operand is not None and move is not None:
            inputs[index] = _moved(operand, move, made)
            attrs[adjoint] = not attrs[adjoint]
    return product if attrs == product.attrs else replace(product, inputs=tuple(inputs), attrs=attrs)


def _moved(operand: Operand, move: Operation, made: list[Operation]) -> Operand:
    """Return the operand with its matrices transposed back; `made` gets what moves it so."""
    (found,), perm = move.inputs, _turned(move.attrs["perm"])
    assert found is not None
    steps = (transpose.name, {"perm": perm}, tuple(found.type.shape[axis] for axis in perm))
    back = _turned(operand.type.shape)
    for op, attrs, shape in (steps, (reshape.name, {"shape": back}, back)):
        result = Operand(f"{operand.name}: {op}", operand.type.with_shape(shape), Lifetime.TEMPORARY)
        made.append(Operation(op, (found,), (result,), attrs, move.origin))
        found = result
    return found
