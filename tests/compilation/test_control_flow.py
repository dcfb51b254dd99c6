"""Compilations with bodies: endless loops, counters, placement, state, guards, errors."""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.backends import interrupt as interrupt_module
from gpunn.backends.webgpu.device import open_device
from gpunn.errors import DeviceError, ModelError
from gpunn.graph.parts import walk
from gpunn.model import Model
from gpunn.passes.fold import MAX_FOLDED_BYTES, fold_constants
from gpunn.types import DType, TensorType, float32
from tests.rounds import by_rounds

BOOL = TensorType(DType.BOOL, ())
ONES = np.ones(4, np.float32)


def doubling() -> Model:
    """A loop that doubles x until its largest element is over 100; it is endless if that is 0."""
    condition, body, model = Model("condition"), Model("body"), Model()
    (largest,) = condition.add("reduce_max", [condition.input("x", float32(4))], {"axes": (0,)})
    condition.output(*condition.add("less", [largest, condition.constant("c", np.float32(100))]))
    x = body.input("x", float32(4))
    body.output(*body.add("add", [x, x]))
    attrs = {"condition": condition, "body": body}
    model.output(*model.add("while_loop", [model.input("x", float32(4))], attrs))
    return model


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A function that raises KeyboardInterrupt in the main thread after some rounds of a loop.

    The handler is set because shells let background processes ignore the signal.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    left = [0]

    def check() -> None:
        left[0] -= 1
        if left[0] == 0:
            _thread.interrupt_main()
        interrupt_module.check()

    monkeypatch.setattr("gpunn.compilation.assembly.check", check)
    yield lambda: left.__setitem__(0, 20)
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("way", ["call", "event", "stream"])
def test_an_endless_loop_ends_by_keyboard_interrupt_and_the_compilation_stays_usable(
    way: str, backend: str, interrupt: Callable[[], None]
) -> None:
    ways: dict[str, Any] = {
        "call": lambda: compiled(ONES * 0),
        "event": lambda: compiled.submit(ONES * 0).result(),
        "stream": lambda: list(compiled.stream([ONES * 0])),
    }
    with doubling().compile(backend=backend) as compiled:
        for _ in range(3):
            interrupt()
            with pytest.raises(KeyboardInterrupt):
                ways[way]()
            assert compiled(ONES).tolist() == [128] * 4


def test_closing_ends_a_loop_that_another_thread_waits_for(backend: str) -> None:
    compiled = doubling().compile(backend=backend)
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            compiled(ONES * 0)
        except DeviceError as error:
            failed.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    time.sleep(0.1)
    compiled.close()
    thread.join(10)
    assert [str(e) for e in failed] == ["this compilation has been closed"]


@pytest.mark.parametrize("ahead", [True, False])
def test_counters_include_the_bodies(ahead: bool, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU runs several rounds ahead, or the host each of them."""
    if not ahead:
        by_rounds(monkeypatch)
    with doubling().compile(backend=gpu) as compiled:
        assert compiled(ONES).tolist() == [128] * 4
        stats = compiled.stats
        rounds = 1 if ahead else 8 + 7  # decisions, doublings
        assert (stats.runs, stats.dispatches) == (1, rounds)
        assert stats.resident_bytes > 0
        assert [(p.depth, p.operation.op, p.backend, p.reason) for p in compiled.placement] == [
            (0, "while_loop", "cpu", "the host decides how often the body runs"),
            *([(1, "some_rounds", "webgpu", "")] if ahead else []),
            (1 + ahead, "reduce_max", "webgpu", ""),
            (1 + ahead, "less", "webgpu", "" if ahead else "computed where reduce_max stores its result"),
            (1 + ahead, "add", "webgpu", ""),
        ]
        rows = ["some_rounds"] if ahead else ["reduce_max", "add"]
        assert [row.operation.op for row in compiled.plan_rows()] == rows


def test_closing_frees_what_the_bodies_hold(gpu: str) -> None:
    device = open_device(None, False)
    before = device.constants.nbytes
    compiled = doubling().compile(backend=gpu)
    assert device.constants.nbytes > before
    compiled.close()
    assert device.constants.nbytes == before


def _branches(then: Model, otherwise: Model, *inputs: TensorType) -> Model:
    model = Model()
    operands = [model.input("flag", BOOL), *(model.input(f"x{i}", t) for i, t in enumerate(inputs))]
    model.output(*model.add("if_else", operands, {"then": then, "otherwise": otherwise}))
    return model


def gathering(default: int) -> Model:
    """A model that gathers rows of a table."""
    model = Model()
    table = model.constant("table", np.arange(6, dtype=np.float32).reshape(3, 2) + default)
    model.output(*model.add("gather", [table, model.input("i", TensorType(DType.INT32, (2,)))]))
    return model


def test_a_body_refuses_the_values_that_its_operations_refuse(backend: str) -> None:
    model = _branches(gathering(0), gathering(10), TensorType(DType.INT32, (2,)))
    with model.compile(backend=backend) as compiled:
        assert compiled(np.array(False), np.array([2, 0], np.int32)).tolist() == [[14, 15], [10, 11]]
        with pytest.raises(ModelError):
            compiled(np.array(True), np.array([2, 3], np.int32))
        assert compiled(np.array(True), np.array([2, 0], np.int32)).tolist() == [[4, 5], [0, 1]]


def adding_up(sign: int) -> Model:
    """A model that adds x to a variable, or subtracts x from it."""
    model = Model()
    total = model.variable("total", float32())
    (now,) = model.add("add" if sign > 0 else "sub", [total, model.input("x", float32())])
    model.update(total, now)
    model.output(now)
    return model


def test_variables_of_bodies_keep_their_values_until_reset(backend: str) -> None:
    with _branches(adding_up(1), adding_up(-1), float32()).compile(backend=backend) as compiled:

        def run(flag: bool, x: float) -> float:
            return float(compiled(np.array(flag), np.float32(x)))

        assert [run(True, 3), run(False, 2), run(True, 4), run(False, 1)] == [3, -2, 7, -3]
        compiled.reset_state()
        assert [run(True, 1), run(False, 1)] == [1, -1]


def test_relaxed_compilations_hand_bodies_what_they_take(backend: str) -> None:
    with doubling().compile(backend=backend, relaxed=True) as compiled:
        assert compiled(ONES).tolist() == [128] * 4


def test_bodies_without_operations(backend: str) -> None:
    given, fixed = Model(), Model()
    given.output(given.input("x", float32(4)))
    fixed.input("x", float32(4))
    fixed.output(fixed.constant("c", ONES * 9))
    with _branches(given, fixed, float32(4)).compile(backend=backend) as compiled:
        assert compiled(np.array(True), ONES).tolist() == [1] * 4
        assert compiled(np.array(False), ONES).tolist() == [9] * 4


def test_other_shapes_rebuild_the_bodies(backend: str) -> None:
    model = doubling().reshaped({"x": (2,)})
    with model.compile(backend=backend) as compiled:
        assert compiled(ONES[:2] * 3).tolist() == [192] * 2
    model = Model()
    x = model.input("x", float32(4), open=[0])
    model.output(
        *model.add("if_else", [model.input("flag", BOOL), x], {"then": _negated(), "otherwise": _negated()})
    )
    with model.compile(backend=backend) as compiled:
        for count in (4, 1, 7):
            assert compiled(np.ones(count, np.float32), np.array(True)).tolist() == [-1] * count


def _negated() -> Model:
    model = Model()
    model.output(*model.add("neg", [model.input("x", float32(4))]))
    return model


def test_a_body_that_cannot_be_compiled_leaves_nothing_behind(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = open_device(None, False)
    before = device.constants.nbytes
    real = gpunn.compilation.assembly.make_plan

    def make_plan(model: Model, *others: Any) -> Any:
        if model.name == "body":
            raise DeviceError("no room for this one")
        return real(model, *others)

    monkeypatch.setattr("gpunn.compilation.assembly.make_plan", make_plan)
    with pytest.raises(DeviceError, match="no room"):
        doubling().compile(backend=gpu)
    assert device.constants.nbytes == before


def test_all_bodies_share_the_bounds_of_folding() -> None:
    size = MAX_FOLDED_BYTES // 4 // 4

    def greedy() -> Model:
        model = Model()
        constant = model.constant("c", np.ones(size, np.float32))
        (total,) = model.add("tanh", [constant])
        model.output(*model.add("add", [total, model.input("x", float32(size))]))
        return model

    model = Model()
    flag, x = model.input("flag", BOOL), model.input("x", float32(size))
    for _ in range(4):
        (x,) = model.add("if_else", [flag, x], {"then": greedy(), "otherwise": greedy()})
    model.output(x)
    folded = [[o.op for o in body.operations] for body in walk(fold_constants(model))][1:]
    assert folded == [["add"]] * 4 + [["tanh", "add"]] * 4


def test_a_loop_whose_body_has_variables_ends(backend: str) -> None:
    """The step doubles: 2 + 4 + 8 + 16 = 30 is the first sum above 20."""
    body, condition, model = Model(), Model(), Model()
    i, step = body.input("i", float32(1)), body.variable("step", float32(1), np.float32([2]))
    body.output(*body.add("add", [i, step]))
    body.update(step, *body.add("add", [step, step]))
    (total,) = condition.add("reduce_sum", [condition.input("i", float32(1))], {"axes": (0,)})
    condition.output(*condition.add("less", [total, condition.constant("most", np.float32(20))]))
    x = model.input("x", float32(1))
    model.output(*model.add("while_loop", [x], {"condition": condition, "body": body}))
    with model.compile(backend) as compiled:
        found = compiled.run({"x": np.zeros(1, np.float32)}, timeout=20)
    assert [v.tolist() for v in found.values()] == [[30]]
