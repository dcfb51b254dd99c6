"""IF and WHILE whose bodies compute shapes, or change them, against LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import gpunn
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.importers.tflite.test_control import BOOL, COUNT, unary
from tests.importers.tflite.test_subgraphs import Sub, build
from tests.ops.harness import random
from tests.tflite_builder import Graph, litert_run

ROW = float32(1, 3)
OPEN = (1, -1)  # the shape that the file states for a row that grows
X = random(0, 1, 3)


def agree(file: bytes, backend: str, *frames: Sequence[Array]) -> gpunn.Compilation:
    """Run all frames; assert that results are LiteRT's; return the compilation."""
    compiled = gpunn.load(file).compile(backend)
    for inputs in frames:
        found = compiled(*inputs)
        for y, wanted in zip(
            found if isinstance(found, tuple) else (found,), litert_run(file, inputs), strict=True
        ):
            assert (y.shape, y.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(y, wanted, rtol=1e-6)
    return compiled


def counting(type: TensorType, signature: tuple[int, ...]) -> tuple[Graph, int, int, int]:
    """Return a subgraph with inputs (x, count, limit)."""
    graph = Graph()
    return graph, graph.input(type, "x", signature), graph.input(COUNT, "count"), graph.input(COUNT, "limit")


def looping(step: Sub, type: TensorType = ROW, signature: tuple[int, ...] = OPEN) -> bytes:
    """(x, limit) -> tanh of x after a loop from count 0 to limit; `step`: (x, count, limit) -> the same."""
    condition, _, count, limit = counting(type, signature)
    (goes_on,) = condition.add("LESS", [count, limit], [BOOL])
    main = Graph()
    x, limit = main.input(type, "x"), main.input(COUNT, "limit")
    start = [x, main.constant(np.array(0, np.int32)), limit]
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    y, count, _ = main.add("WHILE", start, [type, COUNT, COUNT], options, signatures=[signature], names=["y"])
    outputs = [y, count]
    if type.dtype is DType.FLOAT32:
        outputs += main.add("TANH", [y], [type], signatures=[signature])
    return build((main, outputs), (condition, [goes_on]), step)


def growing(type: TensorType = ROW, signature: tuple[int, ...] = OPEN) -> Sub:
    """x -> x joined with itself."""
    body, x, count, limit = counting(type, signature)
    along = {"axis": 1}
    (y,) = body.add("CONCATENATION", [x, x], [type], along, signatures=[signature])
    (more,) = body.add("ADD", [count, body.constant(np.array(1, np.int32))], [COUNT])
    return body, [y, more, limit]


def number(value: int) -> Array:
    return np.array(value, np.int32)


def test_a_loop_that_grows(backend: str) -> None:
    with agree(looping(growing()), backend, *([X, number(n)] for n in (3, 0, 1, 3))) as compiled:
        assert compiled.stats.runs == 4
        rows = [(p.depth, p.operation.op) for p in compiled.placement]
        assert rows == [(0, "while_loop"), (1, "less"), (1, "concat"), (1, "add"), (0, "tanh")]


def test_a_loop_that_grows_quantised(backend: str) -> None:
    kind = TensorType(DType.UINT8, (1, 3), Quantization((0.5,), (3,)))
    agree(looping(growing(kind), kind), backend, [np.array([[1, 200, 7]], np.uint8), number(2)]).close()


def test_a_loop_that_adds_axes(backend: str) -> None:
    body, x, count, limit = counting(ROW, ())
    (y,) = body.add("EXPAND_DIMS", [x, body.constant(np.array(0, np.int32))], [float32(1, 1, 3)])
    (more,) = body.add("ADD", [count, body.constant(np.array(1, np.int32))], [COUNT])
    file = looping((body, [y, more, limit]), signature=(-1, -1))
    agree(file, backend, [X, number(2)], [X, number(0)]).close()


def chosen(graph: Graph, x: int, type: TensorType = ROW) -> int:
    """Add operators that give the elements of x above 0."""
    zero = graph.constant(np.float32(0))
    (large,) = graph.add("GREATER", [x, zero], [TensorType(DType.BOOL, type.shape)])
    (places,) = graph.add("WHERE", [large], [TensorType(DType.INT64, (1, 2))], signatures=[(-1, 2)])
    return graph.add("GATHER_ND", [x, places], [float32(1)], signatures=[(-1,)])[0]


def test_a_loop_with_other_shapes_in_each_round(backend: str) -> None:
    """The state keeps its shape; intermediate tensors have other shapes in each round."""
    body, x, count, limit = counting(ROW, ())
    axes, half = body.constant(np.array([0], np.int32)), body.constant(np.float32(0.5))
    (total,) = body.add("SUM", [chosen(body, x), axes], [float32()])
    (less,) = body.add("MUL", [total, half], [float32()])
    (y,) = body.add("SUB", [x, less], [ROW])
    (more,) = body.add("ADD", [count, body.constant(np.array(1, np.int32))], [COUNT])
    file = looping((body, [y, more, limit]), signature=())
    start = np.array([[3, 1, -2]], np.float32)
    agree(file, backend, [start, number(2)], [start, number(0)], [-start, number(4)]).close()


def test_a_condition_with_other_shapes_in_each_round(backend: str) -> None:
    """x is doubled and lowered until fewer than two numbers are above 0: their count is a shape."""
    condition = Graph()
    found = chosen(condition, condition.input(ROW))
    (shape,) = condition.add("SHAPE", [found], [TensorType(DType.INT32, (1,))], {"out_type": "INT32"})
    (goes_on,) = condition.add(
        "GREATER", [shape, condition.constant(np.int32([1]))], [TensorType(DType.BOOL, (1,))]
    )
    body = Graph()
    x = body.input(ROW)
    (twice,) = body.add("ADD", [x, x], [ROW])
    (y,) = body.add("SUB", [twice, body.constant(np.float32([[5]]))], [ROW])
    main = Graph()
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    outputs = main.add("WHILE", [main.input(ROW)], [ROW], options)
    file = build((main, list(outputs)), (condition, [goes_on]), (body, [y]))
    agree(file, backend, [np.array([[4, 4.5, 6]], np.float32)], [np.array([[1, -1, -2]], np.float32)]).close()


def branching(then: Sub, otherwise: Sub) -> bytes:
    """(flag, x) -> a branch of x, and twice that, with its shape."""
    main = Graph()
    flag, x = main.input(BOOL), main.input(ROW)
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    (y,) = main.add("IF", [flag, x], [float32(1)], options, signatures=[(-1, -1)])
    (twice,) = main.add("ADD", [y, y], [float32(1)], signatures=[(-1, -1)])
    (shape,) = main.add(
        "SHAPE", [y], [TensorType(DType.INT32, (1,))], {"out_type": "INT32"}, signatures=[(-1,)]
    )
    return build((main, [y, twice, shape]), then, otherwise)


def widening() -> Sub:
    graph = Graph()
    x = graph.input(ROW)
    return graph, list(graph.add("CONCATENATION", [x, x], [float32(1, 6)], {"axis": 1}))


def choosing() -> Sub:
    graph = Graph()
    return graph, [chosen(graph, graph.input(ROW))]


FLAGS = [[np.array(flag), np.array([[3, -1, 2]], np.float32)] for flag in (True, False)]


@pytest.mark.parametrize("branches", [(unary("TANH", ROW), widening()), (choosing(), unary("NEG", ROW))])
def test_branches_of_different_shapes(branches: tuple[Sub, Sub], backend: str) -> None:
    with agree(branching(*branches), backend, *FLAGS, *FLAGS) as compiled:
        assert compiled.placement[0].operation.op == "if_else"
        assert "the shape of the result follows" in compiled.placement[0].reason
        assert compiled.placement[-1].operation.op == "add"


def test_a_loop_in_a_branch(backend: str) -> None:
    """Subgraph 1 has a loop of its own that grows."""
    inner = Graph()
    x = inner.input(ROW)
    start = [x, inner.constant(np.array(0, np.int32)), inner.constant(np.array(2, np.int32))]
    options = {"cond_subgraph_index": 3, "body_subgraph_index": 4}
    y, _, _ = inner.add("WHILE", start, [ROW, COUNT, COUNT], options, signatures=[OPEN])
    condition, _, count, limit = counting(ROW, OPEN)
    (goes_on,) = condition.add("LESS", [count, limit], [BOOL])
    main = Graph()
    flag, x = main.input(BOOL), main.input(ROW)
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    outputs = main.add("IF", [flag, x], [float32(1)], options, signatures=[(-1, -1)])
    file = build((main, list(outputs)), (inner, [y]), unary("NEG", ROW), (condition, [goes_on]), growing())
    with agree(file, backend, *FLAGS) as compiled:
        depths = [(p.depth, p.operation.op) for p in compiled.placement]
    assert (1, "while_loop") in depths and (2, "concat") in depths


def test_bodies_are_compared_layer_by_layer(gpu: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed (extra: compare)")
    sides = [gpu, "cpu", "litert", "webgpu-relaxed"]
    found = gpunn.compare(looping(growing()), [(X, number(2))], sides, per_layer=True)
    assert found.ok, found.findings
    assert [(layer.op, layer.shape) for layer in found.layers[:2]] == [
        ("while_loop", (1, 12)),
        ("while_loop", ()),
    ]
    model = gpunn.load(looping(growing()))
    for runs in (2, 6):  # the loop is made anew in each
        rows = gpunn.profile(model, [X, number(2)], backend=gpu, runs=runs).rows
        assert [row.op for row in rows] == ["while_loop", "tanh"]


def test_values_that_give_wrong_shapes_are_refused(backend: str) -> None:
    """In the second round x has 6 numbers, which cannot be added to 3."""
    body, x, count, limit = counting(ROW, OPEN)
    (same,) = body.add("ADD", [x, body.constant(X)], [ROW], signatures=[OPEN])
    (y,) = body.add("CONCATENATION", [same, same], [ROW], {"axis": 1}, signatures=[OPEN])
    (more,) = body.add("ADD", [count, body.constant(np.array(1, np.int32))], [COUNT])
    with gpunn.load(looping((body, [y, more, limit]))).compile(backend) as compiled:
        assert compiled(X, number(1))[0].shape == (1, 6)
        with pytest.raises(gpunn.ModelError, match="subgraph 2, operation 0, ADD"):
            compiled(X, number(2))
        assert compiled(X, number(1))[0].shape == (1, 6)


def test_memory_is_freed(gpu: str) -> None:
    device = gpunn.backends.webgpu.device.open_device(None, False)
    before = device.constants.nbytes
    agree(looping(growing()), gpu, [X, number(3)]).close()
    assert device.constants.nbytes == before


def test_a_tensor_named_as_two_results_takes_the_last(backend: str) -> None:
    graph = Graph()
    x = graph.input(ROW)
    (y,) = graph.add("CONCATENATION", [x, x], [float32(1, 6)], {"axis": 1})
    main = Graph()
    inputs = main.input(BOOL), main.input(ROW)
    (t,) = main.add("IF", inputs, [float32(1)], {"then_subgraph_index": 1, "else_subgraph_index": 2})
    main.nodes[0] = replace(main.nodes[0], outputs=(t, t))
    (z,) = main.add("NEG", [t], [float32(1)])
    both = [(graph, [x, y]), (graph, [y, x])]
    with gpunn.load(main.build([z], called=both)).compile(backend) as compiled:
        assert np.array_equal(compiled(np.array(True), X), -np.tile(X, 2))
        assert np.array_equal(compiled(np.array(False), X), -X)


def behind(options: dict[str, int], *subs: Sub, code: str = "IF") -> bytes:
    """(flag or limit, x) -> a branch or a loop on the elements of x above 0, and -x."""
    main = Graph()
    first = main.input(BOOL if code == "IF" else COUNT)
    x = main.input(ROW)
    found = chosen(main, x)
    if code == "IF":
        (y,) = main.add("IF", [first, found], [float32(1)], options, signatures=[(-1,)])
    else:
        start = [found, main.constant(np.array(0, np.int32)), first]
        y, _, _ = main.add("WHILE", start, [float32(1), COUNT, COUNT], options, signatures=[(-1,)])
    (twice,) = main.add("ADD", [y, y], [float32(1)], signatures=[(-1,)])
    return build((main, [twice, *main.add("NEG", [x], [ROW])]), *subs)


def test_branches_of_a_tensor_of_unknown_shape(backend: str) -> None:
    """One branch changes the shape, the other has another WHERE."""
    then, otherwise = Graph(), Graph()
    x = then.input(float32(1), signature=(-1,))
    (shape,) = then.add("SHAPE", [x], [TensorType(DType.INT32, (1,))], {"out_type": "INT32"})
    (count,) = then.add("CAST", [shape], [float32(1)])
    (y,) = then.add("ADD", [x, count], [float32(1)], signatures=[(-1,)])
    z = otherwise.input(float32(1), signature=(-1,))
    (less,) = otherwise.add("SUB", [z, otherwise.constant(np.float32(1))], [float32(1)], signatures=[(-1,)])
    (large,) = otherwise.add(
        "GREATER",
        [less, otherwise.constant(np.float32(0))],
        [TensorType(DType.BOOL, (1,))],
        signatures=[(-1,)],
    )
    (places,) = otherwise.add("WHERE", [large], [TensorType(DType.INT64, (1, 1))], signatures=[(-1, 1)])
    found = otherwise.add("GATHER_ND", [less, places], [float32(1)], signatures=[(-1,)])
    file = behind({"then_subgraph_index": 1, "else_subgraph_index": 2}, (then, [y]), (otherwise, list(found)))
    agree(file, backend, *FLAGS, *FLAGS, [np.array(False), np.array([[0.5, 4, 1.5]], np.float32)]).close()


@pytest.mark.parametrize("grows", [True, False])
def test_a_loop_of_a_tensor_of_unknown_shape(grows: bool, backend: str) -> None:
    row = TensorType(DType.FLOAT32, (1,))
    condition, _, count, limit = counting(row, (-1,))
    (goes_on,) = condition.add("LESS", [count, limit], [BOOL])
    body, x, count, limit = counting(row, (-1,))
    if grows:
        (y,) = body.add("CONCATENATION", [x, x], [row], {"axis": 0}, signatures=[(-1,)])
    else:
        (y,) = body.add("ADD", [x, x], [row], signatures=[(-1,)])
    (more,) = body.add("ADD", [count, body.constant(np.array(1, np.int32))], [COUNT])
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    file = behind(options, (condition, [goes_on]), (body, [y, more, limit]), code="WHILE")
    frames = [
        [number(n), np.array([x], np.float32)] for n, x in ((2, (3, -1, 2)), (0, (1, -1, -1)), (3, (1, 2, 3)))
    ]
    agree(file, backend, *frames, *frames).close()
