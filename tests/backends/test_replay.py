"""Programs of the CPU backend that replay the calls of their loops give the results of those that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from gpunn import Compilation, Model
from gpunn.backends import blas, cpu, replay, team
from gpunn.errors import OutOfMemoryError
from gpunn.graph.prepared import Step, Values
from gpunn.ops.compiled import capture, maker, sharing
from gpunn.types import Array, DType, float32
from tests.backends.replayed_nets import NETS, Net, branches, computed, convolutions, gates, inputs_of, moving
from tests.ops.harness import random

pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")

REPLAYED = max(replay.WATCHED) + 2  # the first run in which all that can be replayed is


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many threads share loops, of which each has as many parts as there can be."""
    monkeypatch.setattr(sharing, "LEAST", 1e-9)
    monkeypatch.setattr(team, "usable_processors", lambda: 4)
    return int(request.param)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """How many steps each call of run_steps() got, and how many of these are segments."""
    usual, found = cpu.run_steps, list[tuple[int, int]]()

    def counted(steps: Sequence[Step], values: Values) -> None:
        segments = [step for step in steps if step.run.__qualname__.startswith("Segment.")]
        found.append((len(steps), len(segments)))
        usual(steps, values)

    monkeypatch.setattr(cpu, "run_steps", counted)
    yield found


def convolutions_are_loops() -> bool:
    """Tell whether this CPU has products as loops; else numpy computes them, between the loops."""
    return maker().of_tiles is not None


@pytest.fixture
def products() -> None:
    """A CPU on which convolutions are loops."""
    if not convolutions_are_loops():
        pytest.skip("numpy computes the convolutions on this CPU")


def compiled(net: Net, threads: int = 1) -> Compilation:
    """Compile a model for runs that shall stay fast."""
    return net.model.compile("cpu", "sustained-speed", threads=threads)


def answers(run: Compilation, inputs: list[Array]) -> list[bytes]:
    found = run(*inputs)
    return [y.tobytes() for y in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT8, DType.UINT8])
@pytest.mark.parametrize("build", NETS)
def test_results_are_those_of_each_run(
    build: Callable[[Net], None],
    dtype: DType,
    threads: int,
    counts: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = Net(dtype)
    build(net)
    samples = [inputs_of(net, seed) for seed in range(REPLAYED + 3)]
    with monkeypatch.context() as never:
        never.setattr(replay, "WATCHED", ())
        with compiled(net, threads) as plain:
            expected = [answers(plain, inputs) for inputs in samples]
    steps, _ = counts[-1]
    with compiled(net, threads) as run:
        assert [answers(run, inputs) for inputs in samples] == expected
    left, segments = counts[-1]
    assert left <= steps
    assert segments or build is computed or not convolutions_are_loops()


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("build", [convolutions, gates])
def test_a_whole_network_is_one_step(build: Callable[[Net], None], counts: list[tuple[int, int]]) -> None:
    net = Net()
    build(net)
    with compiled(net) as run:
        for seed in range(REPLAYED):
            answers(run, inputs_of(net, seed))
    assert counts[-1] == (1, 1)


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize(
    ("module", "name", "value", "segments"),
    [
        (replay, "LONGEST", 0.0, 3),  # so that an interrupt comes in between
        (capture, "_ROOM", 8, 0),  # what it has no room for runs as before
    ],
)
def test_segments_end_where_they_must(
    module: Any,
    name: str,
    value: float,
    segments: int,
    counts: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, name, value)
    net = Net()
    convolutions(net)
    with compiled(net) as run:
        found = {b"".join(answers(run, inputs_of(net, 0))) for _ in range(REPLAYED)}
    assert len(found) == 1
    assert counts[-1] == (3, segments)


@pytest.mark.parametrize("failing", [1, 2, 3, 20, 21])
def test_a_run_that_ends_early_leaves_later_ones_right(failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    net, usual, runs = Net(DType.INT8), cpu.run_steps, 0
    gates(net)

    def ending(steps: Sequence[Step], values: Values) -> None:
        usual(steps, values)
        if runs == failing and values[net_middle] is not None:
            raise KeyboardInterrupt

    net_middle = 3
    with compiled(net) as run:
        expected = answers(run, inputs_of(net, 0))
        monkeypatch.setattr(cpu, "run_steps", ending)
        for runs in range(1, REPLAYED + 3):
            if runs == failing:
                with pytest.raises(KeyboardInterrupt):
                    run(*inputs_of(net, 1))
            else:
                assert answers(run, inputs_of(net, 0)) == expected


def test_rounds_that_depend_on_values_are_computed_in_each_run() -> None:
    """A loop doubles x until its largest element is over 100; its body does nothing but call a loop."""
    condition, body, model = Model("condition"), Model("body"), Model()
    (largest,) = condition.add("reduce_max", [condition.input("x", float32(4))], {"axes": (0,)})
    condition.output(*condition.add("less", [largest, condition.constant("c", np.float32(100))]))
    x = body.input("x", float32(4))
    body.output(*body.add("add", [x, x], {"activation": "relu"}))
    inside = model.add("relu", model.add("silu", [model.input("x", float32(4))]))
    model.output(*model.add("while_loop", inside, {"condition": condition, "body": body}))
    with model.compile("cpu", "sustained-speed") as run:
        for k in range(REPLAYED + 5):
            x = np.full(4, 10 + 7 * k, np.float32)
            expected = x * 2.0 ** max(0, np.ceil(np.log2(100 / x[0])))
            np.testing.assert_allclose(run(x), expected, rtol=1e-4)


def test_sequences_that_numpy_computes_are_dense(counts: list[tuple[int, int]]) -> None:
    """More sequences than a loop of steps takes, batch first: rows of a step do not lie side by side."""
    model = Model("sequences")
    x, h = model.input("x", float32(8, 3, 16)), model.input("h", float32(8, 16))
    _, y = model.add("recurrence", [x, model.constant("r", random(0, 16, 16)), h], {"activation": "tanh"})
    last = {"begin": (0, 2, 0), "end": (8, 3, 16), "strides": (1, 1, 1)}
    (part,) = model.add("strided_slice", [y], last)
    model.output(y, *model.add("softmax", [part], {"axis": -1}))
    with model.compile("cpu", "sustained-speed") as run, model.compile("cpu", "low-power") as plain:
        for seed in range(REPLAYED + 2):
            inputs = random(seed, 8, 3, 16), random(seed + 1, 8, 16)
            for got, expected in zip(run(*inputs), plain(*inputs), strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert counts[-2][1]


def test_outputs_stay_when_later_runs_write_to_the_same_memory(threads: int) -> None:
    net = Net()
    branches(net)
    with compiled(net, threads) as run:
        for seed in range(REPLAYED):
            run(*inputs_of(net, seed))
        first = run(*inputs_of(net, 0))
        copies = [y.copy() for y in first]
        run(*inputs_of(net, 1))
        for y, copy in zip(first, copies, strict=True):
            np.testing.assert_array_equal(y, copy)


def test_threads_of_the_caller_have_their_own_results(threads: int) -> None:
    net = Net()
    gates(net)
    samples = [inputs_of(net, seed) for seed in range(4)]
    with compiled(net, threads) as run:
        expected = [answers(run, inputs) for inputs in samples]

        def work(k: int) -> bool:
            return all(answers(run, samples[k]) == expected[k] for _ in range(60))

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(4)))


def test_variables_go_on_from_run_to_run(threads: int) -> None:
    model = Model("sum")
    x, total = model.input("x", float32(4, 40)), model.variable("total", float32(4, 40))
    (y,) = model.add("add", [total, x], {"activation": "relu"})
    model.update(total, y)
    model.output(*model.add("softmax", [y], {"axis": -1}), y)
    with model.compile("cpu", "sustained-speed", threads=threads) as run:
        for k in range(1, 2 * REPLAYED):
            _, y = run(np.ones((4, 40), np.float32))
            np.testing.assert_array_equal(y, np.full((4, 40), k, np.float32))


def test_loops_without_memory_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    convolutions(net)
    with compiled(net) as run:
        for seed in range(3):
            run(*inputs_of(net, seed))
        failing = Net()
        convolutions(failing)
        usual = replay.Segment.__init__
        monkeypatch.setattr(replay.Segment, "__init__", lambda self, _, team: usual(self, lambda *_: 1, team))
        with compiled(failing) as other:
            for seed in range(3):
                other(*inputs_of(failing, seed))
            with pytest.raises(OutOfMemoryError, match="loops got no memory"):
                other(*inputs_of(failing, 3))
        run(*inputs_of(net, 3))


@pytest.mark.usefixtures("products")
def test_settings_of_numpy_stay_where_loops_alone_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that are replayed as a whole neither set numbers of threads nor leave any behind."""
    asked: list[int] = []
    monkeypatch.setattr(blas.HostProducts, "of_run", lambda self: asked.append(1) or nullcontext())
    monkeypatch.setattr(blas.HostProducts, "use", lambda self, threads: asked.append(threads))
    for build, replayed in ((convolutions, True), (moving, False)):
        net = Net()
        build(net)
        with compiled(net) as run:
            for seed in range(REPLAYED):
                run(*inputs_of(net, seed))
            assert asked
            asked.clear()
            run(*inputs_of(net, 0))
            assert bool(asked) != replayed
