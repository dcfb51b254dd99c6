"""Trainers of models with state, closed trainers, and weights that are handed out."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.training.step import with_values_of
from gpunn.types import Array, float32
from tests.resources import shared
from tests.training.test_saving import chain

X, TARGET = np.float32([[1, 2], [3, 4]]), np.float32([[1], [2]])
DIGITS = np.random.default_rng(1).random((3, 28, 28), np.float32)


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


def lstm_trainer(model: gpunn.Model, backend: str) -> gpunn.Trainer:
    (last,) = (o for o in model.operations if o.op == "fully_connected")
    return gpunn.Trainer(
        model,
        loss="cross_entropy",
        optimizer=gpunn.SGD(0.1),
        trainable=[w for w in last.inputs[1:2] if w is not None],
        backend=backend,
    )


def test_mini_batches_of_other_sizes_have_a_state_of_their_own(backend: str) -> None:
    """The state of a recurrent layer has a row for each sample; weights are taken over."""
    with lstm_trainer(gpunn.load(shared("models/tflite/mnist_lstm.tflite")), backend) as trainer:
        trainer.step(DIGITS[:2], [1, 2])
        before = trainer.weights()[0]
        trainer.step(DIGITS[2:], [3], learning_rate=0)
        np.testing.assert_array_equal(trainer.weights()[0], before)
        trainer.step(DIGITS[:2], [1, 2])
        assert np.any(trainer.weights()[0] != before)


@pytest.mark.parametrize("more", [False, True])
def test_a_trained_model_takes_inputs_of_other_shapes(tmp_path: Path, more: bool) -> None:
    """As its file does once it is saved, also with operations whose attributes and state have the shape."""
    source = gpunn.load(shared("models/tflite/mnist_lstm.tflite"))
    shapes = {source.inputs[0].name: DIGITS.shape}
    with lstm_trainer(source, "cpu") as trainer:
        trainer.step(DIGITS[:2], [1, 2])
        made = trainer.model()
    if more:
        with lstm_trainer(made, "cpu") as trainer:
            trainer.step(DIGITS, [1, 2, 3])
            made = trainer.model()
    made.save(tmp_path / "made.tflite")
    made.name = "mine"
    assert made.reshaped(shapes).name == "mine"
    made.reshaped(shapes).save(tmp_path / "reshaped.tflite")
    assert (tmp_path / "reshaped.tflite").read_bytes() == (tmp_path / "made.tflite").read_bytes()
    saved = gpunn.load(tmp_path / "made.tflite")
    models = source, saved, made, made.reshaped(shapes), pickle.loads(pickle.dumps(made))
    untrained, expected, *found = [m.compile("cpu", shapes=shapes)(DIGITS) for m in models]
    assert np.any(expected != untrained)
    for result in found:
        np.testing.assert_array_equal(result, expected)


def test_a_trained_model_that_was_changed_is_reshaped_by_its_operations() -> None:
    source = gpunn.load(chain())
    bias = source.operations[0].inputs[2]
    assert bias is not None and bias.value is not None
    made = gpunn.Model.of(with_values_of(source, [bias], [bias.value + 1]))
    made.trained_from = source
    made.outputs = [*made.add("neg", [made.outputs[0]])]
    reshaped = made.reshaped({made.inputs[0].name: (4, 2)})
    assert [o.op for o in reshaped.operations] == [o.op for o in made.operations]
    assert reshaped.outputs[0].type.shape == (4, *made.outputs[0].type.shape[1:])


@pytest.mark.parametrize("x", [X[:, :1], X[0]], ids=["columns", "rank"])
def test_mini_batches_that_the_model_does_not_take(x: Array) -> None:
    with (
        trainer_of(counting()) as trainer,
        pytest.raises(gpunn.ModelError, match=r"does not take inputs of shapes \[2.*: batch_matmul: "),
    ):
        trainer.step(x, TARGET)


@pytest.mark.parametrize("wrong", [5, [], [("total", X[:, :1])], X], ids=repr)
def test_states_are_given_by_name(wrong: Any) -> None:
    with (
        counting().compile("cpu") as compiled,
        pytest.raises(gpunn.ModelError, match="values must be a mapping"),
    ):
        compiled.reset_state(wrong)
