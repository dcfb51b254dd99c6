"""Trainers of models with state, closed trainers, and weights that are handed out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.types import float32
from tests.resources import shared

X, TARGET = np.float32([[1, 2], [3, 4]]), np.float32([[1], [2]])


def counting() -> gpunn.Model:
    """Return y = x w and its sums over all runs."""
    model = gpunn.Model("counting")
    x, w = model.input("x", float32(2, 2)), model.constant("w", np.float32([[1], [1]]))
    (y,) = model.add("batch_matmul", [x, w], {})
    model.output(y)
    total = model.variable("total", float32(2, 1))
    model.update(total, *model.add("add", [total, y]))
    return model


def trainer_of(model: gpunn.Model, backend: str = "cpu", rate: float = 0.1) -> gpunn.Trainer:
    return gpunn.Trainer(
        model, loss="mean_squared_error", optimizer=gpunn.SGD(rate), trainable=["w"], backend=backend
    )


@pytest.mark.parametrize("many", [1e39, 1e300, 2.0**128])
def test_a_learning_rate_is_float32(many: float) -> None:
    with trainer_of(counting()) as trainer:
        with pytest.raises(gpunn.ModelError, match="must be 0 or more, and less than 3"):
            trainer.step(X, TARGET, learning_rate=many)
        assert np.isfinite(trainer.weights()[0]).all()


@pytest.mark.parametrize("steps", [0, 1])
def test_weights_are_copies(steps: int) -> None:
    model = counting()
    with trainer_of(model) as trainer:
        for _ in range(steps):
            trainer.step(X, TARGET)
        trainer.weights()[0][...] = 7
        assert not np.any(trainer.weights()[0] == 7)
    with model.compile("cpu") as compiled:
        np.testing.assert_array_equal(compiled(X), X.sum(1, keepdims=True))


@pytest.mark.parametrize("steps", [0, 1])
def test_a_closed_trainer_stays_closed(steps: int) -> None:
    trainer = trainer_of(counting())
    for _ in range(steps):
        trainer.step(X, TARGET)
    trainer.close()
    for call in (trainer.weights, trainer.model, lambda: trainer.step(X, TARGET)):
        with pytest.raises(gpunn.DeviceError, match="closed"):
            call()
    trainer.close()


def test_mini_batches_of_other_sizes_have_a_state_of_their_own(backend: str) -> None:
    """The state of a recurrent layer has a row for each sample; weights are taken over."""
    model = gpunn.load(shared("models/tflite/mnist_lstm.tflite"))
    (last,) = (o for o in model.operations if o.op == "fully_connected")
    x = np.random.default_rng(1).random((3, 28, 28), np.float32)
    with gpunn.Trainer(
        model,
        loss="cross_entropy",
        optimizer=gpunn.SGD(0.1),
        trainable=[last.inputs[1]],
        backend=backend,
    ) as trainer:
        trainer.step(x[:2], [1, 2])
        before = trainer.weights()[0]
        trainer.step(x[2:], [3], learning_rate=0)
        np.testing.assert_array_equal(trainer.weights()[0], before)
        trainer.step(x[:2], [1, 2])
        assert np.any(trainer.weights()[0] != before)


@pytest.mark.parametrize("wrong", [5, [], [("total", X[:, :1])], X], ids=repr)
def test_states_are_given_by_name(wrong: Any) -> None:
    with (
        counting().compile("cpu") as compiled,
        pytest.raises(gpunn.ModelError, match="values must be a mapping"),
    ):
        compiled.reset_state(wrong)
