"""Values known before a run: results of short arithmetic on constants, from which shapes may follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpunn.errors import ModelError
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.tensors import is_short
from gpunn.types import Array, DType

# Of what shapes are computed from. Core ML's tensors are all of float32; comparisons choose indices.
_DTYPES = (DType.INT32, DType.INT64, DType.FLOAT32, DType.BOOL)


def short_results(
    operation: Operation, value_of: Callable[[Operand], Array | None]
) -> Mapping[Operand, Array]:
    """Return the results of an operation if they and all its inputs are short and known, else nothing.

    `value_of` gives the value of an operand, None if it is not known.
    """
    quick = operation.custom is None and not operation.definition.unbounded
    if not quick or not all(is_short(o.type, _DTYPES) for o in operation.outputs):
        return {}
    found = [None if i is None else value_of(i) for i in operation.inputs]
    given = [(i, value) for i, value in zip(operation.inputs, found, strict=True) if i is not None]
    if any(value is None or not is_short(i.type, _DTYPES) for i, value in given):
        return {}
    try:
        results = operation.stored(operation.evaluate(found))
    except ModelError:  # where a value must be refused this is done when it runs
        return {}
    return dict(zip(operation.outputs, results, strict=True))
