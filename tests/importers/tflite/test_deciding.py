"""WHILE whose condition assigns a variable, beside LiteRT and counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import RunTimeoutError
from gpunn.model import load
from gpunn.types import DType, TensorType
from tests.importers.tflite.test_resources import (
    ONE,
    adding,
    first,
    negating,
    once,
    one,
    plus,
    read,
    variable,
)
from tests.tflite_builder import Graph


def deciding(limit: float, negates: bool = False) -> bytes:
    """(x) -> (x after a loop, variable v): the condition adds x to v and asks whether it is below a limit.

    The body adds 1 to x, or negates it.
    """
    main, (condition, (count,)), body = Graph(), adding(), Graph()
    goes_on = condition.add("LESS", [count, condition.constant(one(limit))], [TensorType(DType.BOOL, (1,))])
    x = body.input(ONE)
    stepping = (body, [plus(body, x, body.constant(one(1)))])
    x = main.input(ONE)
    once(main)
    y = main.add("WHILE", [x], [ONE], {"cond_subgraph_index": 2, "body_subgraph_index": 3})
    outputs = [*y, read(main, variable(main))]
    return main.build(outputs, called=[first(), (condition, goes_on), negating() if negates else stepping])


def counted(x: float, v: float, limit: float) -> tuple[float, float]:
    """Return x and v after a run."""
    v += x
    while v < limit:
        x += 1
        v += x
    return x, v


@pytest.mark.parametrize("backend", ["cpu", "webgpu"])
@pytest.mark.parametrize("limit", [1, 9, 40])
def test_a_condition_may_write(limit: float, backend: str, request: pytest.FixtureRequest) -> None:
    if backend == "webgpu":
        request.getfixturevalue("gpu")
    from ai_edge_litert.interpreter import Interpreter

    file = deciding(limit)
    interpreter = Interpreter(model_content=file, num_threads=1)
    interpreter.allocate_tensors()
    v = 5.0
    with load(file).compile(backend) as compiled:
        for x in (2.0, -1.0, 4.0):
            given = np.array([x], np.float32)
            interpreter.set_tensor(interpreter.get_input_details()[0]["index"], given)
            interpreter.invoke()
            seen = [interpreter.get_tensor(o["index"]).item() for o in interpreter.get_output_details()]
            expected, v = counted(x, v, limit)
            assert [y.item() for y in compiled(given)] == seen == [expected, v]


def test_such_a_loop_without_end_can_be_stopped() -> None:
    model = load(deciding(9, negates=True))
    with model.compile("cpu") as compiled, pytest.raises(RunTimeoutError):
        compiled.run({model.inputs[0].name: np.array([2], np.float32)}, timeout=0.3)
