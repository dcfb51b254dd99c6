"""Layers over the last axis but one become products with the weights on the left.

MLP-Mixers and their kin mix tokens: they transpose the last two axes, apply fully connected layers, and
transpose back. The transpose of (x^T W^T) is W x: no transposition is left, and what follows is in x's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpunn.graph.consumers import consumers
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.ops.contraction.batch_matmul import batch_matmul
from gpunn.ops.contraction.matmul import fully_connected
from gpunn.ops.movement.basic import reshape, transpose
from gpunn.passes.combine import reshapes
from gpunn.passes.expand import GraphExpansion
from gpunn.passes.forms import ADD
from gpunn.passes.prune import prune_unread
from gpunn.passes.rewrite import with_others
from gpunn.types import DType

Readers = Mapping[Operand, Sequence[Operation]]


def multiply_from_left(model: Graph) -> Graph:
    """Multiply what two transpositions of the last two axes enclose with the weights of layers between them.

    Reshapes that keep these axes, and functions of single elements, may stand between, too; nothing else may
    read what they give.
    """
    readers, results = consumers(model), model.results
    found: dict[Operation, list[Operation]] = {}
    for first in filter(_swaps, model.operations):
        for layer in readers.get(first.outputs[0], ()):
            chain = _chain(layer, first.outputs[0], readers, results)
            if chain:
                found.update((operation, []) for operation in chain)
                found[chain[-1]] = _multiplied(first, chain)
    return prune_unread(with_others(model, found)) if found else model


def _swaps(operation: Operation) -> bool:
    """Tell whether an operation exchanges the last two axes of reals."""
    y = operation.outputs[0].type
    if operation.definition is not transpose or y.dtype is not DType.FLOAT32 or y.rank < 2:
        return False
    *others, a, b = range(y.rank)
    return tuple(operation.attrs["perm"]) == (*others, b, a)


def _chain(layer: Operation, x: Operand, readers: Readers, results: set[Operand]) -> list[Operation]:
    """Return operations from a layer on to the transposition behind it; [] if there is no such chain."""
    chain: list[Operation] = []
    operation = layer
    while _fits(operation, x) and (chain or operation.definition is fully_connected):
        chain.append(operation)
        (x,) = operation.outputs
        if operation.definition is transpose:
            return chain
        behind = readers.get(x, ())
        if x in results or len(behind) != 1:
            break
        (operation,) = behind
    return []


def _fits(operation: Operation, x: Operand) -> bool:
    """Tell whether an operation on x computes the same of each column on its own, or exchanges the axes."""
    y = operation.outputs[0]
    if operation.definition is fully_connected:
        _, *weights = operation.inputs
        constant = all(w is None or w.value is not None for w in weights)
        return constant and y.type.shape[-2:-1] == x.type.shape[-2:-1] and not operation.integer
    if operation.definition.algebra.pointwise:
        return operation.inputs == (x,) and y.type.dtype is x.type.dtype
    return _swaps(operation) or (reshapes(operation) and y.type.shape[-2:] == x.type.shape[-2:])


def _multiplied(first: Operation, chain: Sequence[Operation]) -> list[Operation]:
    """Return the operations that compute the result of a chain from what the transposition before takes."""
    x, y = first.inputs[0], chain[-1].outputs[0]
    assert x is not None
    to = GraphExpansion.of([x], y.name, chain[0].origin)
    for operation in chain[:-1]:
        if operation.definition is fully_connected:
            _, filter, *bias = operation.inputs
            x = to.add(batch_matmul.name, filter, x)
            x = _activated(to, x, bias[0] if bias else None, operation.attrs["activation"])
        elif operation.definition.algebra.pointwise:
            x = to.add(operation.op, x, **operation.attrs)
        *others, rows, columns = operation.outputs[0].type.shape
        if x.type.shape != (*others, columns, rows):
            x = to.add(reshape.name, x, shape=(*others, columns, rows))
    return to.writing({x: y})


def _activated(to: GraphExpansion, x: Operand, bias: Operand | None, activation: str | None) -> Operand:
    """Add a bias for each row of matrices, and apply an activation."""
    if bias is not None and bias.value is not None:
        return to.add(ADD.name, x, to.constant(bias.value[:, None]), activation=activation)
    return x if activation is None else to.add(activation, x)
