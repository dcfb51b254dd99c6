"""fuse_layer_norms: normalisations of groups of channels, as LiteRT Torch and Keras write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.layer_norm import fuse_layer_norms
from gpunn.types import Shape, float32
from tests.passes.same import expect_unchanged, ops, same
from tests.passes.test_layer_norm import Build, add, weights

SHAPE = (2, 6, 4, 5)  # samples, channels, height, width
GROUPS = (2, 3, 2, 20)  # samples, groups, channels of each, pixels
BESIDE = (2, 3, 1, 1)


def moments(model: Model, x: Operand, shape: Shape = GROUPS) -> tuple[Operand, Operand]:
    """Add the means of groups and the reciprocal roots of their variances."""
    groups = add(model, "reshape", x, shape=shape)
    centre = add(model, "mean", groups, axes=(2, 3), keep_dims=True)
    away = add(model, "sub", groups, centre)
    variance = add(model, "mean", add(model, "mul", away, away), axes=(2, 3), keep_dims=False)
    spread = add(model, "reshape", add(model, "add", variance, 1e-5), shape=(*shape[:2], 1, 1))
    return centre, add(model, "rsqrt", spread)


def applied(model: Model, x: Operand, factor: Operand, rest: Operand, **attrs: Any) -> Operand:
    """Add x f + rest, both as they are for groups."""
    factor, rest = (
        add(model, "reshape", o, shape=(o.type.shape[0], x.type.shape[1], 1, 1)) for o in (factor, rest)
    )
    return add(model, "add", add(model, "mul", x, factor), rest, **attrs)


def opposite(model: Model, x: Operand) -> Operand:
    return add(model, "mul", x, -1.0)


def scaled(model: Model, x: Operand, **attrs: Any) -> Operand:
    """As LiteRT Torch writes nn.GroupNorm."""
    centre, root = moments(model, x)
    factor = add(model, "mul", root, weights(model, 1, 3, 2, 1))
    rest = add(model, "mul", opposite(model, centre), factor)
    return applied(model, x, factor, add(model, "add", rest, weights(model, 1, 3, 2, 1)), **attrs)


def then_clamped(model: Model, x: Operand) -> Operand:
    return scaled(model, x, activation="relu")


def negated(model: Model, x: Operand) -> Operand:
    centre, root = moments(model, x)
    factor = add(model, "mul", weights(model, 1, 3, 2, 1), root)
    rest = add(model, "mul", factor, add(model, "neg", centre))
    return applied(model, x, factor, add(model, "add", weights(model, 1, 3, 2, 1), rest))


def less_a_product(model: Model, x: Operand) -> Operand:
    centre, root = moments(model, x)
    factor = add(model, "mul", root, weights(model, 1, 3, 2, 1))
    product = add(model, "mul", centre, factor)
    return applied(model, x, factor, add(model, "sub", weights(model, 1, 3, 2, 1), product))


def repeated(model: Model, x: Operand) -> Operand:
    """Without scale and bias, as LiteRT Torch writes it: numbers of groups become numbers of channels."""
    centre, root = moments(model, x)
    rest = add(model, "mul", opposite(model, centre), root)
    return applied(model, x, *(add(model, "broadcast_to", o, shape=(2, 3, 2, 1)) for o in (root, rest)))


def each_channel_a_group(model: Model, x: Operand) -> Operand:
    centre, root = moments(model, x, (2, 6, 1, 20))
    return applied(model, x, root, add(model, "mul", opposite(model, centre), root))


FORMS: dict[Build, list[str]] = {
    scaled: ["mul", "add"],
    then_clamped: ["mul", "add"],
    negated: ["mul", "add"],
    less_a_product: ["mul", "add"],
    repeated: [],
    each_channel_a_group: [],
}


@pytest.mark.parametrize("build", FORMS)
def test_forms(build: Build, backend: str) -> None:
    model = Model()
    model.output(build(model, model.input("x", float32(*SHAPE))))
    found = same(model, lambda m: optimise(m))  # type: ignore[arg-type, return-value]
    assert ops(found) == ["reshape", "layer_normalization", *FORMS[build], "reshape"]
    given = np.random.default_rng(0).normal(2, 3, SHAPE).astype(np.float32)
    with model.compile(backend) as compiled:
        np.testing.assert_allclose(compiled(given), model.evaluate([given])[0], rtol=1e-5, atol=1e-5)


def test_as_keras_writes_it(backend: str) -> None:
    """GroupNormalization: moments and batch_normalization of [samples, pixels, groups, channels of each]."""
    model = Model()
    x = model.input("x", float32(2, 20, 3, 2))
    axes = {"axes": (1, 3), "keep_dims": True}
    centre = add(model, "mean", x, **axes)
    variance = add(model, "mean", add(model, "squared_difference", x, centre), **axes)
    root = add(model, "rsqrt", add(model, "add", variance, 1e-3))
    factor = add(model, "mul", root, weights(model, 1, 1, 3, 2))
    rest = add(model, "sub", weights(model, 1, 1, 3, 2), add(model, "mul", centre, factor))
    model.output(add(model, "add", add(model, "mul", x, factor), rest))
    found = same(model, lambda m: optimise(m))  # type: ignore[arg-type, return-value]
    assert ops(found) == ["layer_normalization", "mul", "add"]
    given = np.random.default_rng(0).normal(2, 3, (2, 20, 3, 2)).astype(np.float32)
    with model.compile(backend) as compiled:
        np.testing.assert_allclose(compiled(given), model.evaluate([given])[0], rtol=1e-5, atol=1e-5)


def placed_elsewhere(model: Model, x: Operand) -> Operand:
    """Six numbers of samples and groups stand beside as many channels."""
    centre, root = moments(model, x)
    both = root, add(model, "mul", opposite(model, centre), root)
    factor, rest = (add(model, "reshape", o, shape=(1, 6, 1, 1)) for o in both)
    return add(model, "add", add(model, "mul", x, factor), rest)


def repeated_elsewhere(model: Model, x: Operand) -> Operand:
    """Groups take turns among the channels."""
    centre, root = moments(model, x)
    both = root, add(model, "mul", opposite(model, centre), root)
    turns = (add(model, "reshape", o, shape=(2, 1, 3, 1)) for o in both)
    return applied(model, x, *(add(model, "broadcast_to", o, shape=(2, 2, 3, 1)) for o in turns))


def with_the_mean_added(model: Model, x: Operand) -> Operand:
    centre, root = moments(model, x)
    factor = add(model, "mul", root, weights(model, 1, 3, 2, 1))
    return applied(model, x, factor, add(model, "mul", centre, factor))


def of_another_tensor(model: Model, x: Operand) -> Operand:
    centre, root = moments(model, x)
    factor = add(model, "mul", root, weights(model, 1, 3, 2, 1))
    rest = add(model, "mul", opposite(model, centre), factor)
    return applied(model, add(model, "sin", x), factor, rest)


def by_another_factor(model: Model, x: Operand) -> Operand:
    centre, root = moments(model, x)
    factor, other = (add(model, "mul", root, weights(model, 1, 3, 2, 1)) for _ in range(2))
    return applied(model, x, factor, add(model, "mul", opposite(model, centre), other))


def another_mean(model: Model, x: Operand) -> Operand:
    _, root = moments(model, x)
    factor = add(model, "mul", root, weights(model, 1, 3, 2, 1))
    centre = add(model, "mean", add(model, "sin", x), axes=(2, 3), keep_dims=True)
    groups = add(model, "reshape", centre, shape=(2, 3, 2, 1))
    return applied(model, x, factor, add(model, "mul", opposite(model, groups), factor))


STAYS = (
    *(placed_elsewhere, repeated_elsewhere, with_the_mean_added),
    *(of_another_tensor, by_another_factor, another_mean),
)


@pytest.mark.parametrize("build", STAYS)
def test_what_stays(build: Build) -> None:
    expect_unchanged(fuse_layer_norms, build, SHAPE)
