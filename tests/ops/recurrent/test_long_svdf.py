"""SVDF whose filters a device's loops do not take at once: several dispatches give the bits of one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from gpunn.model import Model, load
from gpunn.types import Array, DType, Quantization, TensorType
from tests.importers.tflite.test_state import as_list, file_of, frames, svdf
from tests.importers.tflite.test_state_integer import integer_svdf
from tests.ops.harness import EPS, RTOL, check, limit_device, model_of
from tests.ops.integer_checks import check_integer, integer_model
from tests.ops.quantized import stored
from tests.ops.recurrent.test_rnn import STATES, svdf_operands, svdf_types
from tests.tflite_builder import litert_runs

# Batch, features, units, rank, memory; the iterations that the device allows; how many dispatches add up
# entries and memories then. From 65 features or entries on, 64 invocations share a result: on software if
# there are fewer than four, on hardware from 512 on 256.
Case = tuple[tuple[int, int, int, int, int], int, tuple[int, int]]
CASES: tuple[Case, ...] = (
    ((2, 9, 3, 4, 7), 7, (2, 12)),
    ((1, 3, 2, 40, 4), 30, (1, 10)),
    ((1, 500, 2, 3, 300), 7, (2, 6)),
    ((2, 5, 1, 6, 130), 12, (1, 3)),
    ((1, 400, 3, 2, 3), 9, (1, 1)),
    ((1, 0, 2, 9, 1), 20, (1, 2)),
)


def expect_parts(model: Model, gpu: str, entries: int, memories: int) -> None:
    with model.compile(gpu) as compiled:
        rows = Counter(row.kernel.body for row in compiled.plan_rows())
    assert rows == {"svdf_entry": entries, "svdf_memory": memories}


@pytest.mark.parametrize("case", CASES)
def test_reals(case: Case, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, most, parts = case
    operands, (_, depth, _, rank, memory) = svdf_operands(*sizes), sizes
    attrs = {"rank": rank, "activation": "tanh"}
    # All operands are below 1: entries below `depth`, results sums of rank * memory of them.
    terms = rank * memory * max(depth, 1)
    bound = (terms + depth) * terms * EPS
    whole = check("svdf", operands, attrs, backend=gpu, atol=bound)
    limit_device(monkeypatch, max_loop_iterations=most)
    expect_parts(model_of("svdf", operands, attrs), gpu, *parts)
    for found, expected in zip(check("svdf", operands, attrs, backend=gpu, atol=bound), whole, strict=True):
        np.testing.assert_array_equal(found, expected)
    halves = [None if o is None else o.astype(np.float16) for o in (*operands[:3], None, operands[4])]
    check("svdf", halves, attrs, backend=gpu, atol=bound, rtol=2.0**-11 + RTOL)


@pytest.mark.parametrize("kinds", STATES.values(), ids=STATES)
@pytest.mark.parametrize("case", CASES)
def test_integers(
    kinds: tuple[TensorType, TensorType], case: Case, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, most, parts = case
    limit_device(monkeypatch, max_loop_iterations=most)
    types = svdf_types(sizes, kinds)
    inputs = [stored(k, t) for k, t in enumerate(types)]
    attrs, y = {"rank": sizes[3], "activation": "relu"}, Quantization((0.01,), (5,))
    results = [types[4].quantization, y]
    expect_parts(integer_model("svdf", inputs, types, attrs, results), gpu, *parts)
    for bias in (inputs[3], None):
        check_integer("svdf", [*inputs[:3], bias, inputs[4]], types, attrs, results, backend=gpu)


@pytest.mark.parametrize("kind", [DType.FLOAT32, DType.INT16])
def test_runs_are_those_of_litert(kind: DType, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several runs, so that entries move through the memories."""
    limit_device(monkeypatch, max_loop_iterations=9)
    if kind is DType.INT16:
        file, x = integer_svdf((2, 9, 3, 4, 6), scale=0.2)
        runs, tolerance = [[stored(seed, x)] for seed in range(3)], 0.0
    else:
        case = svdf(2, 9, 3, 4, 6)
        file, runs = file_of(case), frames(case)
        # Entries are sums of 9 products, results of 24 products with these; weights are below 0.6, x below 1.
        tolerance = (24 + 9) * EPS * 24 * 0.6 * 9 * 0.6
    expected = litert_runs(file, runs)
    with load(file).compile(gpu) as compiled:
        rows = Counter(row.kernel.body for row in compiled.plan_rows())
        assert rows["svdf_memory"] > 2
        found: list[Array] = [y for frame in runs for y in as_list(compiled(*frame))]
    for got, (wanted,) in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance)


def test_a_rank_that_lavapipe_does_not_take_at_once(gpu: str) -> None:
    """Each of 30,000 filters has two features and a memory of two entries."""
    rank = 30_000
    feature = np.tile(np.array([[1, 2], [3, -1]], np.float32), (rank // 2, 1))
    x, time, state = np.array([[2, 1]], np.float32), np.ones((rank, 2), np.float32), np.arange(2 * rank)
    moved, y = check(
        "svdf",
        [x, feature, time, None, (state % 8).astype(np.float32)[None]],
        {"rank": rank},
        backend=gpu,
    )
    # Entries are 4 and 5; what the memories had before is 0, 2, 4, 6, 0 ... : whole numbers, exact sums.
    assert y.tolist() == [[rank * (4.5 + 3)]]
    assert moved[0, :6].tolist() == [4, 0, 5, 0, 4, 0]
