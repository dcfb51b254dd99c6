"""Loops that end by a value of a run: a GPU runs several rounds before the host asks."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
from gpunn.compilation.assembly import HOSTED
from gpunn.model import Model
from gpunn.types import DType, TensorType, float32
from tests.backends.test_loop_kernels import NUMBER, constant, ran
from tests.rounds import by_rounds


def asked(limit: float, rounds: int, gathers: bool = False) -> Model:
    """(x) -> the rounds of a loop that doubles x until its sum is over a limit, or `rounds` are over, and x.

    `gathers`: its condition has values to check.
    """
    condition, body, model = Model(), Model(), Model()
    for graph in (condition, body):
        graph.input("i", NUMBER)
        graph.input("x", float32(70))
    i, x = condition.inputs
    (total,) = condition.add("reduce_sum", [x], {"axes": (0,)})
    (low,) = condition.add("less", [total, constant(condition, limit, np.float32)])
    (few,) = condition.add("less", [i, constant(condition, rounds)])
    if gathers:
        (first,) = condition.add("cast", [total], {"dtype": "int32"})
        (total,) = condition.add("gather", [x, first])
        (low,) = condition.add("less", [total, constant(condition, limit, np.float32)])
    condition.output(*condition.add("logical_and", [low, few]))
    i, x = body.inputs
    body.output(*body.add("add", [i, constant(body, 1)]), *body.add("add", [x, x]))
    attrs = {"condition": condition, "body": body}
    model.output(*model.add("while_loop", [constant(model, 0), model.input("x", float32(70))], attrs))
    return model


@pytest.mark.parametrize("rounds", [0, 1, 63, 64, 65, 128, 200])
def test_a_loop_that_data_ends_is_asked_once_for_many_rounds(
    rounds: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.zeros(70, np.float32)
    model = asked(1, rounds)
    (i, y), compiled = ran(model, [x])
    assert (i, y.tolist()) == (rounds, x.tolist())
    assert compiled.stats.submits == max(1, -(-rounds // 64))
    by_rounds(monkeypatch)
    (j, z), compiled = ran(model, [x])
    assert (i, y.tolist()) == (j, z.tolist())
    assert compiled.stats.submits == 2 * rounds + 1


@pytest.mark.parametrize("limit", [0.5, 1, 2, 100, 1e30])
def test_what_is_too_much_is_not_computed(limit: float, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = asked(limit, 1000), np.full(70, 1 / 70, np.float32)
    found, _ = ran(model, [x])
    by_rounds(monkeypatch)
    for y, z in zip(found, ran(model, [x])[0], strict=True):
        np.testing.assert_array_equal(y, z)


@pytest.mark.parametrize("rounds", [0, 1, 64, 65, 200])
def test_rounds_as_dispatches_are_asked_once_for_many(
    rounds: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpunn.backends.webgpu.loop_writer.MAX_WORK", 0)
    x = np.zeros(70, np.float32)
    (i, y), compiled = ran(asked(1, rounds), [x])
    assert (i, y.tolist()) == (rounds, x.tolist())
    assert compiled.stats.submits == max(1, -(-rounds // 64))


@pytest.mark.parametrize("limit", [0.5, 100, 1e30])
def test_rounds_that_are_too_much_leave_the_state(
    limit: float, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = asked(limit, 1000), np.full(70, 1 / 70, np.float32)
    with monkeypatch.context() as patch:
        by_rounds(patch)
        expected, _ = ran(model, [x])
    monkeypatch.setattr("gpunn.backends.webgpu.loop_writer.MAX_WORK", 0)
    found, compiled = ran(model, [x])
    assert compiled.stats.submits <= 2
    for y, z in zip(found, expected, strict=True):
        np.testing.assert_array_equal(y, z)


def test_heavier_rounds_are_asked_more_often(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpunn.backends.webgpu.loop_writer.MAX_WORK", 0)
    monkeypatch.setattr("gpunn.compilation.assembly.MAX_WORK_AHEAD", 1)
    (i, _), compiled = ran(asked(1, 9), [np.zeros(70, np.float32)])
    assert (i, compiled.stats.submits) == (9, 3), "at least 4 rounds in each submission"


def test_a_loop_without_end_of_dispatches_can_be_stopped(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpunn.backends.webgpu.loop_writer.MAX_WORK", 0)
    model = asked(1, 2**31 - 1)
    with model.compile(gpu) as compiled:
        x = np.zeros(70, np.float32)
        with pytest.raises(gpunn.RunTimeoutError):
            compiled.run({i.name: x for i in model.inputs}, timeout=0.5)


@pytest.mark.parametrize("little", [False, True])
def test_a_condition_that_checks_values_is_asked_in_each_round(
    little: bool, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is little in a round is computed on the host, without a submission."""
    if not little:
        monkeypatch.setattr("gpunn.compilation.assembly.MAX_HOST_FLOPS", 0)
    x = np.zeros(70, np.float32)
    (i, _), compiled = ran(asked(1, 3, gathers=True), [x])
    assert (i, compiled.stats.submits > 3) == (3, not little)
    inner = [p for p in compiled.placement if p.depth and p.backend == "cpu"]
    assert {p.reason for p in inner} == ({HOSTED} if little else set())
    with (
        asked(1, 3, gathers=True).compile(gpu) as compiled,
        pytest.raises(gpunn.ModelError, match="gather: indices must be in"),
    ):
        compiled(x + 9)


@pytest.mark.parametrize("rounds", [0, 1, 70])
def test_little_rounds_on_the_host_get_what_the_device_computes(rounds: int, gpu: str) -> None:
    """A table is read at a place that the round before has computed: the host checks it."""
    body, model = Model(), Model()
    types = {"i": NUMBER, "place": TensorType(DType.INT32, (1,)), "row": float32(1, 4)}
    i, place, _ = (body.input(n, t) for n, t in types.items())
    table = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    (row,) = body.add("gather", [body.constant("table", table), place])
    (most,) = body.add("arg_max", [row], {"axis": 1})
    body.output(*body.add("add", [i, constant(body, 1)]), most, row)
    condition = Model()
    inputs = [condition.input(n, t) for n, t in types.items()]
    condition.output(*condition.add("less", [inputs[0], constant(condition, rounds)]))
    x = model.input("x", float32(1, 4))
    (first,) = model.add("arg_max", [x], {"axis": 1})
    (doubled,) = model.add("add", [x, x])
    start = [constant(model, 0), first, doubled]
    after = model.add("while_loop", start, {"condition": condition, "body": body})
    model.output(after[1], *model.add("neg", [after[2]]))
    given = np.array([[0.5, 2, 1, 0]], np.float32)
    place_, expected = 1, 2 * given
    for _ in range(rounds):
        expected = table[place_ : place_ + 1]
        place_ = int(np.argmax(expected))
    (found, y), compiled = ran(model, [given])
    assert found.tolist() == [place_]
    np.testing.assert_array_equal(y, -expected)
    assert compiled.stats.submits <= 2


@pytest.mark.parametrize("rounds", [0, 1, 64, 65, 200])
def test_the_cpu_backend_asks_as_often_as_the_condition_says(rounds: int) -> None:
    x = np.zeros(70, np.float32)
    with asked(1, rounds).compile("cpu") as compiled:
        i, y = compiled(x)
        names = [(p.operation.op, p.depth) for p in compiled.placement]
    assert (i, y.tolist()) == (rounds, x.tolist())
    assert {("reduce_sum", 2), ("add", 2)} <= {*names}, "condition and body are listed"


@pytest.mark.parametrize("limit", [0.5, 3, 1e30])
def test_rounds_on_the_cpu_until_data_ends_them(limit: float) -> None:
    x = np.full(64, 1 / 64, np.float32)
    model = asked(limit, 150)
    with model.compile("cpu") as compiled:
        i, y = compiled(np.concatenate([x, np.zeros(6, np.float32)]))
    rounds = min(150, max(0, int(np.ceil(np.log2(limit)))))
    assert i == rounds
    np.testing.assert_array_equal(y[:64], x * np.float32(2) ** rounds)
