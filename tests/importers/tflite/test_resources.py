"""Named variables: against LiteRT over several runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.model import load
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.importers.tflite.test_control import BOOL
from tests.importers.tflite.test_state import as_list
from tests.importers.tflite.test_subgraphs import Sub
from tests.tflite_builder import Graph, Node, litert_runs

ONE = float32(1)
T, F = np.array(True), np.array(False)


def one(value: float) -> Array:
    return np.array([value], np.float32)


def variable(graph: Graph, name: bytes = b"v", **options: Any) -> int:
    return graph.handle("VAR_HANDLE", shared_name=name, **options)


def read(graph: Graph, handle: int, type: TensorType = ONE) -> int:
    return graph.add("READ_VARIABLE", [handle], [type])[0]


def assign(graph: Graph, handle: int, value: int) -> None:
    graph.nodes.append(Node("ASSIGN_VARIABLE", (handle, value), ()))


def once(graph: Graph, index: int = 1) -> None:
    graph.nodes.append(Node("CALL_ONCE", (), (), {"init_subgraph_index": index}))


def plus(graph: Graph, a: int, b: int) -> int:
    return graph.add("ADD", [a, b], [ONE])[0]


def first(value: float = 5, name: bytes = b"v") -> Sub:
    """Return a subgraph that gives a variable its first value."""
    graph = Graph()
    assign(graph, variable(graph, name), graph.constant(one(value)))
    return graph, []


def using(steps: str, called: Sequence[Sub] = (first(),)) -> bytes:
    """x -> the values read, by steps: r(ead), w(rite the last value plus x), o(nce: call `called`)."""
    graph = Graph()
    x = graph.input(ONE)
    handle, seen, last = variable(graph), [], x
    for step in steps:
        if step == "o":
            once(graph)
        elif step == "r":
            last = read(graph, handle)
            seen.append(last)
        else:
            last = plus(graph, last, x)
            assign(graph, handle, last)
    return graph.build(seen, called=called)


def check(file: bytes, frames: Sequence[Sequence[Array]], backend: str) -> list[list[Array]]:
    """Return gpunn's results for all frames; assert that they are LiteRT's, also after a reset."""
    expected = litert_runs(file, frames)
    with load(file).compile(backend=backend) as compiled:
        found = [as_list(compiled(*frame)) for frame in frames]
        np.testing.assert_equal(found, expected)
        compiled.reset_state()
        np.testing.assert_equal([as_list(compiled(*frame)) for frame in frames], expected)
    return found


@pytest.mark.parametrize("steps", ["or", "orw", "orwrwr", "owr", "wr", "wrwr", "oroo"])
def test_readers_see_the_last_assigned_value(steps: str, backend: str) -> None:
    check(using(steps), [[one(1)], [one(10)], [one(100)]], backend)


def computing(operator: str) -> Sub:
    """Return a subgraph that computes a first value."""
    graph = Graph()
    (value,) = graph.add(operator, [graph.constant(one(2))], [ONE])
    assign(graph, variable(graph), value)
    return graph, []


@pytest.mark.parametrize("steps", ["or", "orw", "oworwr"])
def test_first_values_may_be_computed(steps: str, backend: str) -> None:
    check(using(steps, [computing("SQUARE")]), [[one(1)], [one(10)]], backend)


def test_first_values_may_depend_on_one_another(backend: str) -> None:
    """A loop in the initial subgraph adds 3 + 2 + 1 to a value assigned before it."""
    (condition, (count,)), init, main = negating(), Graph(), Graph()
    goes_on = condition.add("LESS", [count, condition.constant(one(0))], [TensorType(DType.BOOL, (1,))])
    body, _ = adding()
    less = body.add("SUB", [0, body.constant(one(1))], [ONE])
    for name, value in (b"v", 7), (b"w", 8):
        assign(init, variable(init, name), init.constant(one(value)))
    init.add("WHILE", [init.constant(one(3))], [ONE], {"cond_subgraph_index": 2, "body_subgraph_index": 3})
    x = main.input(ONE)
    once(main)
    seen = [plus(main, x, read(main, variable(main, name))) for name in (b"v", b"w")]
    assign(main, variable(main, b"w"), x)
    called = [(init, []), (condition, list(goes_on)), (body, list(less))]
    found = check(main.build(seen, called=called), [[one(0)], [one(1)]], backend)
    assert [v.item() for v in found[0]] == [13, 8]


KINDS = {
    d.value: TensorType(d, (2, 3))
    for d in (DType.FLOAT32, DType.FLOAT16, DType.INT32, DType.INT64, DType.INT16, DType.UINT8, DType.BOOL)
} | {"quantised": TensorType(DType.INT8, (2, 3), Quantization((0.5,), (3,)))}


@pytest.mark.parametrize("type", KINDS.values(), ids=KINDS)
def test_variables_of_every_type_delay_values(type: TensorType, backend: str) -> None:
    values = [np.arange(k, k + 6).reshape(2, 3).astype(type.dtype.numpy) for k in range(3)]
    init, main = Graph(), Graph()
    assign(init, variable(init), init.tensor(type, data=values[0].tobytes()))
    x = main.input(type)
    once(main)
    handle = variable(main)
    before = read(main, handle, type)
    assign(main, handle, x)
    check(main.build([before], called=[(init, [])]), [[v] for v in values], backend)


def test_equal_names_in_one_container_are_one_variable(backend: str) -> None:
    main = Graph()
    x = main.input(ONE)
    for index in (1, 2, 1):
        once(main, index)
    handles = [variable(main, b"a"), variable(main, b"b"), variable(main, b"a"), main.handle("VAR_HANDLE")]
    other = variable(main, b"a", container=b"a")
    for handle in (other, handles[3]):
        assign(main, handle, x)
    seen = [read(main, h) for h in (*handles, other)]
    assign(main, handles[2], plus(main, x, x))
    file = main.build(seen, called=[first(1, b"a"), first(2, b"b")])
    check(file, [[one(7)], [one(8)]], backend)


def test_the_state_stays_on_the_gpu(gpu: str) -> None:
    graph, outputs = adding()
    graph.nodes.insert(0, Node("CALL_ONCE", (), (), {"init_subgraph_index": 1}))
    with load(graph.build(outputs, called=[first()])).compile(backend=gpu) as compiled:
        assert [compiled(one(1)).item() for _ in range(3)] == [6, 7, 8]
        assert (compiled.stats.bytes_uploaded, compiled.stats.bytes_read_back) == (3 * 4, 3 * 4)
        assert compiled.stats.state_bytes > 0


def adding(handle_comes_in: bool = False) -> Sub:
    """x -> the value of variable v after x has been added to it."""
    graph = Graph()
    x = graph.input(ONE)
    handle = graph.resource() if handle_comes_in else variable(graph)
    graph.inputs += [handle] if handle_comes_in else []
    y = plus(graph, read(graph, handle), x)
    assign(graph, handle, y)
    return graph, [y]


def negating(handle_comes_in: bool = False) -> Sub:
    """x -> -x; another input is not used."""
    graph = Graph()
    x = graph.input(ONE)
    graph.inputs += [graph.resource()] if handle_comes_in else []
    return graph, list(graph.add("NEG", [x], [ONE]))


def branching(then: Sub, otherwise: Sub, handle_comes_in: bool = False, steps: str = "or") -> bytes:
    """(condition, x) -> (the result of a branch of x, the value of v after it)."""
    main = Graph()
    inputs = [main.input(BOOL), main.input(ONE)]
    if "o" in steps:
        once(main)
    handle = variable(main)
    options = {"then_subgraph_index": 2, "else_subgraph_index": 3}
    outputs = main.add("IF", [*inputs, *([handle] if handle_comes_in else [])], [ONE], options)
    seen = [read(main, handle)] if "r" in steps else []
    return main.build([*outputs, *seen], called=[first(), then, otherwise])


@pytest.mark.parametrize("handle_comes_in", [False, True])
def test_branches_may_assign_a_variable_or_not(handle_comes_in: bool, backend: str) -> None:
    subs = adding(handle_comes_in), negating(handle_comes_in)
    frames = [[T, one(1)], [F, one(10)], [T, one(100)], [T, one(1000)], [F, one(0)]]
    found = check(branching(*subs, handle_comes_in), frames, backend)
    assert [v.item() for _, v in found] == [6, 6, 106, 1106, 1106]
    check(branching(*subs[::-1], handle_comes_in), frames, backend)


def test_each_branch_may_be_the_first_to_assign(backend: str) -> None:
    def writing(sign: float) -> Sub:
        graph = Graph()
        x = graph.input(ONE)
        (y,) = graph.add("MUL", [x, graph.constant(one(sign))], [ONE])
        assign(graph, variable(graph), y)
        return graph, [x]

    found = check(branching(writing(2), writing(-3), steps="r"), [[T, one(1)], [F, one(1)]], backend)
    assert [v.item() for _, v in found] == [2, -3]


@pytest.mark.parametrize("assigns", [True, False])
def test_a_branch_may_have_no_results(assigns: bool, backend: str) -> None:
    main, then, otherwise = graphs = Graph(), Graph(), Graph()
    choice = main.input(BOOL)
    xs = [g.input(ONE) for g in graphs]
    once(main, 3)
    if assigns:
        assign(then, variable(then), xs[1])
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    main.add("IF", [choice, xs[0]], [], options)
    file = main.build([read(main, variable(main))], called=[(then, []), (otherwise, []), first()])
    found = check(file, [[F, one(1)], [T, one(2)], [F, one(3)]], backend)
    assert [v.item() for (v,) in found] == ([5, 2, 2] if assigns else [5, 5, 5])


def looping(inner: Sub, handle_comes_in: bool = False, init: Sequence[Sub] = (first(),)) -> bytes:
    """n -> (0, the value of v) after calls of subgraph `inner` with n, n - 1, ... 1."""
    main, condition, body = graphs = Graph(), Graph(), Graph()
    inputs = [[g.input(ONE)] for g in graphs]
    if init:
        once(main)
    if handle_comes_in:
        for graph, numbers in zip(graphs, inputs, strict=True):
            numbers.append(variable(graph) if graph is main else graph.resource())
        condition.inputs, body.inputs = inputs[1:]
    goes_on = condition.add("GREATER", [0, condition.constant(one(0))], [TensorType(DType.BOOL, (1,))])
    choice = {"then_subgraph_index": 4, "else_subgraph_index": 4}
    body.add("IF", [body.constant(T), *inputs[2]], [ONE], choice)
    less = body.add("SUB", [0, body.constant(one(1))], [ONE])
    left = [main.tensor(ONE), *([main.resource()] if handle_comes_in else [])]
    targets = {"cond_subgraph_index": 2, "body_subgraph_index": 3}
    main.nodes.append(Node("WHILE", tuple(inputs[0]), tuple(left), targets))
    after = read(main, left[1] if handle_comes_in else variable(main))
    called = [*(init or (first(),)), (condition, goes_on), (body, [*less, *inputs[2][1:]]), inner]
    return main.build([left[0], after], called=called)


@pytest.mark.parametrize("handle_comes_in", [False, True])
def test_a_loop_adds_to_a_variable(handle_comes_in: bool, backend: str) -> None:
    file = looping(adding(handle_comes_in), handle_comes_in)
    found = check(file, [[one(3)], [one(0)], [one(2)]], backend)
    assert [v.item() for _, v in found] == [11, 11, 14]


def cell() -> Sub:
    """x -> x + h, the next value of h."""
    graph = Graph()
    weight, zero = graph.constant(np.ones((1, 1), np.float32)), graph.constant(np.zeros(1, np.float32))
    state = graph.tensor(float32(1, 1), is_variable=True)
    row = graph.add("RESHAPE", [graph.input(ONE)], [float32(1, 1)], {"new_shape": [1, 1]})
    h = graph.add("RNN", [*row, weight, weight, zero, state], [float32(1, 1)])
    return graph, list(graph.add("RESHAPE", h, [ONE], {"new_shape": [1]}))


def test_variable_tensors_of_a_branch_restart_with_each_call(backend: str) -> None:
    frames = [[c, one(k)] for c, k in ((T, 1), (F, 2), (T, 3), (T, 4))]
    for subs in ((cell(), negating()), (negating(), cell()), (cell(), cell())):
        check(branching(*subs, steps=""), frames, backend)


@pytest.mark.parametrize("condition", [T, F])
def test_variable_tensors_of_an_inlined_branch_restart_with_each_call(condition: Array, backend: str) -> None:
    main = Graph()
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    outputs = main.add("IF", [main.constant(condition), main.input(ONE)], [ONE], options)
    file = main.build(list(outputs), called=[cell(), negating()])
    check(file, [[one(1)], [one(2)]], backend)


def test_variable_tensors_keep_their_values_between_rounds(backend: str) -> None:
    """The inputs 3, 1 give the states 1, 1 + 1, 2 + 2; the next run starts from 0 again."""
    main, condition, (body, (h,)) = Graph(), Graph(), cell()
    for graph in main, condition:
        graph.input(ONE), graph.input(ONE)
    goes_on = condition.add("GREATER", [0, condition.constant(one(0))], [TensorType(DType.BOOL, (1,))])
    count = body.tensor(ONE)
    body.inputs.insert(0, count)
    less = body.add("SUB", [count, body.constant(one(1))], [ONE])
    left = main.add("WHILE", [0, 1], [ONE, ONE], {"cond_subgraph_index": 1, "body_subgraph_index": 2})
    file = main.build(list(left), called=[(condition, goes_on), (body, [*less, h])])
    frames = [[one(n), one(x)] for n, x in ((3, 1), (0, 5), (1, 10), (2, 100))]
    assert [y.item() for _, y in check(file, frames, backend)] == [4, 5, 10, 200]
