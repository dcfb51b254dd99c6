"""Results that stay on the device for the next program: copies to the host, counters, memory."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gpunn
from gpunn.model import Model
from gpunn.types import Array, DType, TensorType, float32
from tests.ops.harness import random
from tests.rounds import by_rounds
from tests.tflite_builder import Graph, litert_run

SIZE = 1024
X = random(0, SIZE)


def loop() -> Model:
    """A loop (x, y) -> (x / 2 + 1, x) while the largest x is over 2: y is a round behind."""
    condition, body, model = Model("condition"), Model("body"), Model()
    x, _ = condition.input("x", float32(SIZE)), condition.input("y", float32(SIZE))
    (largest,) = condition.add("reduce_max", [x], {"axes": (0,)})
    condition.output(*condition.add("greater", [largest, condition.constant("c", np.float32(2.0001))]))
    x, _ = body.input("x", float32(SIZE)), body.input("y", float32(SIZE))
    (half,) = body.add("mul", [x, body.constant("half", np.float32(0.5))])
    (less,) = body.add("add", [half, body.constant("one", np.float32(1))])
    body.output(less, x)
    state = [model.input("x", float32(SIZE)), model.input("y", float32(SIZE))]
    model.output(*model.add("while_loop", state, {"condition": condition, "body": body}))
    return model


def rounds(x: Array, y: Array) -> tuple[Array, Array, int]:
    """Compute the loop in numpy; return its results and the number of rounds."""
    count = 0
    while x.max() > np.float32(2.0001):
        x, y, count = x * np.float32(0.5) + np.float32(1), x, count + 1
    return x, y, count


@pytest.mark.parametrize("ahead", [True, False])
def test_only_the_decision_of_a_loop_is_read_back(
    ahead: bool, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for up to 64 rounds, or in each round; then the results are the inputs if there is none."""
    if not ahead:
        by_rounds(monkeypatch)
    with loop().compile(gpu) as compiled:
        for scale in (100, 3, 1, 100):
            before = compiled.stats
            x, y, count = rounds(X * scale, X)
            results = compiled(X * scale, X)
            for found, expected in zip(results, (x, y), strict=True):
                np.testing.assert_array_equal(found, expected)
            after = compiled.stats
            once, asked = ahead or count > 0, 1 if ahead else count + 1
            assert after.bytes_read_back - before.bytes_read_back == asked + 2 * once * X.nbytes
            assert after.bytes_uploaded - before.bytes_uploaded == X.nbytes * (2 if once else 1)
        assert compiled.stats.buffers == after.buffers


def test_threads_may_run_the_same_loop(gpu: str) -> None:
    scales = [3 + 7 * k for k in range(12)]
    with loop().compile(gpu) as compiled, ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda scale: compiled(X * scale, X), scales))
    for scale, results in zip(scales, found, strict=True):
        x, y, _ = rounds(X * scale, X)
        np.testing.assert_array_equal(results[0], x)
        np.testing.assert_array_equal(results[1], y)


def tiled() -> bytes:
    """A model: exp(x) repeated as often as an input says, and exp(x)."""
    graph = Graph()
    x, times = graph.input(float32(SIZE), "x"), graph.input(TensorType(DType.INT32, (1,)), "times")
    (grown,) = graph.add("EXP", [x], [float32(SIZE)])
    (y,) = graph.add("TILE", [grown, times], [float32(1)])
    return graph.build([y, grown, *graph.add("TANH", [grown], [float32(SIZE)])])


def test_what_a_later_section_reads_stays_on_the_device(gpu: str) -> None:
    with gpunn.load(tiled()).compile(gpu) as compiled:
        for times in (2, 3, 2):
            inputs, before = [X, np.array([times], np.int32)], compiled.stats
            for found, expected in zip(compiled(*inputs), litert_run(tiled(), inputs), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-5)
            after = compiled.stats
            assert after.bytes_uploaded - before.bytes_uploaded == X.nbytes
            assert after.bytes_read_back - before.bytes_read_back == (times + 2) * X.nbytes


def test_memory_is_counted_and_given_back(gpu: str) -> None:
    compiled = gpunn.load(tiled()).compile(gpu)
    empty = compiled.stats.arena_bytes
    compiled(X, np.array([1], np.int32))
    full = compiled.stats.arena_bytes
    assert full >= empty + X.nbytes
    for _ in range(3):
        compiled(X, np.array([1], np.int32))
        gc.collect()
    assert compiled.stats.arena_bytes == full
    compiled.close()
    assert compiled.stats.arena_bytes == 0
