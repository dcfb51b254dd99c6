"""Evaluation of a Model in numpy by the ops' references, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import DType

Array = npt.NDArray[Any]


def run(model: Model, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """Return the model's outputs, then the next values of its variables, from their initial ones.

    float32 inputs, constants and variables are converted to float64 first.
    """
    values = {o: _in_float64(o, x) for o, x in zip(model.inputs, inputs, strict=True)}
    values.update({o: _in_float64(o, x) for o, x in model.variables.items()})

    def value(operand: Operand | None) -> Array | None:
        if operand is None:
            return None
        return values[operand] if operand.value is None else _in_float64(operand, operand.value)

    for operation in model.operations:
        results = operation.evaluate([value(i) for i in operation.inputs])
        for operand, result in zip(operation.outputs, results, strict=True):
            assert result.shape == operand.type.shape, f"{operation.op}: {result.shape} is not {operand}"
            values[operand] = result
    outputs = [value(o) for o in (*model.outputs, *model.updates.values())]
    return tuple(o for o in outputs if o is not None)


def _in_float64(operand: Operand, value: Array) -> Array:
    return value.astype(np.float64) if operand.type.dtype is DType.FLOAT32 else value


def random_inputs(model: Model, seed: int = 0) -> list[Array]:
    """Return values for every input, standard normal."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(i.type.shape).astype(i.type.dtype.numpy) for i in model.inputs]


def check(model: Model) -> None:
    """Assert that every operation's result types are those its op infers, and that the order is runnable.

    Scales and zero points are not compared: the builder of the model chooses them.
    """
    known = {*model.inputs, *model.variables}
    for operation in model.operations:
        call = operation.call()
        operation.definition.check_arity(call)
        inferred = operation.definition.infer(call)
        types = inferred if isinstance(inferred, tuple) else (inferred,)
        found = [(o.type.dtype, o.type.shape) for o in operation.outputs]
        assert found == [(t.dtype, t.shape) for t in types]
        assert all(i is None or i.value is not None or i in known for i in operation.inputs)
        known.update(operation.outputs)
    assert all(o in known or o.value is not None for o in model.results)
