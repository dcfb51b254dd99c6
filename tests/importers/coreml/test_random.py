"""Layers that draw random numbers: distributions, seeds, and what follows from run to run.

Seeds are fixed, so each test always gives the same answer; the bounds are such that a correct generator fails
with a probability below 1e-8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.types import Array
from tests.importers.coreml.builder import Message, layer, model
from tests.importers.coreml.test_control import start
from tests.ops.test_random import greatest_distance

COUNT = 20_000
# By the inequalities of Dvoretzky, Kiefer, Wolfowitz and Massart, and of Hoeffding: P <= 2 exp(-2 n d^2).
DISTANCE = math.sqrt(math.log(2e9) / (2 * COUNT))
PARAMETERS: dict[str, dict[str, float]] = {
    "randomNormal": {"mean": 3, "stdDev": 0.5},
    "randomUniform": {"minVal": -2, "maxVal": 6},
    "randomBernoulli": {"prob": 0.3},
}
kinds = pytest.mark.parametrize("kind", PARAMETERS)


def drawing(kind: str, how: str, shape: Sequence[int], seed: int = 42, **changes: Any) -> Message:
    """A specification with one layer that draws numbers of a shape: Static, Like or Dynamic."""
    made = model((len(shape),) if how == "Dynamic" else shape, exact=True)
    params = layer(made, kind + how, ["x"] if how != "Static" else [])
    params.seed = seed
    if how == "Static":
        params.outputShape.extend(shape)
    for name, value in (PARAMETERS[kind] | changes).items():
        setattr(params, name, value)
    return made


def given(how: str, shape: Sequence[int]) -> Array:
    """What the input is."""
    return np.float32(shape) if how == "Dynamic" else np.zeros(shape, np.float32)


def drawn(made: Message, x: Array, backend: str, runs: int = 1) -> list[Array]:
    """The numbers of several runs of a fresh compilation."""
    with gpunn.load(made.SerializeToString()).compile(backend) as compilation:
        return [compilation(x) for _ in range(runs)]


@pytest.mark.parametrize("how", ["Static", "Like", "Dynamic"])
@kinds
def test_distributions(kind: str, how: str, backend: str) -> None:
    shape = (COUNT // 10, 10)
    (numbers,) = drawn(drawing(kind, how, shape), given(how, shape), backend)
    assert numbers.shape == shape
    found = np.sort(numbers.ravel().astype(np.float64))
    if kind == "randomBernoulli":
        assert set(found) == {0, 1}
        assert abs(found.mean() - 0.3) < DISTANCE
        return
    exact = (found + 2) / 8
    if kind == "randomNormal":
        exact = np.array([0.5 * (1 + math.erf((v - 3) / 0.5 / math.sqrt(2))) for v in found])
    assert greatest_distance(found, exact) < DISTANCE
    mean, variance = (3, 0.25) if kind == "randomNormal" else (2, 64 / 12)
    assert abs(found.mean() - mean) < 6 * math.sqrt(variance / COUNT)


@pytest.mark.parametrize("how", ["Static", "Like", "Dynamic"])
@kinds
def test_equal_seeds_give_equal_numbers(kind: str, how: str, backend: str) -> None:
    """A run goes on where the one before ended; fresh compilations and reset_state() begin anew."""
    shape = (3, 50)
    made, x = drawing(kind, how, shape), given(how, shape)
    first, second = drawn(made, x, backend, 2)
    assert (first != second).any()
    with gpunn.load(made.SerializeToString()).compile(backend) as compilation:
        for _ in range(2):
            np.testing.assert_array_equal(compilation(x), first)
            np.testing.assert_array_equal(compilation(x), second)
            compilation.reset_state()
    (other,) = drawn(drawing(kind, how, shape, seed=43), x, backend)
    assert (first != other).any()


@kinds
def test_backends_and_ways_to_state_a_shape_agree(kind: str, gpu: str) -> None:
    shape = (7, 11)
    found = [
        drawn(drawing(kind, how, shape), given(how, shape), backend)[0]
        for how in ("Static", "Like", "Dynamic")
        for backend in ("cpu", gpu)
    ]
    for numbers in found[1:]:
        np.testing.assert_allclose(numbers, found[0], atol=1e-5)


@kinds
def test_a_seed_of_minus_one_is_new_each_time_a_file_is_read(kind: str, backend: str) -> None:
    """1,000 numbers are equal with a probability of 0.58^1000 at most."""
    shape = (1000,)
    made, x = drawing(kind, "Like", shape, seed=-1), given("Like", shape)
    loaded = gpunn.load(made.SerializeToString())
    results = []
    for _ in range(2):
        with loaded.compile(backend) as compilation:
            results.append(compilation(x))
    np.testing.assert_array_equal(*results)
    assert (drawn(made, x, backend)[0] != results[0]).any()


def test_layers_of_equal_seeds_draw_equal_numbers(backend: str) -> None:
    made = model((5, 7), exact=True)
    for number, seed in enumerate((9, 9, 8)):
        params = layer(made, "randomUniformLike", ["x"], [f"y{number}" if number else "y"])
        params.maxVal, params.seed = 1, seed
        if number:
            made.description.output.add(name=f"y{number}").type.multiArrayType.dataType = 65568
    with gpunn.load(made.SerializeToString()).compile(backend) as compilation:
        found = compilation.run({"x": np.zeros((5, 7), np.float32)})
    np.testing.assert_array_equal(found["y"], found["y1"])
    assert (found["y"] != found["y2"]).any()


def test_shapes_that_change_from_run_to_run(backend: str) -> None:
    """The generator counts blocks of four numbers, whatever the shapes are."""
    made = drawing("randomUniform", "Dynamic", (1, 1))
    with gpunn.load(made.SerializeToString()).compile(backend) as compilation:
        found = [compilation(np.float32(shape)) for shape in ((2, 4), (1, 3), (2, 4))]
    assert [f.shape for f in found] == [(2, 4), (1, 3), (2, 4)]
    (together,) = drawn(drawing("randomUniform", "Static", (20,)), given("Static", (20,)), backend)
    parts = [together[:8], together[8:11], together[12:20]]
    np.testing.assert_array_equal(np.concatenate([f.ravel() for f in found]), np.concatenate(parts))


def test_each_round_of_a_loop_goes_on_where_the_one_before_ended(backend: str) -> None:
    """Three rounds add up three blocks of four numbers, in the next run the next three."""
    made = start((4,), total=0)
    loop = layer(made, "loop", [], [])
    loop.maxLoopIterations = 3
    params = layer(loop.bodyNetwork, "randomUniformLike", ["x"], ["numbers"])
    params.seed, params.maxVal = 42, 1
    layer(loop.bodyNetwork, "addBroadcastable", ["total", "numbers"], ["sum"])
    layer(loop.bodyNetwork, "copy", ["sum"], ["total"])
    layer(made, "copy", ["total"], ["y"])
    whole = drawing("randomUniform", "Static", (24,), minVal=0, maxVal=1)
    (together,) = drawn(whole, given("Static", (24,)), backend)
    for numbers, expected in zip(
        drawn(made, np.zeros(4, np.float32), backend, 2), together.reshape(2, 3, 4), strict=True
    ):
        np.testing.assert_allclose(numbers, expected.sum(axis=0), rtol=1e-6)


def test_a_branch_draws_only_if_it_is_taken(backend: str) -> None:
    made = start((4,))
    layer(made, "reduceSum", ["x"], ["any"]).reduceAll = True
    layer(made, "copy", ["x"], ["found"])
    branch = layer(made, "branch", ["any"], [])
    params = layer(branch.ifBranch, "randomUniformLike", ["x"], ["numbers"])
    params.seed, params.maxVal = 42, 1
    layer(branch.ifBranch, "copy", ["numbers"], ["found"])
    layer(made, "copy", ["found"], ["y"])
    whole = drawing("randomUniform", "Static", (8,), minVal=0, maxVal=1)
    (together,) = drawn(whole, given("Static", (8,)), backend)
    with gpunn.load(made.SerializeToString()).compile(backend) as compilation:
        found = [compilation(np.full(4, value, np.float32)) for value in (1, 0, 0, 1)]
    np.testing.assert_array_equal(found[0], together[:4])
    assert not np.concatenate(found[1:3]).any()
    np.testing.assert_array_equal(found[3], together[4:])


def test_inputs_of_other_shapes(backend: str) -> None:
    made = drawing("randomNormal", "Like", (2, 2))
    x = np.zeros((5, 4), np.float32)
    with gpunn.load(made.SerializeToString()).compile(backend, shapes={"x": x.shape}) as compilation:
        found = [compilation(x) for _ in range(2)]
    expected = drawn(drawing("randomNormal", "Static", (40,)), given("Static", (40,)), backend)
    np.testing.assert_array_equal(np.concatenate(found).ravel(), expected[0])


def categorical(shape: Sequence[int], samples: int, **params: Any) -> Message:
    made = model(shape, exact=True)
    message = layer(made, "categoricalDistribution")
    message.numSamples, message.seed = samples, 7
    for name, value in params.items():
        setattr(message, name, value)
    return made


@pytest.mark.parametrize("shape", [(4,), (2, 4), (3, 1, 2, 4)])
@pytest.mark.parametrize(
    "params",
    [{"isLogits": True}, {"isLogits": True, "temperature": 0.5}, {"temperature": 2.0}, {}, {"eps": 0.5}],
)
def test_classes(shape: tuple[int, ...], params: dict[str, Any], backend: str) -> None:
    """Each class as often as its probability says, within Hoeffding's bound."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2 if params.get("isLogits") else 0.05, 1, shape).astype(np.float32)
    (found,) = drawn(categorical(shape, COUNT, **params), x, backend)
    assert found.shape == (*shape[:-1], COUNT)
    logits = x.astype(np.float64) if params.get("isLogits") else np.log(x + params.get("eps", 0.0))
    weights = np.exp(logits / params.get("temperature", 1))
    expected = (weights / weights.sum(axis=-1, keepdims=True)).reshape(-1, 4)
    shares = [np.bincount(row.astype(int), minlength=4) / COUNT for row in found.reshape(-1, COUNT)]
    assert np.abs(shares - expected).max() < DISTANCE


def test_a_temperature_near_zero_divides_by_infinity() -> None:
    """Numbers beyond float32 become infinite without a warning."""
    gpunn.load(categorical((3,), 1, isLogits=True, temperature=1e-45).SerializeToString())


def test_a_class_without_probability_is_never_chosen(backend: str) -> None:
    """What is added to probabilities is 1e-10 if the file states nothing."""
    x = np.float32([0.5, 0, 0.25])
    first, second = drawn(categorical((3,), COUNT), x, backend, 2)
    assert set(first) == set(second) == {0, 2}
    assert (first != second).any()


def test_layers_that_contradict_the_format() -> None:
    extra = drawing("randomNormal", "Static", (3,))
    extra.neuralNetwork.layers[0].input.append("x")
    for made, message in (
        (extra, "expected 0 inputs, got 1"),
        (categorical((3,), 0), r"draws 0 samples from an input of shape \[3\]"),
        (categorical((3,), -1), "draws -1 samples"),
    ):
        with pytest.raises(gpunn.FormatError, match=message):
            gpunn.load(made.SerializeToString())
    missing = drawing("randomNormal", "Like", (3,))
    del missing.neuralNetwork.layers[0].input[:]
    with pytest.raises(gpunn.FormatError, match="expected 1 inputs, got 0"):
        gpunn.load(missing.SerializeToString())


def test_extents_below_zero_are_refused_in_the_run() -> None:
    loaded = gpunn.load(drawing("randomNormal", "Dynamic", (1, 1)).SerializeToString())
    refused = pytest.raises(gpunn.ModelError, match=r"no tensor has the shape \[2, -1\]")
    with loaded.compile("cpu") as compilation, refused:
        compilation(np.float32([2, -1]))
