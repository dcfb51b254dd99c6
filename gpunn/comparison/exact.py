"""The reference: a model computed in numpy by its ops' meaning, real numbers in float64."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gpunn.graph.exact import evaluate, widen
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.planning.liveness import last_uses
from gpunn.types import Array


def narrow(value: Array, operand: Operand) -> Array:
    """Convert a value to the dtype of an operand, so that a backend can take it."""
    with np.errstate(over="ignore"):
        return np.asarray(value, operand.type.dtype.numpy, order="C")


def renamed(
    operation: Operation, variant: Operation, values: Mapping[Operand, Array]
) -> Mapping[Operand, Array]:
    """Map the values of an operation's inputs to the operands that `variant` reads in the same places."""
    if variant is operation:
        return values
    pairs = zip(operation.inputs, variant.inputs, strict=True)
    return {v: values[o] for o, v in pairs if o is not None and v is not None and v.value is None}


def start(model: Graph, inputs: Sequence[Array]) -> dict[Operand, Array]:
    """Return what is known before the first operation: inputs, and variables with their initial values."""
    given = dict(zip(model.inputs, inputs, strict=True))
    return {operand: widen(value) for operand, value in (*given.items(), *model.variables.items())}


def run_exact(model: Graph, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """Compute the outputs of a model in its initial state."""
    values = start(model, inputs)
    for _ in evaluations(model, values):
        pass
    return tuple(widen(o.value) if o.value is not None else values[o] for o in model.outputs)


def evaluations(model: Graph, values: dict[Operand, Array]) -> Iterator[Operation]:
    """Compute a model operation by operation, and yield each operation once its results are in `values`.

    `values` begin as start() gives them, and later hold no operand that only earlier operations read.
    """
    unread = last_uses(model)
    for operation in model.operations:
        values.update(zip(operation.outputs, evaluate(operation, values), strict=True))
        yield operation
        for operand in unread.get(operation, ()):
            values.pop(operand, None)
