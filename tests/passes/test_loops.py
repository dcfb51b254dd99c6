"""Loops that count: rounds that follow from constants, what leaves the body, state that nobody reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.parts import OpenBody
from gpunn.model import Model
from gpunn.passes import loops, optimise
from gpunn.types import Array, DType, TensorType, float32

ROW = float32(3)
X = np.array([1, -2, 0.5], np.float32)


def constant(model: Model, value: Any, dtype: Any = np.int32) -> Operand:
    return model.constant("c", np.array(value, dtype))


def counting(
    begin: int,
    relation: str,
    limit: int,
    step: int,
    dtype: Any = np.int32,
    by: str = "add",
    given: bool = False,
) -> Model:
    """(x) -> the counter, and x doubled in each round of a loop; `given`: its limit is an input."""
    condition, body, model = Model(), Model(), Model()
    number = TensorType(DType.of(np.dtype(dtype)), ())
    i, _, most = (condition.input(n, t) for n, t in (("i", number), ("x", ROW), ("most", number)))
    condition.output(*condition.add(relation, [i, most]))
    i, x, most = (body.input(n, t) for n, t in (("i", number), ("x", ROW), ("most", number)))
    body.output(*body.add(by, [i, constant(body, step, dtype)]), *body.add("add", [x, x]), most)
    attrs = {"condition": condition, "body": body}
    last = model.input("most", number) if given else constant(model, limit, dtype)
    start = [constant(model, begin, dtype), model.input("x", ROW), last]
    model.output(*model.add("while_loop", start, attrs)[:2])
    return model


def loop_of(model: Model) -> Operation:
    (found,) = (o for o in optimise(model).operations if o.op == "while_loop")
    return found


COUNTED = {
    "from 0 by 1": (counting(0, "less", 5, 1), 5, 5),
    "by 3": (counting(1, "less", 12, 3), 13, 4),
    "no round": (counting(5, "less", 5, 1), 5, 0),
    "one round": (counting(4, "less_equal", 4, 7), 11, 1),
    "down": (counting(9, "greater", 0, 4, by="sub"), -3, 3),
    "down to": (counting(9, "greater_equal", 1, -4), -3, 3),
    "until equal": (counting(0, "not_equal", 6, 2), 6, 3),
    "int64": (counting(-(2**40), "less", 3 - 2**40, 1, np.int64), 3 - 2**40, 3),
    "by factors": (counting(1, "less", 100, 3, by="mul"), 243, 5),
    "around the end of int32": (counting(2**31 - 2, "greater", 0, 1), -(2**31), 2),
}


@pytest.mark.parametrize("case", COUNTED)
def test_rounds_are_counted_before_the_loop(case: str, backend: str) -> None:
    model, counter, rounds = COUNTED[case]
    attrs = loop_of(model).attrs
    assert (attrs["condition"], attrs["rounds"]) == (None, rounds)
    with model.compile(backend) as compiled:
        i, y = compiled(X)
        assert i == counter
        np.testing.assert_array_equal(y, X * np.float32(2**rounds))
    np.testing.assert_array_equal(model.evaluate([X])[1], X * np.float32(2**rounds))


def test_a_limit_that_a_run_gives_is_asked_for(backend: str) -> None:
    model = counting(0, "less", 0, 1, given=True)
    assert loop_of(model).attrs["rounds"] is None
    with model.compile(backend) as compiled:
        for rounds in (0, 1, 4):
            i, y = compiled(np.array(rounds, np.int32), X)
            assert i == rounds
            np.testing.assert_array_equal(y, X * np.float32(2**rounds))


@pytest.mark.parametrize("change", ["MAX_COUNTED", "MAX_COUNTER", "MAX_COUNTING"])
def test_counting_has_bounds(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, change, 0)
    assert loop_of(counting(0, "less", 5, 1)).attrs["rounds"] is None


def test_a_decision_on_data_is_asked_for() -> None:
    condition, body, model = Model(), Model(), Model()
    (largest,) = condition.add("reduce_max", [condition.input("x", ROW)], {"axes": (0,)})
    condition.output(*condition.add("less", [largest, constant(condition, 9, np.float32)]))
    x = body.input("x", ROW)
    body.output(*body.add("add", [x, x]))
    attrs = {"condition": condition, "body": body}
    model.output(*model.add("while_loop", [model.input("x", ROW)], attrs))
    assert loop_of(model).attrs["condition"] is not None


def weighted(rounds: int, asks: bool = False) -> Model:
    """(x, w) -> x + rounds * tanh(w), round by round; `asks`: a loop that ends by a value of x."""
    condition, body, model = Model(), Model(), Model()
    number = TensorType(DType.INT32, ())
    names = {"i": number, "x": ROW, "w": ROW, "unread": ROW}
    i, x, _, _ = (condition.input(n, t) for n, t in names.items())
    (decision,) = condition.add("less", [i, constant(condition, rounds)])
    if asks:
        (largest,) = condition.add("reduce_max", [x], {"axes": (0,)})
        (small,) = condition.add("less", [largest, constant(condition, 1e9, np.float32)])
        (decision,) = condition.add("logical_and", [decision, small])
    condition.output(decision)
    i, x, w, unread = (body.input(n, t) for n, t in names.items())
    (share,) = body.add("tanh", body.add("neg", [w]))
    (after,) = body.add("sub", [x, share])
    (other,) = body.add("add", [unread, x])
    body.output(*body.add("add", [i, constant(body, 1)]), after, w, other)
    start = [
        constant(model, 0),
        model.input("x", ROW),
        model.input("w", ROW),
        constant(model, X * 0, np.float32),
    ]
    model.output(model.add("while_loop", start, {"condition": condition, "body": body})[1])
    return model


@pytest.mark.parametrize("rounds", [0, 1, 3])
@pytest.mark.parametrize("asks", [False, True])
def test_what_is_the_same_in_each_round_is_computed_once(asks: bool, rounds: int, backend: str) -> None:
    model = weighted(rounds, asks)
    optimised = optimise(model)
    loop = loop_of(model)
    assert [o.op for o in optimised.operations] == ["neg", "tanh", "while_loop"]
    assert [o.op for o in loop.attrs["body"].operations] == (["sub", "add"] if asks else ["sub"])
    w = np.array([0.1, 0.2, -3], np.float32)
    with model.compile(backend) as compiled:
        np.testing.assert_allclose(compiled(X, w), X + rounds * np.tanh(w), rtol=1e-5, atol=1e-6)


def test_state_that_nobody_reads_is_dropped() -> None:
    loop = loop_of(weighted(3))
    assert [i.name for i in loop.inputs if i is not None][:1] == ["x"]
    assert len(loop.inputs) == len(loop.outputs) == len(loop.attrs["body"].inputs) == 2


def test_what_may_refuse_a_value_stays_in_the_body() -> None:
    """An index out of range is an error only if there is a round."""
    condition, body, model = Model(), Model(), Model()
    number, table = TensorType(DType.INT32, ()), float32(2, 3)
    types = {"i": number, "x": ROW, "table": table, "at": number}
    i, _, _, _ = (condition.input(n, t) for n, t in types.items())
    condition.output(*condition.add("less", [i, constant(condition, 0)]))
    i, x, rows, at = (body.input(n, t) for n, t in types.items())
    (row,) = body.add("gather", [rows, at])
    body.output(*body.add("add", [i, constant(body, 1)]), *body.add("add", [x, row]), rows, at)
    start = [constant(model, 0), model.input("x", ROW), model.input("t", table), model.input("at", number)]
    model.output(model.add("while_loop", start, {"condition": condition, "body": body})[1])
    assert [o.op for o in optimise(model).operations] == ["while_loop"]
    with model.compile("cpu") as compiled:
        np.testing.assert_array_equal(compiled(X, np.zeros((2, 3), np.float32), np.array(9, np.int32)), X)


def test_bodies_for_the_shapes_of_a_run_are_closed() -> None:
    condition, body, model = Model(), Model(), Model()
    number = TensorType(DType.INT32, ())
    for graph in (condition, body):
        graph.input("i", number)
        graph.input("x", ROW, open=[0])
    condition.output(*condition.add("less", [condition.inputs[0], constant(condition, 4)]))
    i, x = body.inputs
    body.output(*body.add("add", [i, constant(body, 1)]), *body.add("add", [x, x]))
    attrs = {"condition": OpenBody(condition), "body": OpenBody(body)}
    start = [constant(model, 0), model.input("x", ROW, open=[0])]
    model.output(model.add("while_loop", start, attrs)[1])
    assert loop_of(model).attrs["rounds"] == 4
    with model.compile("cpu") as compiled:
        for values in (X, X[:1], np.array([1, 2, 3, 4, 5], np.float32)):
            np.testing.assert_array_equal(compiled(values), values * np.float32(16))


def test_nested_loops(backend: str) -> None:
    inner = counting(0, "less", 3, 1)
    (loop,) = inner.operations
    condition, body, model = Model(), Model(), Model()
    number = TensorType(DType.INT32, ())
    i, _ = condition.input("i", number), condition.input("x", ROW)
    condition.output(*condition.add("less", [i, constant(condition, 2)]))
    i, x = body.input("i", number), body.input("x", ROW)
    start = [constant(body, 0), x, constant(body, 3)]
    doubled = body.add("while_loop", start, loop.attrs)[1]
    body.output(*body.add("add", [i, constant(body, 1)]), doubled)
    attrs = {"condition": condition, "body": body}
    model.output(model.add("while_loop", [constant(model, 0), model.input("x", ROW)], attrs)[1])
    (outer,) = optimise(model).operations
    assert outer.attrs["rounds"] == 2
    assert [o.attrs["rounds"] for o in outer.attrs["body"].operations] == [3]
    with model.compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(X), X * np.float32(64))


def adding_rows(rounds: int, below: float | None = None) -> Model:
    """(x, t) -> x + the rows of a table with three rows, one in each round, as long as x[0] is `below`."""
    condition, body, model = Model(), Model(), Model()
    number, table = TensorType(DType.INT32, ()), float32(3, 3)
    types = {"i": number, "x": ROW, "table": table}
    i, x, _ = (condition.input(n, t) for n, t in types.items())
    (decision,) = condition.add("less", [i, constant(condition, rounds)])
    if below is not None:
        (first,) = condition.add("strided_slice", [x], {"begin": (0,), "end": (1,), "strides": (1,)})
        (low,) = condition.add("less", [first, constant(condition, below, np.float32)])
        (one,) = condition.add("reshape", [decision], {"shape": (1,)})
        (decision,) = condition.add("logical_and", [low, one])
    condition.output(decision)
    i, x, rows = (body.input(n, t) for n, t in types.items())
    (row,) = body.add("gather", [rows, i])
    body.output(*body.add("add", [i, constant(body, 1)]), *body.add("add", [x, row]), rows)
    start = [constant(model, 0), model.input("x", ROW), model.input("t", table)]
    model.output(model.add("while_loop", start, {"condition": condition, "body": body})[1])
    return model


def test_a_counter_that_guards_allow_is_not_checked_in_each_round(backend: str) -> None:
    model, table = adding_rows(3), np.arange(9, dtype=np.float32).reshape(3, 3)
    assert [o.trusted for o in loop_of(model).attrs["body"].operations] == [True, False, False]
    with model.compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(X, table), np.add(X, [9, 12, 15]))


@pytest.mark.parametrize(("below", "rows"), [(4, 2), (100, 3), (-10, 0)])
def test_a_term_of_a_condition_may_count(below: float, rows: int, backend: str) -> None:
    """Values of a run end the loop, but its counter stays within the table."""
    model, table = adding_rows(3, below), np.arange(9, dtype=np.float32).reshape(3, 3)
    assert [o.trusted for o in loop_of(model).attrs["body"].operations] == [True, False, False]
    with model.compile(backend) as compiled:
        expected = X + sum(table[:rows], start=np.zeros(3, np.float32))
        np.testing.assert_array_equal(compiled(X, table), expected)
    refused = adding_rows(4, below)
    assert not any(o.trusted for o in loop_of(refused).attrs["body"].operations)


def test_a_counter_that_a_guard_refuses_is_refused_in_the_run(backend: str) -> None:
    with adding_rows(4).compile(backend) as compiled:
        for _ in range(2):
            with pytest.raises(gpunn.ModelError, match=r"gather: indices must be in 0 \.\.\. 2, got 3"):
                compiled(X, np.ones((3, 3), np.float32))


def test_bits_are_those_of_round_by_round(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, w = weighted(7), np.array([0.1, 0.2, -3], np.float32)

    def run() -> Array:
        with model.compile(backend) as compiled:
            return np.asarray(compiled(X, w))

    counted = run()
    monkeypatch.setattr(loops, "MAX_COUNTED", 0)
    monkeypatch.setattr(loops, "_may_move", lambda operation: False)
    np.testing.assert_array_equal(counted, run())


def test_strings_as_state(backend: str) -> None:
    """They have no form on a GPU, so the host runs the rounds."""
    text, number = TensorType(DType.STRING, (2,)), TensorType(DType.INT32, ())
    condition, body, model = Model(), Model(), Model()
    for graph in (condition, body):
        graph.input("i", number)
        graph.input("s", text)
    condition.output(*condition.add("less", [condition.inputs[0], constant(condition, 3)]))
    i, words = body.inputs
    body.output(*body.add("add", [i, constant(body, 1)]), *body.add("reshape", [words], {"shape": (2,)}))
    attrs = {"condition": condition, "body": body}
    model.output(model.add("while_loop", [constant(model, 0), model.input("s", text)], attrs)[1])
    with model.compile(backend) as compiled:
        assert compiled(np.array(["a", "b"], object)).tolist() == [b"a", b"b"]
