"""sink_reshapes: arithmetic moves before a reshape of a layer's result, a pad behind a reshape."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.sink_reshapes import sink_reshapes
from gpunn.types import float32
from tests.ops.harness import random
from tests.passes.same import expect_unchanged, of_rounded_weights, ops, same
from tests.passes.test_layer_norm import add

SHAPE = (2, 6, 4, 5, 3)
Build = Callable[[Model, Operand], Operand]


def layer(model: Model, x: Operand) -> Operand:
    """A product of all pixels as one row each, with seven channels, in the shape that it was before."""
    weights, bias = model.constant("w", random(1, 7, 3)), model.constant("b", random(2, 7))
    rows = add(model, "fully_connected", add(model, "reshape", x, shape=(240, 3)), weights, bias)
    return add(model, "reshape", rows, shape=(*SHAPE[:4], 7))


def normalised(model: Model, x: Operand) -> Operand:
    factors, summands = model.constant("f", random(3, 1, 1, 7)), model.constant("s", random(4, 7))
    scaled = add(model, "mul", factors, layer(model, x))
    return add(
        model, "relu", add(model, "sub", add(model, "add", scaled, summands), model.constant("t", 0.5))
    )


def test_constants_and_activations_join_the_layer() -> None:
    model = Model()
    model.output(normalised(model, model.input("x", float32(*SHAPE))))
    found = same(model, sink_reshapes)
    assert ops(found) == ["reshape", "fully_connected", "mul", "add", "sub", "relu", "reshape"]
    found = same(model, optimise, tolerance=of_rounded_weights)
    assert ops(found) == ["reshape", "fully_connected", "reshape"]
    assert found.operations[1].attrs["activation"] == "relu"


@pytest.mark.parametrize(
    ("paddings", "shape", "sinks"),
    [
        (((0, 0), (1, 2), (0, 0), (0, 0), (0, 0)), (2, 9, 20, 3), True),
        (((0, 0), (0, 0), (1, 0), (0, 2), (0, 0)), (12, 5, 7, 3), True),
        (((3, 0), (0, 0), (0, 0), (0, 0), (1, 1)), (5, 30, 4, 1, 5), True),
        (((0, 0), (1, 2), (0, 0), (0, 0), (0, 0)), (18, 4, 5, 3), False),
        (((0, 0), (0, 0), (0, 0), (1, 0), (1, 0)), (48, 24), False),
    ],
)
def test_pads(
    paddings: tuple[tuple[int, int], ...], shape: tuple[int, ...], sinks: bool, backend: str
) -> None:
    """They move where the reshape keeps the axes that are padded."""
    model = Model()
    x = model.input("x", float32(*SHAPE))
    model.output(add(model, "reshape", add(model, "pad", x, paddings=paddings, value=2.0), shape=shape))
    found = same(model, sink_reshapes)
    assert ops(found) == (["reshape", "pad"] if sinks else ["pad", "reshape"])
    given = random(0, *SHAPE)
    with model.compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(given), model.evaluate([given])[0])


def without_a_layer(model: Model, x: Operand) -> Operand:
    return add(model, "relu", add(model, "reshape", x, shape=(240, 3)))


def other_channels(model: Model, x: Operand) -> Operand:
    """What is added has other places in the layer's result."""
    return add(
        model, "add", add(model, "reshape", layer(model, x), shape=(240, 1, 7, 1)), model.constant("c", 1.0)
    )


def computed(model: Model, x: Operand) -> Operand:
    y = layer(model, x)
    return add(model, "mul", y, add(model, "reduce_max", x, axes=(4,), keep_dims=True))


def broadcast(model: Model, x: Operand) -> Operand:
    return add(model, "add", layer(model, x), model.constant("c", random(5, 2, 1, 1, 1, 1, 7)))


def read_twice(model: Model, x: Operand) -> Operand:
    y = layer(model, x)
    return add(model, "add", add(model, "relu", y), y)


@pytest.mark.parametrize("build", [without_a_layer, other_channels, computed, broadcast, read_twice])
def test_others_stay(build: Build) -> None:
    expect_unchanged(sink_reshapes, build, SHAPE)


def test_results_of_the_model_stay() -> None:
    model = Model()
    y = layer(model, model.input("x", float32(*SHAPE)))
    model.output(y, add(model, "relu", y))
    assert sink_reshapes(model) is model
