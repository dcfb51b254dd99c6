"""Threads share loops: each part is computed once, whoever asks, sleeps or is not there any more."""

from __future__ import annotations

import math
import platform
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gpunn import Model
from gpunn.backends import team
from gpunn.backends.subnormal import flushing
from gpunn.backends.team import PATIENCE, Team, team_of
from gpunn.ops import compiled
from gpunn.ops.compiled import sharing
from gpunn.ops.compiled.sharing import TEAM
from gpunn.ops.compiled.team_code import ALONE, MOST_LOOKS, ROUND, ROUNDS_ALONE, SLEEPING
from gpunn.types import Array, DType, float32
from tests.ops.harness import random
from tests.ops.quantized import quantized, stored

pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")

THREADS = 4
PARTS = 23


@pytest.fixture(scope="module")
def loops() -> compiled.RealLoops:
    """The loops of reals as machine code."""
    made = compiled.load()
    assert made is not None and made.reals is not None
    return made.reals


@pytest.fixture
def four() -> Iterator[Team]:
    """A team of four threads, in use."""
    found = Team(THREADS)
    token = TEAM.set(found)
    yield found
    TEAM.reset(token)


def counting(loops: compiled.RealLoops) -> tuple[Array, Callable[[], None]]:
    """Return numbers, and what adds 1 to each in parts of different sizes."""
    numbers, one = np.zeros((PARTS * (PARTS + 1) // 2, 8), np.float32), np.ones(8, np.float32)
    ends = np.cumsum(np.arange(PARTS + 1))
    low, high = np.float32(-np.inf), np.float32(np.inf)
    return numbers, lambda: loops.finish(ends, numbers, one, low, high)


@pytest.mark.usefixtures("four")
def test_each_part_is_computed_once(loops: compiled.RealLoops) -> None:
    numbers, add = counting(loops)
    for _ in range(3000):
        add()
    np.testing.assert_array_equal(numbers, np.full_like(numbers, 3000))


def test_a_team_that_works_leaves_others_alone(loops: compiled.RealLoops) -> None:
    shared = Team(THREADS)

    def work(_: int) -> bool:
        token = TEAM.set(shared)
        numbers, add = counting(loops)
        for _ in range(1000):
            add()
        TEAM.reset(token)
        return bool(np.all(numbers == 1000))

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(work, range(6)))


def test_threads_sleep_and_wake(loops: compiled.RealLoops, four: Team) -> None:
    four._looks *= 1000  # for as long as a test can see

    def await_sleeping(count: int) -> None:
        deadline = time.monotonic() + 30
        while four.woken(1)[SLEEPING] != count:  # a single part wakes nobody
            assert time.monotonic() < deadline
            time.sleep(PATIENCE)

    numbers, add = counting(loops)
    for _ in range(3):
        await_sleeping(THREADS - 1)
        add()
        await_sleeping(0)
    assert np.all(numbers == 3)


def test_a_thread_works_alone_after_a_round_that_lasted_long(
    loops: compiled.RealLoops, four: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team, "LONGEST_ALONE", math.inf)
    numbers, add = counting(loops)
    words = four.woken(1)
    add()
    assert words[MOST_LOOKS] > 0 and not words[ALONE]
    words[MOST_LOOKS] = -1  # so that each round has lasted too long
    add()
    assert words[ALONE] == ROUNDS_ALONE
    rounds = int(words[ROUND])
    for _ in range(ROUNDS_ALONE):
        add()
    assert words[ROUND] == rounds and not words[ALONE]
    add()
    assert words[ROUND] == rounds + 1
    assert np.all(numbers == ROUNDS_ALONE + 3)


def test_a_thread_does_not_work_alone_for_long(
    loops: compiled.RealLoops, four: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, add = counting(loops)
    words = four.woken(1)
    for longest, rounds in ((math.inf, 1), (-1.0, 3)):  # seconds; how many of four rounds are shared
        monkeypatch.setattr(team, "LONGEST_ALONE", longest)
        words[MOST_LOOKS], before = -1, int(words[ROUND])
        add()
        words[MOST_LOOKS] = 1 << 62
        for _ in range(3):
            add()
        assert words[ROUND] == before + rounds
        words[ALONE] = 0


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="only Linux on x86-64 has it"
)
@pytest.mark.usefixtures("four")
def test_subnormal_numbers_count_alike_in_all_parts(loops: compiled.RealLoops) -> None:
    small = np.full((PARTS * 64, 64), 2.0**-130, np.float32)
    line = np.stack([np.full(64, 0.5, np.float32), np.zeros(64, np.float32)])
    ends, low, high = np.arange(PARTS + 1) * 64, np.float32(-np.inf), np.float32(np.inf)
    found = np.empty_like(small)
    for _ in range(100):
        loops.scaled(ends, small, line, (low, high), found)
        assert found.all()
        with flushing():
            loops.scaled(ends, small, line, (low, high), found)
        assert not found.any()


@pytest.mark.parametrize("processors", [1, 2, 3])
def test_there_are_no_more_threads_than_processors(processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "usable_processors", lambda: processors)
    found = team_of(3)
    assert (1 if found is None else found.threads) == processors
    assert found is team_of(3)
    assert team_of(1) is None


def layers() -> Model:
    """Return a network with the loops of reals."""
    model = Model("layers")
    y = model.input("x", float32(1, 17, 19, 5))
    for k, (op, filter, activation) in enumerate(
        (
            ("conv2d", (24, 3, 3, 5), "relu"),
            ("depthwise_conv2d", (1, 3, 3, 24), "hard_swish"),
            ("conv2d", (70, 1, 1, 24), "silu"),
            ("conv2d", (40, 3, 3, 7), "relu6"),
        )
    ):
        weights = model.constant(f"w{k}", random(k, *filter))
        (y,) = model.add(op, [y, weights], {"padding": "same", "activation": activation})
    (y,) = model.add("max_pool2d", [y], {"size": (3, 3), "stride": (2, 2)})
    (y,) = model.add("softmax", [y])
    model.output(y)
    return model


def integers() -> Model:
    """Return a network with the loops of stored integers."""
    model, type = Model("integers"), quantized(DType.INT8, (1, 17, 19, 5), 0.05, 3)
    y = model.input("x", type)
    for k, (op, filter) in enumerate(
        (("conv2d", (24, 3, 3, 5)), ("depthwise_conv2d", (1, 3, 3, 24)), ("conv2d", (70, 1, 1, 24)))
    ):
        kind = quantized(DType.INT8, filter, 0.02, 0)
        weights = model.constant(f"w{k}", stored(k, kind), kind)
        attrs = {"padding": "same", "activation": "relu"}
        (y,) = model.add(op, [y, weights], attrs, quantization=[type.quantization])
    (y,) = model.add("add", [y, y], quantization=[type.quantization])
    model.output(y)
    return model


@pytest.mark.parametrize("make", [layers, integers])
def test_results_have_the_same_bits_with_any_number_of_threads(
    make: Callable[[], Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "LEAST", 1e-9)
    monkeypatch.setattr(team, "usable_processors", lambda: THREADS)
    model = make()
    (given,) = model.inputs
    x = random(0, *given.type.shape) if given.type.quantization is None else stored(0, given.type)
    alone = model.compile("cpu", "sustained-speed", threads=1)
    for threads in (2, 3, THREADS):
        together = model.compile("cpu", "sustained-speed", threads=threads)
        for _ in range(3):
            np.testing.assert_array_equal(together(x), alone(x))
