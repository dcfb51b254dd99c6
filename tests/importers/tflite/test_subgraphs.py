"""Files with several subgraphs: those that are read, CALL, and bounds of calls."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from gpunn.errors import FormatError, GpunnError, UnsupportedError
from gpunn.importers.tflite import context
from gpunn.importers.tflite.context import MAX_DEPTH, MAX_REPEATED
from gpunn.importers.tflite.list_writes import with_list_writes
from gpunn.importers.tflite.subgraph import FileGraph
from gpunn.model import load
from gpunn.types import DType, TensorType, float32
from tests import evaluator
from tests.tflite_builder import Graph, litert_run

ROW = float32(1, 4)
X = np.array([[-2, -1, 1, 3]], np.float32)
Sub = tuple[Graph, list[int]]  # a subgraph and its outputs


def scale_and_add() -> Sub:
    """(a, b) -> (2 a + b, a)."""
    graph = Graph()
    a, b = graph.input(ROW, "a"), graph.input(ROW, "b")
    (twice,) = graph.add("MUL", [a, graph.constant(np.float32(2))], [ROW])
    (total,) = graph.add("ADD", [twice, b], [ROW], names=["total"])
    return graph, [total, a]


def test_a_composite_is_its_decomposition(backend: str) -> None:
    main = Graph()
    x, y = main.input(ROW), main.input(ROW)
    nothing = np.zeros(3, np.uint8)
    made_of = {"name": b"mine", "decomposition_subgraph_index": 1, "composite_attributes": nothing}
    found = main.add("STABLEHLO_COMPOSITE", [x, y], [ROW, ROW], made_of)
    file = build((main, [*found]), scale_and_add())
    with load(file).compile(backend=backend) as compiled:
        for result, answer in zip(compiled(X, X + 1), litert_run(file, [X, X + 1]), strict=True):
            np.testing.assert_array_equal(result, answer)


def calling(index: int, type: TensorType = ROW, count: int = 1) -> Sub:
    """x -> the result of `count` calls of subgraph `index`, one after the other."""
    graph = Graph()
    x = graph.input(type)
    for _ in range(count):
        (x,) = graph.add("CALL", [x], [type], {"subgraph": index})
    return graph, [x]


def build(main: Sub, *called: Sub) -> bytes:
    return main[0].build(main[1], called=called)


def test_calls_are_inlined(backend: str) -> None:
    main = Graph()
    x = main.input(ROW)
    first, _ = main.add("CALL", [x, x], [ROW, ROW], {"subgraph": 1})
    second, before = main.add("CALL", [first, x], [ROW, ROW], {"subgraph": 1}, names=["y", "z"])
    model = load(build((main, [second, before]), scale_and_add()))
    assert [o.op for o in model.operations] == ["mul", "add"] * 2
    assert model.operations[0].origin == "model: subgraph 1, operation 0, MUL"
    assert model.operations[0].inputs[1] is model.operations[2].inputs[1], "the constant is read once"
    assert [o.name for o in model.outputs] == ["y", "t1"], "results have their own names, inputs keep theirs"
    with model.compile(backend=backend) as compiled:
        y, z = compiled(X)
        assert all(p.backend == backend for p in compiled.placement)
    np.testing.assert_array_equal(z, [[-6, -3, 3, 9]])  # 2 x + x
    np.testing.assert_array_equal(y, [[-14, -7, 7, 21]])  # 2 (3 x) + x


def test_a_subgraph_is_prepared_once_for_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[int] = []

    def counted(graph: FileGraph, *rest: Any) -> FileGraph:
        prepared.append(graph.index)
        return with_list_writes(graph, *rest)

    monkeypatch.setattr(context, "with_list_writes", counted)
    inner = Graph()
    (y,) = inner.add("ABS", [inner.input(ROW)], [ROW])
    load(build(calling(1, count=9), calling(2, count=3), (inner, [y])))
    assert prepared == [1, 2]


def test_calls_in_calls() -> None:
    graph, (y, _) = scale_and_add()
    single = Graph()
    x = single.input(ROW)
    (twice, _) = single.add("CALL", [x, x], [ROW, ROW], {"subgraph": 3})
    model = load(build(calling(1), calling(2, count=2), (single, [twice]), (graph, [y, graph.inputs[0]])))
    np.testing.assert_array_equal(evaluator.run(model, [X])[0], 9 * X)  # 3 (3 x)


def test_a_subgraph_may_return_its_inputs() -> None:
    passing = Graph()
    a, b = passing.input(ROW), passing.input(ROW)
    main = Graph()
    x, c = main.input(ROW, "x"), main.constant(np.ones((1, 4), np.float32))
    results = main.add("CALL", [x, c], [ROW, ROW], {"subgraph": 1})
    (y,) = main.add("SUB", results, [ROW])
    model = load(build((main, [y]), (passing, [b, a])))
    assert [o.op for o in model.operations] == ["sub"]
    np.testing.assert_array_equal(evaluator.run(model, [X])[0], 1 - X)


def test_a_shape_may_be_an_argument() -> None:
    inner = Graph()
    x, shape = inner.input(ROW), inner.input(TensorType(DType.INT32, (2,)))
    (y,) = inner.add("RESHAPE", [x, shape], [float32(2, 2)])
    main = Graph()
    wanted = main.constant(np.array([2, -1], np.int32))
    outputs = main.add("CALL", [main.input(ROW), wanted], [float32(2, 2)], {"subgraph": 1})
    model = load(build((main, list(outputs)), (inner, [y])))
    assert evaluator.run(model, [X])[0].tolist() == X.reshape(2, 2).tolist()


def test_subgraphs_that_nothing_calls_are_not_read() -> None:
    broken = Graph()
    broken.add("NO_SUCH_OPERATOR", [17], [ROW])
    graph, outputs = scale_and_add()
    assert len(load(build((graph, outputs), (broken, [99]))).operations) == 2


def test_unsupported_operators_of_a_subgraph_are_listed_once() -> None:
    inner = Graph()
    (y,) = inner.add("STABLEHLO_SORT", [inner.input(ROW)], [ROW])
    with pytest.raises(UnsupportedError) as caught:
        load(build(calling(1, count=3), (inner, [y])))
    assert str(caught.value) == (
        "model: subgraph 1, operation 0, STABLEHLO_SORT v1: this operator is not supported"
    )


def test_a_delegate_is_refused_with_its_reason() -> None:
    graph = Graph()
    with pytest.raises(UnsupportedError, match="DELEGATE v1: it stands for a delegate's own code"):
        load(graph.build(graph.add("DELEGATE", [graph.input(ROW)], [ROW])))


WRONG = {
    "no such subgraph": ([calling(7)], "there is no subgraph 7, there are 1"),
    "itself": ([calling(0)], r"subgraph 0 calls itself, by way of \[0\]"),
    "a circle": (
        [*(calling(k) for k in (1, 2, 3, 1))],
        r"subgraph 1 calls itself, by way of \[0, 1, 2, 3\]",
    ),
    "too deep": (
        [calling(k + 1) for k in range(MAX_DEPTH)] + [calling(0)],
        f"call one another {MAX_DEPTH} deep",
    ),
    "wrong number of inputs": (
        [calling(1), scale_and_add()],
        "subgraph 1 has 2 inputs, the model gives it 1",
    ),
    "wrong input": (
        [calling(1), calling(2, float32(1, 5)), calling(0)],
        r"subgraph 1: input 0 \(t0\) has shape \[1, 5\] in the file, expected \[1, 4\]",
    ),
    "wrong number of outputs": (
        [calling(1), (calling(0, count=0)[0], [0, 0])],
        "operation 0, CALL: expected 2 outputs, got 1",
    ),
    "tensor of a subgraph": (
        [calling(1), (calling(0)[0], [7])],
        "an output of subgraph 1 is tensor 7, there are 2",
    ),
}


@pytest.mark.parametrize(("graphs", "reason"), WRONG.values(), ids=WRONG)
def test_wrong_calls_are_refused(graphs: list[Sub], reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        load(build(*graphs))


@pytest.mark.parametrize("odd", [False, True])
def test_calls_that_double_at_every_level_are_refused_soon(odd: bool) -> None:
    """14 levels of ten calls each would make 10^14 operations; `odd`: with an unsupported operator."""
    leaf = Graph()
    (y,) = leaf.add("STABLEHLO_SORT" if odd else "RELU", [leaf.input(ROW)], [ROW])
    graphs = [*(calling(k + 1, count=10) for k in range(14)), (leaf, [y])]
    start = time.process_time()
    with pytest.raises(GpunnError, match="STABLEHLO_SORT" if odd else "calls its subgraphs too often"):
        load(build(*graphs))
    assert time.process_time() - start < 5  # it takes a hundredth of that


def test_subgraphs_with_many_inputs_count_by_their_operands() -> None:
    large = Graph()
    for _ in range(200):
        large.input(ROW)
    main = Graph()
    x = main.input(ROW)
    for _ in range(MAX_REPEATED // 200 + 2):
        main.add("CALL", [x] * 200, [], {"subgraph": 1})
    with pytest.raises(FormatError, match="calls its subgraphs too often"):
        load(build((main, [x]), (large, [])))
