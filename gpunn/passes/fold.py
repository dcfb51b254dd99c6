"""Constant folding: operations on constants only are computed once, by their reference."""

from __future__ import annotations

import numpy as np

from gpunn.model import Lifetime, Model, Operand, Operation
from gpunn.passes.rewrite import replace_inputs

# A small file can ask for huge constants (a pad, a broadcast), so there is a limit to what is kept:
# beyond it an operation stays and runs like any other.
MAX_FOLDED_BYTES = 16 << 20


def fold_constants(model: Model) -> Model:
    """Replace operations on constants by their results, up to MAX_FOLDED_BYTES in all.

    An output of the model stays an operation's output.
    """
    known: dict[Operand, Operand] = {}
    kept: list[Operation] = []
    outputs = set(model.outputs)
    left = MAX_FOLDED_BYTES
    for operation in model.operations:
        operation = replace_inputs(operation, known)
        size = sum(o.type.nbytes for o in operation.outputs)
        if size > left or not _constant(operation) or not outputs.isdisjoint(operation.outputs):
            kept.append(operation)
            continue
        left -= size
        known.update(_results(operation))
    return model.with_operations(kept)


def _constant(operation: Operation) -> bool:
    return all(i is None or i.value is not None for i in operation.inputs)


def _results(operation: Operation) -> dict[Operand, Operand]:
    """A constant operand for each output."""
    values = operation.evaluate([None if i is None else i.value for i in operation.inputs])
    return {
        old: Operand(
            old.name, old.type, Lifetime.CONSTANT, np.asarray(value, old.type.dtype.numpy, order="C")
        )
        for old, value in zip(operation.outputs, values, strict=True)
    }
