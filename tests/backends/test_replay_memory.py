"""Replayed programs: nobody reads memory that later operations, or later runs, write to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gpunn import Model
from gpunn.backends import replay
from gpunn.backends.blas import library
from gpunn.custom import like, op
from gpunn.graph.operation import Operand
from gpunn.ops.memory import LEAST_BYTES, Memory
from gpunn.types import Array, DType, TensorType, float32
from tests.backends.replayed_nets import DEPTH, IMAGE, Net, convolutions, inputs_of
from tests.ops.harness import random

pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")

RUNS = 6  # of which the last three are replayed
WIDE = (64, 257)  # of LEAST_BYTES and more
COUNT = TensorType(DType.INT32, ())


def check_runs(model: Model, inputs: list[list[Array]]) -> None:
    """Compare runs with those of the same loops without replays, bit by bit."""
    with pytest.MonkeyPatch.context() as never:
        never.setattr(replay, "WATCHED", ())
        with model.compile("cpu", "sustained-speed", threads=1) as plain:
            expected = [plain(*given) for given in inputs]
    with model.compile("cpu", "sustained-speed", threads=1) as compiled:
        for given, wanted in zip(inputs, expected, strict=True):
            np.testing.assert_equal(compiled(*given), wanted)


def test_a_result_that_is_a_view_in_later_runs_keeps_its_memory() -> None:
    net = Net()
    axes = net.model.input("axes", TensorType(DType.INT32, (1,)))
    wide = net("conv2d", net.x, net.filter(64, 1, 1, DEPTH))
    turned, y = net("reverse", wide, axes), net.x  # a copy along axis 1, a view along axis 0
    for _ in range(3):
        y = net("conv2d", y, net.filter(64, 1, 1, y.type.shape[3]))
    net.model.output(net("conv2d", turned, net.filter(3, 1, 1, 64)), y)
    check_runs(net.model, [[random(k, *IMAGE), np.array([int(k < 3)], np.int32)] for k in range(RUNS)])


def test_a_small_result_that_is_a_view_in_later_runs_keeps_its_values() -> None:
    net = Net()
    begin = net.model.input("begin", TensorType(DType.INT32, (4,)))
    wide = net("conv2d", net.x, net.filter(64, 1, 1, DEPTH))
    part, y = net("dynamic_slice", wide, begin, sizes=(1, 1, 1, 64)), net.x
    for _ in range(3):
        y = net("conv2d", y, net.filter(64, 1, 1, y.type.shape[3]))
    net.model.output(net("add", part, part), y)
    check_runs(net.model, [[random(k, *IMAGE), np.array([0, k, 0, 0], np.int32)] for k in range(RUNS)])


def test_a_custom_operator_may_keep_its_operands() -> None:
    kept: list[Array] = []

    @op(like)
    def keeping(x: Array) -> Array:
        """Return x, and keep it."""
        kept.append(x)
        return x

    model = Model("keeping")
    (y,) = model.add("silu", [model.input("x", float32(*WIDE))])
    (z,) = model.add("leaky_relu", model.add(keeping, [y]), {"alpha": 0.5})
    model.output(*model.add("add", [y, z]))
    inputs = [random(k, *WIDE) for k in range(RUNS)]
    check_runs(model, [[x] for x in inputs])
    with model.compile("cpu", "sustained-speed", threads=1) as compiled:
        kept.clear()
        for x in inputs:
            compiled(x)
    for x, seen in zip(inputs, kept, strict=True):
        np.testing.assert_allclose(seen, x / (1 + np.exp(-x.astype(np.float64))), rtol=1e-6)


def test_custom_operators_take_no_memory_from_one_another() -> None:
    @op(like)
    def same(x: Array) -> Array:
        """Return x."""
        return x

    model = Model("many")
    y = model.input("x", float32(*WIDE))
    for _ in range(20):
        (y,) = model.add("silu", [y])
        (y,) = model.add(same, [y])
    model.output(y)
    sizes: list[int] = []
    usual = replay.Replays._capture

    def captured(self: replay.Replays, *operands: Any) -> None:
        usual(self, *operands)
        assert self._fixed is not None
        sizes.append(self._fixed.nbytes)

    with pytest.MonkeyPatch.context() as counting:
        counting.setattr(replay.Replays, "_capture", captured)
        check_runs(model, [[random(k, *WIDE)] for k in range(RUNS)])
    assert 0 < sizes[0] <= 2 * 4 * WIDE[0] * WIDE[1]


@pytest.mark.parametrize("layout", ["transposed", "strided", "broadcast"])
def test_constants_of_any_layout_are_read_as_dense_ones(layout: str) -> None:
    numbers = random(0, WIDE[0], 2 * WIDE[1])
    layouts = {
        "transposed": np.array(numbers[:, ::2].T).T,
        "strided": numbers[:, ::2],
        "broadcast": np.broadcast_to(numbers[:1, ::2], WIDE),
    }
    model = Model("layouts")
    x = model.input("x", float32(1, WIDE[1]))
    (y,) = model.add("add", [x, model.constant("c", layouts[layout])])
    (z,) = model.add("concat", [y, model.constant("d", layouts[layout])], {"axis": 1})
    model.output(*model.add("softmax", [z], {"axis": -1}), *model.add("silu", [y]))
    check_runs(model, [[random(k, 1, WIDE[1])] for k in range(RUNS)])


def looped(rounds: int, pads: bool) -> Model:
    """Return a model that repeats a body of loops; pads: numpy computes two operations of it."""
    condition, body, model = Model("condition"), Model("body"), Model("looped")
    k = condition.input("k", COUNT)
    condition.input("x", float32(40, 40))
    condition.output(*condition.add("less", [k, condition.constant("n", np.int32(rounds))]))
    k, x = body.input("k", COUNT), body.input("x", float32(40, 40))
    other: Operand = x
    if pads:
        (inner,) = body.add("strided_slice", [x], {"begin": (0, 4), "end": (40, 36), "strides": (1, 1)})
        (other,) = body.add("pad", [inner], {"paddings": ((0, 0), (4, 4))})
    y: Operand = x
    for _ in range(3):
        (y,) = body.add("add", [*body.add("silu", [y]), x], {"activation": "relu1"})
    (y,) = body.add("fully_connected", [y, body.constant("w", random(1, 40, 40) / 40)])
    (y,) = body.add("add", [y, other], {"activation": "relu1"})
    body.output(*body.add("add", [k, body.constant("one", np.int32(1))]), y)
    first = model.constant("first", np.int32(0))
    attrs = {"condition": condition, "body": body}
    model.output(model.add("while_loop", [first, model.input("x", float32(40, 40))], attrs)[1])
    return model


@pytest.mark.parametrize("rounds", [3, 6, 30])
def test_rounds_of_one_run_may_be_watched_captured_and_replayed(rounds: int) -> None:
    check_runs(looped(rounds, pads=True), [[random(k, 40, 40) / 5] for k in range(RUNS)])


@pytest.fixture
def two_threads() -> Iterator[None]:
    """numpy's library with two threads."""
    before = library().get()
    library().set(2)
    yield
    library().set(before)


@pytest.mark.usefixtures("two_threads")
def test_numpy_gets_its_threads_back_after_rounds_of_which_some_are_replayed() -> None:
    model = looped(8, pads=False)
    with model.compile("cpu", "sustained-speed", threads=1) as compiled:
        for k in range(4):  # rounds 17 to 24 are one call
            compiled(random(k, 40, 40))
            assert library().get() == 2


@pytest.mark.parametrize("after", ["_with_segments", "_fixed", "_alone", "_captured"])
def test_after_an_interrupt_a_capture_begins_anew(after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    convolutions(net)
    usual, interrupts = replay.Replays.__setattr__, list[str]()

    def interrupted(self: replay.Replays, name: str, value: Any) -> None:
        usual(self, name, value)
        if self._runs == 2 and name == after and not interrupts and value is not None:
            interrupts.append(name)
            raise KeyboardInterrupt

    with net.model.compile("cpu", "sustained-speed", threads=1) as compiled:
        with pytest.MonkeyPatch.context() as never:
            never.setattr(replay, "WATCHED", ())
            with net.model.compile("cpu", "sustained-speed", threads=1) as plain:
                expected = [plain(*inputs_of(net, k)) for k in range(RUNS)]
        monkeypatch.setattr(replay.Replays, "__setattr__", interrupted)
        for k in range(RUNS):
            if k == 2:
                with pytest.raises(KeyboardInterrupt):
                    compiled(*inputs_of(net, k))
            np.testing.assert_array_equal(compiled(*inputs_of(net, k)), expected[k])
    assert interrupts


def test_what_is_released_is_free() -> None:
    memory = Memory()
    array = memory.empty((LEAST_BYTES,), np.uint8)
    del array
    memory.release()
    assert memory.nbytes == 0
