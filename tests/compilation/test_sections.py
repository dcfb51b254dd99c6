"""Sections of models whose shapes follow from values: one program for all values that lead to a shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.compilation.sections import MAX_SECTIONS
from gpunn.compilation.specialise import MAX_SPECIALISATIONS
from gpunn.custom import op
from gpunn.graph.complete import complete
from gpunn.graph.graph import Graph
from gpunn.graph.parts import OpenBody
from gpunn.graph.pending import PendingOperation
from gpunn.model import Model
from gpunn.ops.call import Call, ResultsNeededError
from gpunn.types import Array, DType, TensorType, float32
from tests import tflite_builder
from tests.graph.test_pending import COUNT, positives, repeated

PLACES = TensorType(DType.INT64, (1, 1))
X = np.array([[1, -1, 2], [-2, 3, -3]], np.float32)


def chosen() -> Model:
    """A model: the elements of 2 x above 0, and their tanh, repeated as often as an input says."""
    model = Model("chosen")
    x, times = model.input("x", float32(2, 3), open=[0]), model.input("times", COUNT)
    (twice,) = model.add("add", [x, x])
    _, found = model.add(positives, [twice], names=["places", "found"])
    (small,) = model.add("tanh", [found])
    (rows,) = model.add(repeated, [small, times], names=["rows"])
    model.output(found, rows)
    return model


def check(compiled: gpunn.Compilation, x: Array, times: int) -> None:
    found, rows = compiled(x, np.array([times], np.int32))
    wanted = (2 * x)[x > 0]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(rows, np.tile(np.tanh(wanted), (times, 1)), rtol=0, atol=1e-6)


def test_one_program_for_all_values_that_lead_to_the_same_shapes(backend: str) -> None:
    with chosen().compile(backend) as compiled:
        assert [p.operation.op for p in compiled.placement] == ["add"]
        for k in range(20):
            x = np.full((2, 3), -1.0, np.float32)
            x.flat[[k % 6, (k + 1) % 6]] = 1 + k, 2 + k
            check(compiled, x, 3)
        assert (compiled.stats.runs, compiled.stats.programs) == (20, 2)
        check(compiled, X, 3)
        check(compiled, X, 2)
        assert compiled.stats.programs == 4, "another number of numbers, and of rows"
        names = [p.operation.op for p in compiled.placement]
        assert names == ["add", "positives", "tanh", "repeated"]


def test_files_use_the_same_pending_operations() -> None:
    """Calls of NNAPI do so, too; see tests/nnapi/test_translation.py."""
    graph = tflite_builder.Graph()
    data = graph.build(graph.add("WHERE", [graph.input(TensorType(DType.BOOL, (4,)))], [PLACES]))
    for model in (chosen(), gpunn.load(data)):
        assert model.pending and {type(entry) for entry in model.pending} == {PendingOperation}


def test_inputs_of_other_shapes(backend: str) -> None:
    with chosen().compile(backend) as compiled:
        for rows in (1, 4, 1):
            check(compiled, np.tile(X[:1], (rows, 1)), rows)
        assert compiled.stats.programs == 5, "the first one, and two for each shape"
    with chosen().reshaped({"x": (4, 3)}).compile(backend) as compiled:
        check(compiled, np.tile(X, (2, 1)), 1)


@pytest.mark.parametrize("preference", [*gpunn.Preference])
def test_all_methods_that_run(backend: str, preference: gpunn.Preference) -> None:
    frames = [(X + k, np.array([k + 1], np.int32)) for k in range(4)]
    with chosen().compile(backend, preference=preference) as compiled:
        events = [compiled.submit(*frame) for frame in frames]
        for frame, event, streamed in zip(frames, events, compiled.stream(frames), strict=True):
            named = compiled.run(dict(zip(("x", "times"), frame, strict=True)))
            for answer in (event.result(), streamed, tuple(named.values()), compiled.trace(*frame).outputs):
                np.testing.assert_array_equal(answer[0], (2 * frame[0])[frame[0] > 0])


def test_the_same_values_need_no_second_completion(monkeypatch: pytest.MonkeyPatch) -> None:
    completed: list[str] = []

    def counting(graph: Graph, *args: Any) -> Graph:
        completed.append(graph.name)
        return complete(graph, *args)

    monkeypatch.setattr("gpunn.graph.complete.complete", counting)
    with chosen().compile("cpu") as compiled:
        check(compiled, X, 2)
        once = len(completed)
        for _ in range(3):
            check(compiled, X, 2)
        assert len(completed) == once > 0
        for times in range(1, MAX_SECTIONS + 2):
            check(compiled, X, times)
        again = len(completed)
        check(compiled, X, 2)
        assert len(completed) > again, "others have come since, and only so many are kept"


def test_sections_are_bounded(backend: str) -> None:
    with chosen().compile(backend) as compiled:
        for times in range(1, MAX_SPECIALISATIONS + 4):
            check(compiled, X, times)
        assert len(compiled._specialisations.kept()) == 1 + MAX_SPECIALISATIONS
        check(compiled, X, MAX_SPECIALISATIONS + 3)
        assert compiled.stats.programs == MAX_SPECIALISATIONS + 4


def test_state_goes_through_all_sections(backend: str) -> None:
    model = Model()
    x, times = model.input("x", float32(3)), model.input("times", COUNT)
    total = model.variable("total", float32(3))
    (rows,) = model.add(repeated, [x, times])
    (sums,) = model.add("reduce_sum", [rows], {"axes": (0,), "keep_dims": False})
    (after,) = model.add("add", [sums, total])
    model.update(total, after)
    model.output(after)
    one = np.ones(3, np.float32)
    with model.compile(backend) as compiled:
        found = [compiled(one, np.array([k], np.int32))[0] for k in (1, 2, 3, 1)]
        assert found == [1, 3, 6, 7]
        compiled.reset_state()
        assert compiled(one, np.array([2], np.int32))[0] == 2


def test_a_body_whose_shapes_follow_from_values(backend: str) -> None:
    """Each round keeps the elements above 0 and subtracts 1, so values decide on the shape."""
    condition, body = (Model(name) for name in ("condition", "body"))
    condition.input("x", float32(4), open=None)
    left = condition.input("left", COUNT)
    (positive,) = condition.add("greater", [left, condition.constant("zero", np.array([0], np.int32))])
    condition.output(*condition.add("reshape", [positive], {"shape": ()}))
    x, left = body.input("x", float32(4), open=None), body.input("left", COUNT)
    one, step = body.constant("one", np.float32(1)), body.constant("step", np.array([1], np.int32))
    _, found = body.add(positives, [x], names=["places", "found"])
    body.output(*body.add("sub", [found, one]), *body.add("sub", [left, step]))
    model = Model()
    start = model.input("x", float32(4), open=[0]), model.input("left", COUNT)
    attrs = {"condition": OpenBody(condition), "body": OpenBody(body)}
    kept, _ = model.add("while_loop", start, attrs, names=["kept", "left after"])
    model.output(*model.add("neg", [kept]))
    x0 = np.array([3, 1, -1, 2], np.float32)
    with model.compile(backend) as compiled:
        for left_over, wanted in ((0, -x0), (1, [-2, 0, -1]), (2, [-1, 0]), (3, [0]), (4, [])):
            np.testing.assert_array_equal(compiled(x0, np.array([left_over], np.int32)), wanted)
        programs = compiled.stats.programs
        compiled(x0[::-1].copy(), np.array([2], np.int32))
        assert compiled.stats.programs == programs


@pytest.mark.parametrize("wrap", [lambda body: body, OpenBody])
def test_branches_whose_shapes_follow_from_values(wrap: Callable[[Model], Any], backend: str) -> None:
    """Graphs of fixed inputs may be bodies as they are."""
    bodies = {}
    for name, function in (("then", "relu"), ("otherwise", "neg")):
        body = Model(name)
        (changed,) = body.add(function, [body.input("x", float32(2, 3))])
        _, found = body.add(positives, [changed], names=["places", "found"])
        body.output(found)
        bodies[name] = wrap(body)
    model = Model()
    condition, x = model.input("condition", TensorType(DType.BOOL, ())), model.input("x", float32(2, 3))
    model.output(*model.add("tanh", model.add("if_else", [condition, x], bodies)))
    with model.compile(backend) as compiled:
        for sign in (True, False, True):
            wanted = np.tanh(X[X > 0] if sign else -X[X < 0])
            np.testing.assert_allclose(compiled(np.array(sign), X), wanted, rtol=0, atol=1e-6)
        assert compiled.stats.programs == 2, "three numbers either way"


def test_a_later_section_on_the_host_serves_for_all_values(backend: str) -> None:
    """A branch subtracts 1 and keeps the elements above 0, or keeps all: only its run tells how many."""
    less, same = Model("less"), Model("same")
    x = less.input("x", float32(2), open=None)
    _, kept = less.add(positives, less.add("sub", [x, less.constant("one", np.float32(1))]), names=["p", "k"])
    less.output(kept)
    same.output(*same.add("abs", [same.input("x", float32(2), open=None)]))
    model = Model()
    condition, x = model.input("condition", TensorType(DType.BOOL, ())), model.input("x", float32(2, 3))
    _, found = model.add(positives, [x], names=["places", "found"])
    bodies = {"then": OpenBody(less), "otherwise": OpenBody(same)}
    (chosen,) = model.add("if_else", [condition, found], bodies, names=["chosen"])
    model.output(*model.add("neg", [chosen]))
    with model.compile(backend) as compiled:
        for more in (0, 0.5, 3, 0):  # as many numbers above 0, but others, and other ones of these above 1
            x = np.where(X > 0, X + np.float32(more), X)
            wanted = [v - 1 for v in x[x > 0] if v > 1]
            np.testing.assert_array_equal(compiled(np.array(True), x), np.negative(wanted))
            np.testing.assert_array_equal(compiled(np.array(False), x), -x[x > 0])
        assert compiled.stats.programs == 4, "before, the choice, and two after it"


def test_a_large_value_may_decide_on_a_shape(backend: str) -> None:
    model = Model()
    x = model.input("x", TensorType(DType.BOOL, (300, 300)))
    (numbers,) = model.add("cast", [x], {"dtype": "float32"})
    _, found = model.add(positives, [numbers], names=["places", "found"])
    model.output(found)
    with model.compile(backend) as compiled:
        for seed in (0, 1, 0):
            value = np.random.default_rng(seed).random((300, 300)) > 0.5
            assert compiled(value).shape == (np.count_nonzero(value),)


def _unknown(call: Call) -> TensorType:
    raise ResultsNeededError([call.x.with_shape((1,))])


@op(_unknown, host_reason="a test")
def evens(x: Array) -> Array:
    """Return the even numbers of x."""
    return x[x % 2 == 0]


def test_an_op_with_unknown_results_reads_what_a_device_computed(backend: str) -> None:
    model = Model()
    (less,) = model.add("neg", [model.input("x", float32(6))])
    model.output(*model.add("neg", model.add(evens, [less])))
    with model.compile(backend) as compiled:
        for start in (0, 1, 4):
            x = np.arange(start, start + 6, dtype=np.float32)
            np.testing.assert_array_equal(compiled(x), x[x % 2 == 0])
        assert compiled.stats.programs == 2
