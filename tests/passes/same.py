"""Apply a pass, and check that the model is still the same function of the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpunn.graph.exchange import replace_inputs
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import Array, Shape, float32
from tests import evaluator

ROUNDING = 2.0**-24  # of a real to float32, relative


def same(
    model: Model,
    apply: Callable[[Model], Model],
    inputs: Sequence[Array] = (),
    tolerance: Callable[[Model, Sequence[Array]], float] | None = None,
) -> Model:
    """Return the model after a pass; assert that inputs, outputs, types and values are as before.

    Integers are the same to the bit; reals, in float64, to 1e-6 of what they should be, or to the tolerance.
    """
    before = [(o, o.inputs, o.outputs, dict(o.attrs)) for o in model.operations]
    result = apply(model)
    assert before == [(o, o.inputs, o.outputs, dict(o.attrs)) for o in model.operations], "changed in place"
    assert (result.inputs, result.outputs) == (model.inputs, model.outputs)
    assert (result.name, result.labels) == (model.name, model.labels)
    assert (result.variables, result.updates) == (model.variables, model.updates)
    evaluator.check(result)
    inputs = inputs or evaluator.random_inputs(model)
    limit = 1e-6 if tolerance is None else tolerance(result, inputs)
    for expected, got in zip(evaluator.run(model, inputs), evaluator.run(result, inputs), strict=True):
        if got.dtype.kind != "f":
            np.testing.assert_array_equal(got, expected)
        np.testing.assert_allclose(got, expected, rtol=1e-6 if tolerance is None else 0, atol=limit)
    return result


def of_rounded_weights(model: Model, inputs: Sequence[Array]) -> float:
    """Return how far the rounding of all weights may move the result: by the size of every product."""
    exchange: dict[Operand, Operand] = {}
    for operand in model.operands():
        if operand.value is not None:
            exchange[operand] = Operand("", operand.type, operand.lifetime, np.abs(operand.value))
    absolute = model.with_operations(replace_inputs(o, exchange) for o in model.operations)
    magnitudes = evaluator.run(absolute, [np.abs(x) for x in inputs])
    return ROUNDING * max(float(m.max(initial=0)) for m in magnitudes)


def ops(model: Model) -> list[str]:
    """Return the names of the ops."""
    return [operation.op for operation in model.operations]


def expect_unchanged(
    apply: Callable[[Model], Model], build: Callable[[Model, Operand], Operand], x: Shape
) -> None:
    """Expect a pass to return the model itself that is built on an input of that shape."""
    model = Model()
    model.output(build(model, model.input("x", float32(*x))))
    assert apply(model) is model
