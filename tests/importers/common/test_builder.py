"""Builder: adds answers, built by hand, to a graph."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.graph.graph import Graph
from gpunn.graph.tensors import is_short
from gpunn.importers.common.answers import (
    PREVIOUS,
    Known,
    Result,
    Step,
    StepList,
    Steps,
    as_steps,
    at_once,
    constant,
)
from gpunn.importers.common.builder import Builder
from gpunn.importers.common.names import Names
from gpunn.importers.common.node import ComputedError, Node, RefusedError
from gpunn.types import DType, OpenShape, Quantization, TensorType

MATRIX = TensorType(DType.FLOAT32, (2, 3))


@pytest.fixture
def graph() -> Graph:
    graph = Graph()
    graph.input("x", MATRIX)
    return graph


def test_previous_is_the_first_result_of_the_step_before(graph: Graph) -> None:
    answer = [Step("relu", (graph.inputs[0],)), Step("mul", (PREVIOUS, PREVIOUS))]
    (y,), states = Builder(graph, Names()).add(as_steps(answer), "here", ["y"])
    graph.output(y)
    (found,) = graph.evaluate([np.array([[-1, 2, 3], [4, -5, 6]], np.float32)])
    assert found.tolist() == [[0, 4, 9], [16, 0, 36]]
    assert [operation.origin for operation in graph.operations] == ["here", "here"]
    assert (y.name, states) == ("y", {})


def test_a_step_reads_any_result_of_those_before(graph: Graph) -> None:
    parts = Step("split", (graph.inputs[0],), {"axis": 0, "sizes": (1, 1)})
    steps = [parts, Step("neg", (Result(0, 1),)), Step("concat", (Result(1), Result(0)), {"axis": 0})]
    (y,), _ = Builder(graph, Names()).add(Steps(steps), "here", ["y"])
    graph.output(y)
    (found,) = graph.evaluate([np.arange(6, dtype=np.float32).reshape(2, 3)])
    assert found.tolist() == [[-3, -4, -5], [0, 1, 2]]


@pytest.mark.parametrize("last", [Result(1), PREVIOUS])
def test_outputs_are_results_of_any_step_or_operands(graph: Graph, last: Result) -> None:
    x = graph.inputs[0]
    answer = Steps([Step("relu", (x,)), Step("neg", (PREVIOUS,))], (last, x, Result(0)))
    outputs, _ = Builder(graph, Names()).add(answer, "here", ["a", "b", "c"])
    assert [o.name for o in outputs] == ["a", "x", "c"]
    assert [o.op for o in graph.operations] == ["relu", "neg"]
    assert outputs[0] is graph.operations[1].outputs[0]


def test_states_are_returned_by_input(graph: Graph) -> None:
    answer = Steps([Step("relu", (graph.inputs[0],)), Step("neg", (PREVIOUS,))], (Result(1),), {4: Result(0)})
    (y,), states = Builder(graph, Names()).add(answer, "here", ["y"], states={4: "state"})
    assert {place: operand.name for place, operand in states.items()} == {4: "state"}
    assert y is graph.operations[1].outputs[0]


def test_a_list_of_steps_makes_an_answer(graph: Graph) -> None:
    steps = StepList()
    parts = steps.add("split", (graph.inputs[0],), {"axis": 0, "sizes": (1, 1)})
    joined = steps.add("concat", (parts.beside(1), parts), {"axis": 0})
    answer = steps.answer(joined, states={0: parts})
    assert ([s.op for s in answer.steps], answer.outputs) == (["split", "concat"], (Result(1),))
    (y,), states = Builder(graph, Names()).add(answer, "here", ["y"], states={0: "s"})
    assert (y.name, [o.name for o in states.values()]) == ("y", ["s"])
    graph.output(y)
    (found,) = graph.evaluate([np.arange(6, dtype=np.float32).reshape(2, 3)])
    assert found.tolist() == [[3, 4, 5], [0, 1, 2]]


def test_results_without_a_title_are_named_by_op_and_number(graph: Graph) -> None:
    parts = Step("split", (graph.inputs[0],), {"axis": 0, "sizes": (1, 1)})
    outputs, _ = Builder(graph, Names()).add(Steps([parts], (Result(0, 1),)), "here", ["y"])
    assert [o.name for o in graph.operations[0].outputs] == ["split_0:0", "y"]
    assert [o.name for o in outputs] == ["y"]


def test_quantisation_and_open_shapes_go_to_the_results(graph: Graph) -> None:
    scale, open = Quantization((0.5,), (3,)), OpenShape((None, 3))
    attrs = {"dtype": "int8", "scale": 0.5, "zero_point": 3}
    step = Step("relu", (PREVIOUS,), quantization=[scale])
    (y,), _ = Builder(graph, Names()).add(
        Steps([Step("quantize", (graph.inputs[0],), attrs), step]), "here", ["y"], open=[open]
    )
    assert (y.type.quantization, y.open) == (scale, open)
    assert graph.operations[0].outputs[0].open is None


@pytest.mark.parametrize("folds", [True, False])
def test_arithmetic_on_shapes_is_computed_at_once_if_the_builder_folds(graph: Graph, folds: bool) -> None:
    shape, one = constant("shape", np.array([2, 3], np.int32)), constant("one", np.array([1], np.int32))
    builder = Builder(graph, Names(), is_short) if folds else Builder(graph, Names())
    (y,), _ = builder.add(as_steps(Step("add", (shape, one))), "here", ["y"])
    assert (y.value is not None, len(graph.operations)) == (folds, 0 if folds else 1)
    if y.value is not None:
        assert y.value.tolist() == [3, 4]


def test_settle_sees_operands_and_refuses(graph: Graph) -> None:
    seen: list[tuple[Step, bool]] = []

    def settle(step: Step, last: bool) -> Step:
        seen.append((step, last))
        if step.op == "neg":
            raise RefusedError("nothing is negative")
        return step

    answer = [Step("relu", (graph.inputs[0],)), Step("neg", (PREVIOUS,))]
    with pytest.raises(RefusedError, match="nothing is negative"):
        Builder(graph, Names()).add(as_steps(answer), "here", settle=settle)
    assert [(step.op, last) for step, last in seen] == [("relu", False), ("neg", True)]
    assert seen[1][0].inputs == (graph.operations[0].outputs[0],)


def test_settle_decides_on_the_added_step(graph: Graph) -> None:
    def settle(step: Step, last: bool) -> Step:
        return Step("neg", step.inputs)

    Builder(graph, Names()).add(as_steps(Step("relu", (graph.inputs[0],))), "here", settle=settle)
    assert [operation.op for operation in graph.operations] == ["neg"]


def test_names_are_unique() -> None:
    names = Names()
    assert [names.unique(n) for n in ("x", "x", "x:1", "x")] == ["x", "x:1", "x:1:1", "x:2"]
    assert names.copy().free("x") == "x'"
    assert names.free("y") == "y"


def test_constants_take_the_given_names() -> None:
    builder = Builder(Graph(), Names())
    found = builder.constants([np.zeros(1, np.int32), np.zeros(2, np.int32)], ["a"])
    assert [(o.name, o.type.shape) for o in found] == [("a", (1,)), ("", (2,))]


def test_at_once_computes_steps_on_constants(graph: Graph) -> None:
    operand = graph.input("n", TensorType(DType.INT32, (2,)))
    step, node = Step("neg", (operand,)), Node("here", (operand,))
    with pytest.raises(ComputedError, match="the numbers are computed at run time"):
        node.ints(0, "numbers")
    assert at_once(step, node) is step
    known = constant("n", np.array([3, 4], np.int32))
    found = at_once(Step("neg", (known,)), Node("here", (known,)))
    assert isinstance(found, Known)
    assert [v.tolist() for v in found.values] == [[-3, -4]]
