"""Random values for the inputs of a model, in ranges that its operations allow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpunn.errors import ModelError
from gpunn.graph.consumers import consumers
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.types import Array, DType, TensorType


def drawn_range(model: Graph, operand: Operand) -> tuple[float, float]:
    """Return the least and the largest number to draw for an input of a model.

    Quantised types: every stored integer. Real numbers and both parts of complex ones: -1 to 1, for grey
    images 0 to 1. Integers: those that the operations which check them allow, else 0 to 9. Raises ModelError
    for strings, and where no integer is allowed.
    """
    type = operand.type
    if type.dtype is DType.STRING:
        raise ModelError(f"input {operand.name!r} takes strings, which are not drawn at random: give inputs")
    if type.quantization is not None and type.dtype in LIMITS:
        return LIMITS[type.dtype]
    if type.dtype in (DType.FLOAT32, DType.FLOAT16):
        return (0, 1) if type.rank == 4 and type.shape[3] == 1 else (-1, 1)
    if type.dtype is DType.COMPLEX64:
        return -1, 1
    if type.dtype is DType.BOOL:
        return 0, 1
    bounds = (bound for reader in consumers(model).get(operand, []) for bound in _bounds(reader, operand))
    bound = min(bounds, default=10)
    if bound < 1 and type.size:
        raise ModelError(f"no value of input {operand.name!r} is allowed: it counts what is empty")
    return 0, max(bound - 1, 0)


def _bounds(reader: Operation, operand: Operand) -> Iterator[int]:
    """Return exclusive bounds of integers that an operation checks, for example of indices."""
    for guard, guarded in reader.guarded:
        if guarded is operand:
            yield from (r.stop for r in guard.ranges(reader.call()) if r.stop < 2**31)


def drawn(type: TensorType, bounds: tuple[float, float], generator: np.random.Generator) -> Array:
    """Draw a tensor of a type, evenly distributed between bounds; integers may be equal to either."""
    low, high = bounds
    if type.dtype in (DType.FLOAT32, DType.FLOAT16):
        return generator.uniform(low, high, type.shape).astype(type.dtype.numpy)
    if type.dtype is DType.COMPLEX64:
        parts = generator.uniform(low, high, (2, *type.shape))
        numbers: Array = parts[0] + 1j * parts[1]
        return numbers.astype(type.dtype.numpy)
    integers: Array = generator.integers(int(low), int(high), type.shape, endpoint=True)
    return integers.astype(type.dtype.numpy)
