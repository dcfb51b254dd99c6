"""The reference: a model walked in numpy by its ops' meaning, reals in float64."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.types import Array


def widen(value: Array) -> Array:
    """Reals as float64, everything else as it is."""
    return value.astype(np.float64) if value.dtype.kind == "f" else value


def narrow(value: Array, operand: Operand) -> Array:
    """A value in the dtype that the operand has: what a backend can be given."""
    with np.errstate(over="ignore"):
        return np.asarray(value, operand.type.dtype.numpy, order="C")


def evaluate(operation: Operation, values: Mapping[Operand, Array]) -> tuple[Array, ...]:
    """The outputs for the inputs in `values`; the operation has its constants itself."""
    operands = operation.inputs
    wide = [None if o is None else widen(values[o] if o.value is None else o.value) for o in operands]
    return tuple(widen(np.asarray(result)) for result in operation.evaluate(wide))


def renamed(
    operation: Operation, variant: Operation, values: Mapping[Operand, Array]
) -> Mapping[Operand, Array]:
    """Values of an operation's inputs as those of another one in its place, which reads other operands."""
    if variant is operation:
        return values
    pairs = zip(operation.inputs, variant.inputs, strict=True)
    return {v: values[o] for o, v in pairs if o is not None and v is not None and v.value is None}


def run_exact(model: Graph, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """The outputs of a model in its initial state; what no later operation reads is let go."""
    values = start(model, inputs)
    dead = last_readers(model)
    for operation in model.operations:
        values.update(zip(operation.outputs, evaluate(operation, values), strict=True))
        for operand in dead.get(operation, ()):
            values.pop(operand, None)
    return tuple(widen(o.value) if o.value is not None else values[o] for o in model.outputs)


def start(model: Graph, inputs: Sequence[Array]) -> dict[Operand, Array]:
    """What is known before the first operation: inputs, and variables with their initial values."""
    given = dict(zip(model.inputs, inputs, strict=True))
    return {operand: widen(value) for operand, value in (*given.items(), *model.variables.items())}


def last_readers(model: Graph) -> dict[Operation, list[Operand]]:
    """For each operation the operands that nobody needs after it."""
    last: dict[Operand, Operation] = {}
    for operation in model.operations:
        touched: Iterable[Operand | None] = (*operation.inputs, *operation.outputs)
        last.update({o: operation for o in touched if o is not None and o.value is None})
    for operand in model.outputs:
        last.pop(operand, None)
    dead: dict[Operation, list[Operand]] = {}
    for operand, operation in last.items():
        dead.setdefault(operation, []).append(operand)
    return dead
