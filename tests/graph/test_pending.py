"""Operations whose types follow from values: pending in a graph, and added as more is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import gpunn
from gpunn.custom import op
from gpunn.graph.complete import asked_inputs, complete, cut
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.parts import parts
from gpunn.ops.call import Call
from gpunn.types import Array, DType, TensorType, float32

COUNT = TensorType(DType.INT32, (1,))


def _repeated(call: Call) -> TensorType:
    times = call.value(1, call.x.with_shape((1, *call.x.shape)))
    if times[0] < 0:
        call.fail(f"cannot repeat {times[0]} times")
    return call.x.with_shape((int(times[0]), *call.x.shape))


@op(_repeated, host_reason="a test")
def repeated(x: Array, times: Array) -> Array:
    """Repeat x along axis 0, as often as a value says."""
    return np.repeat(x[None], times[0], 0)


def _positives(call: Call) -> tuple[TensorType, ...]:
    found = call.value(0, TensorType(DType.INT32, (1, call.x.rank)), call.x.with_shape((1,)))
    count = np.count_nonzero(found > 0)
    return TensorType(DType.INT32, (count, call.x.rank)), call.x.with_shape((count,))


@op(_positives, host_reason="a test")
def positives(x: Array) -> tuple[Array, Array]:
    """Return the indices of the numbers above 0, and these numbers."""
    return np.argwhere(x > 0).astype(np.int32), x[x > 0]


def run(graph: Graph, *inputs: Array) -> tuple[Array, ...]:
    last = parts(graph, inputs, Graph.evaluate)[-1]
    return last.graph.evaluate(last.inputs)


def chain() -> tuple[Graph, Sequence[Operand]]:
    """A graph: the numbers above 0 of -x, repeated as often as an input says, and their sum."""
    graph = Graph()
    x, times = graph.input("x", float32(3, 4)), graph.input("times", COUNT)
    (grown,) = graph.add("neg", [x])
    places, found = graph.add(positives, [grown], names=["places", "found"])
    (rows,) = graph.add(repeated, [found, times], names=["rows"])
    (total,) = graph.add("reduce_sum", [rows], {"axes": (0,), "keep_dims": False}, names=["total"])
    (after,) = graph.add("neg", [x], names=["after"])
    return graph, [places, rows, total, after]


def test_only_operations_that_depend_on_values_are_pending() -> None:
    graph, outputs = chain()
    graph.output(*outputs)
    assert [entry.op for entry in graph.pending] == ["positives", "repeated", "reduce_sum"]
    assert [operation.op for operation in graph.operations][-1] == "neg"
    assert [o.declared for o in outputs] == ["int32[...]", "float32[...]", "float32[...]", "float32[3, 4]"]
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    places, rows, total, after = run(graph, x, np.array([3], np.int32))
    grown = graph.operations[0].evaluate([x])[0]
    np.testing.assert_array_equal(places, np.argwhere(grown > 0))
    np.testing.assert_array_equal(rows, np.tile(grown[grown > 0], (3, 1)))
    np.testing.assert_allclose(total, 3 * grown[grown > 0], rtol=1e-6)
    np.testing.assert_array_equal(after, -x)


def test_values_stay_operands_and_decide_only_on_types() -> None:
    graph, outputs = chain()
    graph.output(*outputs)
    first = cut(graph)
    assert [first.front.outputs[k].name for k in first.asked] == [graph.operations[0].outputs[0].name]
    x, times = np.ones((3, 4), np.float32), np.array([2], np.int32)
    inputs = first.run_operations((), first.front.evaluate([x, times]))
    second, asked = first.follow(inputs, first.asked)
    assert [second.inputs[k].name for k in asked] == ["times"], "which is needed once there are numbers"
    second, asked = first.follow(inputs, (*first.asked, *asked))
    assert not asked and not second.pending
    extents = [n for operation in second.operations for o in operation.outputs for n in o.type.shape]
    assert {type(n) for n in extents} == {int}, "positives() counts with numpy"
    assert all(o is None or o.value is None for r in second.operations for o in r.inputs)


def test_an_operation_on_a_known_value_is_not_pending() -> None:
    graph = Graph()
    x = graph.input("x", float32(2))
    two = graph.constant("two", np.array([2], np.int32))
    (four,) = graph.add("add", [two, two])
    (rows,) = graph.add(repeated, [x, four])
    assert rows.type == float32(4, 2) and not graph.pending


def test_a_graph_is_completed_with_the_values_of_inputs() -> None:
    graph = Graph()
    x, times = graph.input("x", float32(2)), graph.input("times", COUNT)
    (more,) = graph.add("add", [times, graph.constant("one", np.array([1], np.int32))])
    (rows,) = graph.add(repeated, [x, times])
    (others,) = graph.add(repeated, [x, more])
    graph.output(rows, others)
    assert asked_inputs(graph) == (1,)
    whole = complete(graph, graph.input_types, {times: np.array([3], np.int32)})
    assert [o.type.shape for o in whole.outputs] == [(3, 2), (4, 2)] and not whole.pending
    larger = complete(graph, [float32(5), COUNT])
    assert [entry.op for entry in larger.pending] == ["repeated", "repeated"]
    assert run(larger, np.ones(5, np.float32), np.array([1], np.int32))[1].shape == (2, 5)


def test_values_are_asked_for_one_after_the_other() -> None:
    graph = Graph()
    x = graph.input("x", float32(4))
    _, found = graph.add(positives, [x], names=["places", "found"])
    (twice,) = graph.add("concat", [found, found], {"axis": 0})
    places, _ = graph.add(positives, [twice], names=["places", "again"])
    graph.output(places)
    assert run(graph, np.array([1, -1, 2, 0], np.float32))[0].tolist() == [[0], [1], [2], [3]]


def test_one_operation_asks_for_several_values_at_once() -> None:
    graph = Graph()
    numbers = [graph.input(name, TensorType(DType.INT32, ())) for name in ("start", "limit", "delta")]
    (doubled,) = graph.add("add", [numbers[1], numbers[1]])
    graph.output(*graph.add("range", [numbers[0], doubled, numbers[2]]))
    (entry,) = graph.pending
    assert entry.asks == (numbers[0], doubled, numbers[2])
    assert run(graph, *np.array([1, 4, 3], np.int32))[0].tolist() == [1, 4, 7]


def test_variables_are_updated_by_pending_operations() -> None:
    graph = Graph()
    x, times = graph.input("x", float32(2)), graph.input("times", COUNT)
    total = graph.variable("total", float32(2), np.ones(2, np.float32))
    (rows,) = graph.add(repeated, [x, times])
    (sums,) = graph.add("reduce_sum", [rows], {"axes": (0,), "keep_dims": False})
    (after,) = graph.add("add", [sums, total])
    graph.update(total, after)
    graph.output(rows)
    rows_found, state = run(graph, np.array([1, 2], np.float32), np.array([3], np.int32))
    assert rows_found.shape == (3, 2) and state.tolist() == [4, 7]


def test_errors_say_where() -> None:
    graph, outputs = chain()
    with pytest.raises(gpunn.ModelError, match="there is no op"):
        graph.add("mystery", outputs[:1])
    with pytest.raises(gpunn.ModelError, match="has no attribute"):
        graph.add("neg", outputs[:1], {"axis": 0})
    with pytest.raises(gpunn.ModelError, match="takes inputs"):
        graph.add("add", outputs[:1])
    graph.output(outputs[1])
    with pytest.raises(gpunn.ModelError, match="cannot repeat -1 times"):
        run(graph, np.ones((3, 4), np.float32), np.array([-1], np.int32))


def test_the_number_of_results_must_be_stated() -> None:
    graph = Graph()
    x = graph.input("x", float32(4))
    _, found = graph.add(positives, [x])
    (part,) = graph.add("split", [found], {"axis": 0, "sizes": (1, 1)})
    graph.output(part)
    with pytest.raises(gpunn.ModelError, match="names should say how many results"):
        run(graph, np.array([1, 2, -1, -1], np.float32))
