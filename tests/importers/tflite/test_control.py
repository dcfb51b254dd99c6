"""IF and WHILE of .tflite files: against LiteRT, and refusals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpunn.errors import FormatError, UnsupportedError
from gpunn.model import load
from gpunn.passes import optimise
from gpunn.types import DType, Quantization, TensorType, float32
from tests.importers.tflite.test_subgraphs import Sub, build, calling
from tests.tflite_builder import Array, Graph, Node, litert_run

ROW = float32(1, 4)
X = np.array([[-2, -1, 1, 3]], np.float32)
BOOL = TensorType(DType.BOOL, ())
COUNT = TensorType(DType.INT32, ())


def unary(operator: str, type: TensorType = ROW, times: int = 1) -> Sub:
    """x -> operator(x)."""
    graph = Graph()
    x = graph.input(type)
    for _ in range(times):
        (x,) = graph.add(operator, [x], [type])
    return graph, [x]


def choosing(type: TensorType = ROW) -> Sub:
    """(x, limit) -> subgraph 1 of x if its sum is over the limit, else subgraph 2 of x."""
    graph = Graph()
    x, limit = graph.input(type, "x"), graph.input(float32(), "limit")
    axes = graph.constant(np.array([0, 1], np.int32))
    (total,) = graph.add("SUM", [x, axes], [float32()])
    (over,) = graph.add("GREATER", [total, limit], [BOOL])
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    return graph, list(graph.add("IF", [over, x], [type], options, names=["chosen"]))


def agree(file: bytes, inputs: Sequence[Array], backend: str, places: Sequence[str]) -> list[Array]:
    """Return gpunn's results; assert that they are LiteRT's and run in `places` ("cpu", "gpu")."""
    with load(file).compile(backend=backend) as compiled:
        found = compiled(*inputs)
        ran = [(p.depth, p.operation.op, p.backend) for p in compiled.placement]
    wanted = ["  " * d + f"{op} {'gpu' if place == 'webgpu' else 'cpu'}" for d, op, place in ran]
    assert wanted == [p.replace("gpu", "gpu" if backend == "webgpu" else "cpu") for p in places]
    results = list(found) if isinstance(found, tuple) else [found]
    for result, expected in zip(results, litert_run(file, inputs), strict=True):
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    return results


def test_if_runs_the_branch_that_the_input_selects(backend: str) -> None:
    file = build(choosing(), unary("TANH"), unary("NEG", times=2))
    rows = ["reduce_sum gpu", "greater gpu", "if_else cpu", "  tanh gpu", "  neg gpu", "  neg gpu"]
    for limit in (-5, 5):
        (y,) = agree(file, [X, np.float32(limit)], backend, rows)
        np.testing.assert_allclose(y, np.tanh(X) if limit < 0 else X, rtol=1e-5)
    model = load(file)
    assert model.outputs[0].name == "chosen"
    assert model.operations[-1].attrs["then"].operations[0].origin == "model: subgraph 1, operation 0, TANH"


def test_if_with_a_known_condition_is_inlined(backend: str) -> None:
    for truth, operator in ((True, "TANH"), (False, "NEG")):
        main = Graph()
        x, known = main.input(ROW), main.constant(np.array(truth))
        outputs = main.add("IF", [known, x], [ROW], {"then_subgraph_index": 1, "else_subgraph_index": 2})
        agree(
            build((main, list(outputs)), unary("TANH"), unary("NEG")),
            [X],
            backend,
            [f"{operator.lower()} gpu"],
        )


def test_branches_of_quantised_tensors(backend: str) -> None:
    kind = TensorType(DType.INT8, (1, 4), Quantization((0.5,), (3,)))
    main = Graph()
    flag, x = main.input(BOOL), main.input(kind)
    outputs = main.add("IF", [flag, x], [kind], {"then_subgraph_index": 1, "else_subgraph_index": 2})
    file = build((main, list(outputs)), unary("RELU", kind), unary("NEG", kind, times=0))
    q = np.array([[-9, 0, 3, 90]], np.int8)
    for truth, want in ((True, [3, 3, 3, 90]), (False, [-9, 0, 3, 90])):
        (y,) = agree(file, [np.array(truth), q], backend, ["if_else cpu", "  relu gpu"])
        assert y.tolist() == [want]


def reshaping(shape: tuple[int, ...], operator: str) -> Sub:
    """(x, shape) -> operator(reshape(x, shape)); the shape must be known in the branch."""
    graph = Graph()
    x, wanted = graph.input(ROW), graph.input(TensorType(DType.INT32, (2,)))
    (y,) = graph.add("RESHAPE", [x, wanted], [float32(*shape)])
    return graph, list(graph.add(operator, [y], [float32(*shape)]))


def test_constant_arguments_are_constants_in_the_branches(backend: str) -> None:
    main = Graph()
    flag, x, shape = main.input(BOOL), main.input(ROW), main.constant(np.array([2, 2], np.int32))
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    outputs = main.add("IF", [flag, x, shape], [float32(2, 2)], options)
    file = build((main, list(outputs)), reshaping((2, 2), "ABS"), reshaping((2, 2), "NEG"))
    rows = ["if_else cpu", "  reshape alias", "  abs gpu", "  reshape alias", "  neg gpu"]
    with load(file).compile(backend=backend) as compiled:
        assert np.array_equal(compiled(np.array(True), X), np.abs(X).reshape(2, 2))
        assert np.array_equal(compiled(np.array(False), X), -X.reshape(2, 2))
        assert [p.operation.op for p in compiled.placement] == [r.split()[0] for r in rows]


def looping(limit: float) -> list[Sub]:
    """x -> (x doubled until its sum is over the limit, number of rounds); the axes of the sum are state."""
    types = [ROW, COUNT, TensorType(DType.INT32, (2,))]

    def graph() -> tuple[Graph, list[int]]:
        made = Graph()
        return made, [made.input(t) for t in types]

    condition, (x, _, axes) = graph()
    (total,) = condition.add("SUM", [x, axes], [float32()])
    (goes_on,) = condition.add("LESS", [total, condition.constant(np.float32(limit))], [BOOL])
    body, (x, count, axes) = graph()
    (twice,) = body.add("ADD", [x, x], [ROW])
    (more,) = body.add("ADD", [count, body.constant(np.array(1, np.int32))], [COUNT])
    main = Graph()
    start = [main.input(ROW), main.constant(np.array(0, np.int32)), main.constant(np.array([0, 1], np.int32))]
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    x, count, _ = main.add("WHILE", start, types, options, names=["x", "count", "axes"])
    return [(main, [count, x]), (condition, [goes_on]), (body, [twice, more, axes])]


@pytest.mark.parametrize(("limit", "times"), [(-1, 0), (1, 0), (2, 1), (1000, 10)])
def test_while_runs_its_body_until_the_condition_fails(limit: float, times: int, backend: str) -> None:
    inner = ("    reduce_sum gpu", "    less gpu", "    add gpu", "    add gpu")
    rows = ["while_loop cpu", "  some_rounds gpu", *inner]  # several rounds before the host asks
    file = build(*looping(limit))
    count, x = agree(file, [X], backend, rows)
    assert count == times
    np.testing.assert_array_equal(x, X * 2.0**times)
    assert [o.name for o in load(file).outputs] == ["count", "x"]


def test_bodies_are_optimised_too() -> None:
    main, condition, (body, results) = looping(3)
    body.nodes.append(Node("RELU", (results[0],), (results[0],)))
    model = load(build(main, condition, (body, results)))
    inside = optimise(model).operations[0].attrs["body"]
    assert [(o.op, o.attrs.get("activation")) for o in inside.operations] == [("add", None), ("add", "relu")]


def _if(then: Sub, otherwise: Sub, condition: TensorType = BOOL) -> bytes:
    main = Graph()
    inputs = [main.input(condition), main.input(ROW)]
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    return build((main, list(main.add("IF", inputs, [ROW], options))), then, otherwise)


def _while(condition: Sub, body: Sub) -> bytes:
    main = Graph()
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    outputs = main.add("WHILE", [main.input(ROW)], [ROW], options)
    return build((main, list(outputs)), condition, body)


def always() -> Sub:
    """x -> true."""
    graph = Graph()
    graph.input(ROW)
    return graph, [graph.constant(np.array(True))]


def comparing() -> Sub:
    """x -> x == 0."""
    graph = Graph()
    x, zero = graph.input(ROW), graph.constant(np.float32(0))
    return graph, list(graph.add("EQUAL", [x, zero], [TensorType(DType.BOOL, (1, 4))]))


WRONG = {
    "branches of other dtypes": (
        _if(unary("ABS"), comparing()),
        UnsupportedError,
        r"operation 0, IF v1: its branches give \(float32\[1, 4\]\) and \(bool\[1, 4\]\)",
    ),
    "a condition of int32": (
        _if(unary("ABS"), unary("NEG"), COUNT),
        FormatError,
        "the condition should be one BOOL",
    ),
    "a branch with too many inputs": (
        _if(unary("ABS"), choosing()),
        FormatError,
        "subgraph 2 has 2 inputs, the model gives it 1",
    ),
    "a loop that changes a dtype": (
        _while(always(), comparing()),
        UnsupportedError,
        r"WHILE v1: it makes \(bool\[1, 4\]\) of \(float32\[1, 4\]\), a loop must leave dtypes and quant",
    ),
    "a loop that decides by reals": (
        _while(unary("ABS"), unary("NEG")),
        FormatError,
        "what the condition gives should be one BOOL",
    ),
    "a loop without decision": (
        _while((unary("ABS")[0], []), unary("NEG")),
        FormatError,
        "expected one output of subgraph 1, got 0",
    ),
    "a body that gives too little": (
        _while(always(), (unary("ABS")[0], [])),
        FormatError,
        "its body gives 0 tensors, expected 1",
    ),
    "a body that calls the model": (
        _while(always(), calling(0)),
        FormatError,
        r"subgraph 0 calls itself, by way of \[0, 2\]",
    ),
    "unsupported inside": (
        _while(always(), unary("STABLEHLO_SORT")),
        UnsupportedError,
        "^model: subgraph 2, operation 0, STABLEHLO_SORT v1: this operator is not supported$",
    ),
}


@pytest.mark.parametrize(("file", "kind", "reason"), WRONG.values(), ids=WRONG)
def test_wrong_control_flow_is_refused(file: bytes, kind: type[Exception], reason: str) -> None:
    with pytest.raises(kind, match=reason):
        load(file)


def test_loops_without_a_changing_state_are_refused() -> None:
    main = Graph()
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    outputs = main.add("WHILE", [main.constant(X)], [ROW], options)
    with pytest.raises(UnsupportedError, match="nothing in it changes"):
        load(build((main, list(outputs)), always(), unary("NEG", times=0)))
