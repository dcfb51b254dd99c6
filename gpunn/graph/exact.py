"""The exact results of one operation: its op's meaning, real numbers in float64."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpunn.graph.operation import Operand, Operation
from gpunn.types import Array


def widen(value: Array) -> Array:
    """Convert arrays of real numbers to float64, of complex ones to complex128; return others unchanged."""
    if value.dtype.kind == "c":
        return value.astype(np.complex128)
    return value.astype(np.float64) if value.dtype.kind == "f" else value


def evaluate(operation: Operation, values: Mapping[Operand, Array]) -> tuple[Array, ...]:
    """Compute an operation's outputs for the inputs in `values`; the operation contains its constants."""
    operands = operation.inputs
    wide = [None if o is None else widen(values[o] if o.value is None else o.value) for o in operands]
    return tuple(widen(np.asarray(result)) for result in operation.evaluate(wide))
