"""Losses: values and gradients worked by hand, and stable where exponentials overflow."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.training.gradients import gradients
from gpunn.training.losses import cross_entropy, cross_entropy_with_logits, mean_squared_error
from gpunn.types import Array, float32

HUGE = np.array([[1000, 0, -1000], [0, 0, 0]], np.float32)
TARGET = np.array([[1, 0, 0], [0, 0, 1]], np.float32)


def test_mean_squared_error(backend: str) -> None:
    model = Model()
    x, target = model.input("x", float32(2, 2)), model.input("target", float32(2, 2))
    loss = mean_squared_error(model, x, target)
    with gradients(model, loss, [x]).compile(backend) as compiled:
        value, gradient = compiled(np.float32([[1, 2], [3, 4]]), np.float32([[1, 0], [0, 0]]))
    assert value.item() == (4 + 9 + 16) / 4
    assert gradient.tolist() == [[0, 1], [1.5, 2]]


def run(model: Model, loss: object, backend: str) -> tuple[Array, ...]:
    found = gradients(model, loss, ["x"])  # type: ignore[arg-type]
    with found.compile(backend) as compiled:
        results: tuple[Array, ...] = compiled(HUGE, TARGET)
    return results


@pytest.mark.parametrize("how", ["softmax", "transposed", "logits"])
def test_cross_entropy_is_stable(how: str, backend: str) -> None:
    """The loss is (0 + ln 3) / 2, and its gradient (softmax - target) / 2."""
    model = Model()
    x, target = model.input("x", float32(2, 3)), model.input("target", float32(2, 3))
    if how == "logits":
        loss = cross_entropy_with_logits(model, x, target)
    elif how == "softmax":
        loss = cross_entropy(model, *model.add("softmax", [x]), target)
    else:
        (turned,) = model.add("transpose", [x], {"perm": (1, 0)})
        (shares,) = model.add("softmax", [turned], {"axis": 0})
        loss = cross_entropy(model, *model.add("transpose", [shares], {"perm": (1, 0)}), target)
    value, gradient = run(model, loss, backend)
    np.testing.assert_allclose(value, math.log(3) / 2, rtol=1e-6)
    np.testing.assert_allclose(gradient, [[0, 0, 0], [1 / 6, 1 / 6, -1 / 3]], atol=1e-6)


def test_softmax_with_beta_and_computed_probabilities() -> None:
    model = Model()
    x, target = model.input("x", float32(1, 3)), model.input("target", float32(1, 3))
    losses = [
        cross_entropy(model, *model.add("softmax", [x], {"beta": 2.0}), target),
        cross_entropy(model, *model.add("div", [x, model.constant("six", np.float32(6))]), target),
    ]
    model.output(*losses)
    found = model.evaluate([np.array([[1.0, 2, 3]]), np.array([[0.0, 1, 0]])])
    exponentials = np.exp([2.0, 4, 6])
    expected = [-math.log(exponentials[1] / exponentials.sum()), math.log(3)]
    np.testing.assert_allclose([v.item() for v in found], expected, rtol=1e-12)


def test_types_that_do_not_fit_are_refused() -> None:
    model = Model()
    x, target = model.input("x", float32(2, 3)), model.input("target", float32(2, 2))
    for loss in (mean_squared_error, cross_entropy, cross_entropy_with_logits):
        with pytest.raises(ModelError, match="a loss compares tensors of one type"):
            loss(model, x, target)
    with pytest.raises(ModelError, match="axis 2 is out of range"):
        cross_entropy(model, x, x, axis=2)
