"""Trainer: steps worked by hand, equal on both backends, and refusals."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.model import Model
from gpunn.types import Array, float32

EPSILON = float(np.finfo(np.float32).eps)


def line(value: float = 1.0) -> Model:
    """Return y = w x, for two rows."""
    model = Model()
    weight = model.constant("w", np.array([[value]], np.float32))
    model.output(*model.add("fully_connected", [model.input("x", float32(2, 1)), weight, None], names=["y"]))
    return model


def classifier(rows: int = 4, seed: int = 0) -> Model:
    """Return tanh and softmax of 5 inputs, with 7 hidden units and 3 classes."""
    random, model = np.random.default_rng(seed), Model()
    x = model.input("x", float32(rows, 5))
    for name, outputs, inputs in (("first", 7, 5), ("second", 3, 7)):
        weight = model.constant(name, random.normal(size=(outputs, inputs)).astype(np.float32))
        bias = model.constant(f"{name} bias", np.zeros(outputs, np.float32))
        (x,) = model.add("fully_connected", [x, weight, bias], origin=name)
        (x,) = model.add("tanh" if name == "first" else "softmax", [x])
    model.output(x)
    return model


WEIGHTS = ["first", "first bias", "second", "second bias"]
SGD, ADAM = gpunn.SGD(0.1, momentum=0.5), gpunn.Adam(0.1)


def batches(seed: int = 1, rows: tuple[int, ...] = (4, 4)) -> list[tuple[Array, Array]]:
    random = np.random.default_rng(seed)
    return [(random.normal(size=(n, 5)).astype(np.float32), random.integers(0, 3, n)) for n in rows]


X, TARGET = np.array([[1], [3]], np.float32), np.array([[0], [1]], np.float32)


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        # The loss is ((w - 0)^2 + (3w - 1)^2) / 2, and its gradient 10 w - 3: 7 for w = 1.
        (gpunn.SGD(0.0625), [1 - 7 / 16, 0.5625 - 2.625 / 16]),
        # The second gradient is 2.625, and the velocity 0.5 * 7 + 2.625.
        (gpunn.SGD(0.0625, momentum=0.5), [0.5625, 0.5625 - 6.125 / 16]),
    ],
)
def test_descent_by_hand(optimizer: gpunn.SGD, expected: list[float], backend: str) -> None:
    with gpunn.Trainer(
        line(), loss="mean_squared_error", optimizer=optimizer, trainable=["w"], backend=backend
    ) as trainer:
        assert trainer.step(X, TARGET) == (1 + 4) / 2
        assert trainer.weights()[0].tolist() == [[expected[0]]]
        trainer.step(X, TARGET)
        assert trainer.weights()[0].tolist() == [[expected[1]]]


def test_adam_by_hand(backend: str) -> None:
    """The first step is the learning rate towards the sign of the gradient; the second one as computed."""
    rate, beta1, beta2, eps = 0.25, 0.5, 0.75, 0.5
    weight, mean, square = 1.0, 0.0, 0.0
    with gpunn.Trainer(
        line(),
        loss="mean_squared_error",
        optimizer=gpunn.Adam(rate, beta1, beta2, eps),
        trainable=["w"],
        backend=backend,
    ) as trainer:
        for step in (1, 2):
            trainer.step(X, TARGET)
            gradient = 10 * weight - 3
            mean = beta1 * mean + (1 - beta1) * gradient
            square = beta2 * square + (1 - beta2) * gradient**2
            root = math.sqrt(square / (1 - beta2**step))
            weight -= rate * mean / (1 - beta1**step) / (root + eps)
            # Less than 20 roundings, each of at most half an epsilon of values of at most 1.
            assert abs(trainer.weights()[0].item() - weight) <= 10 * EPSILON


@pytest.mark.parametrize("optimizer", [SGD, ADAM], ids=["sgd", "adam"])
def test_the_same_bits_twice_and_both_backends_agree(optimizer: Any, gpu: str) -> None:
    def trained(backend: str) -> tuple[list[float], list[Array]]:
        with gpunn.Trainer(
            classifier(), loss="cross_entropy", optimizer=optimizer, trainable=WEIGHTS, backend=backend
        ) as trainer:
            told = trainer.fit(batches(rows=(4, 4, 2)), epochs=2)
            return [p.loss for p in told], list(trainer.weights())

    first, again, other = trained(gpu), trained(gpu), trained("cpu")
    assert first[0] == again[0]
    assert all(np.array_equal(a, b) for a, b in zip(first[1], again[1], strict=True))
    # A step's gradient differs by its relative error: sums of at most 7 products behind one another, twice
    # forward and twice back, and functions of 4 epsilon: below 100 epsilon. Adam divides by roots of squares,
    # which a gradient near 0 makes as wrong as the gradient; 6 steps of 0.1 move a weight by 0.6, and
    # each step sees the errors of those before at most doubled: 2^6 * 100 epsilon * 0.6.
    tolerance = 64 * 100 * EPSILON * 0.6
    for a, b in zip(first[1], other[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)
    np.testing.assert_allclose(first[0], other[0], rtol=0, atol=10 * tolerance)


def test_a_smaller_mini_batch_takes_over_weights_and_moments(backend: str) -> None:
    """Two rows that are the same as four, twice, have the same gradients."""
    (x, target), _ = batches(rows=(2, 2))
    twice = np.concatenate([x, x]), np.concatenate([target, target])

    def trained(*given: tuple[Array, Array]) -> Any:
        with gpunn.Trainer(
            classifier(), loss="cross_entropy", optimizer=SGD, trainable=WEIGHTS, backend=backend
        ) as trainer:
            trainer.fit(given)
            return trainer.weights()

    mixed, same = trained(twice, (x, target), twice), trained(twice, twice, twice)
    for a, b in zip(mixed, same, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=100 * EPSILON)


def test_weights_stay_on_the_device(gpu: str) -> None:
    with gpunn.Trainer(
        classifier(), loss="cross_entropy", optimizer=ADAM, trainable=WEIGHTS, backend=gpu
    ) as trainer:
        trainer.fit(batches())
        (prepared,) = trainer._prepared.values()
        before = prepared.compiled.stats.submits, prepared.compiled.stats.bytes_read_back
        trainer.fit(batches())
        after = prepared.compiled.stats.submits, prepared.compiled.stats.bytes_read_back
    assert after == (before[0] + 2, before[1] + 2 * 4)


def test_progress_and_an_early_end() -> None:
    told: list[gpunn.Progress] = []
    with gpunn.Trainer(
        classifier(), loss="cross_entropy", optimizer=SGD, trainable=WEIGHTS, backend="cpu"
    ) as trainer:
        found = trainer.fit(batches(), epochs=5, on_progress=lambda p: told.append(p) or len(told) < 3)
    assert found == tuple(told)
    assert [(p.epoch, p.batch) for p in told] == [(0, 0), (0, 1), (1, 0)]
    assert told[2].loss < told[0].loss


def test_the_trained_model_runs_and_the_source_stays(backend: str) -> None:
    model = classifier()
    with gpunn.Trainer(
        model, loss="cross_entropy", optimizer=ADAM, trainable=["second"], backend=backend
    ) as trainer:
        trainer.fit(batches(), epochs=3, learning_rate=lambda epoch: 0.1 / (epoch + 1))
        made = trainer.model()
        (weights,) = trainer.weights()
    (x, _), _ = batches()
    hidden = np.tanh(x @ np.asarray(model.operations[0].inputs[1].value).T)  # type: ignore[union-attr]
    logits = np.exp(hidden @ weights.T)
    for again in (made, made.reshaped({"x": (2, 5)}), pickle.loads(pickle.dumps(made))):
        rows = again.inputs[0].type.shape[0]
        with again.compile(backend) as compiled:
            found = compiled(x[:rows])
        # Logits below 10, of sums of 7 products: at most 40 roundings of them, and an exponential.
        shares = (logits / logits.sum(1, keepdims=True))[:rows]
        np.testing.assert_allclose(found, shares, rtol=100 * EPSILON)
    assert not np.array_equal(model.operations[2].inputs[1].value, weights)  # type: ignore[union-attr]


def test_a_diverging_training_names_step_and_layer(backend: str) -> None:
    with gpunn.Trainer(
        line(), loss="mean_squared_error", optimizer=gpunn.SGD(1e30), trainable=["w"], backend=backend
    ) as trainer:
        trainer.step(X, TARGET)
        with pytest.raises(gpunn.DivergenceError, match=r"in step 2: .* the result of squared_diff") as error:
            trainer.step(X, TARGET)
    assert error.value.step == 2
    assert isinstance(error.value, gpunn.GpunnError)


def test_a_gradient_that_is_not_finite_is_told_by_its_weight(backend: str) -> None:
    """The root of 0 has an infinite slope: the loss of step 1 is finite, and then the first weight is not."""
    model = Model()
    y = model.input("x", float32(2, 4))
    for layer, weight in enumerate((np.eye(4), np.ones((3, 4)))):
        if layer:
            (y,) = model.add("sqrt", [y])
        w = model.constant(f"w{layer}", weight.astype(np.float32))
        (y,) = model.add("fully_connected", [y, w], origin=f"layer {layer}")
    model.output(y)
    match = r"in step 2: first not finite is '.*w0', which fully_connected \(layer 0\) reads: the gradient of"
    with gpunn.Trainer(
        model, loss="mean_squared_error", optimizer=SGD, trainable=["w0", "w1"], backend=backend
    ) as trainer:
        zeros, ones = np.zeros((2, 4), np.float32), np.ones((2, 3), np.float32)
        assert trainer.step(zeros, ones) == 1
        with pytest.raises(gpunn.DivergenceError, match=match):
            trainer.step(zeros, ones)


def test_a_target_that_is_no_number_is_named(backend: str) -> None:
    with (
        gpunn.Trainer(
            line(), loss="mean_squared_error", optimizer=SGD, trainable=["w"], backend=backend
        ) as trainer,
        pytest.raises(gpunn.DivergenceError, match="step 1: first not finite is input 'target'"),
    ):
        trainer.step(X, TARGET * np.float32("nan"))


def test_an_infinite_input_is_named() -> None:
    with (
        gpunn.Trainer(
            line(), loss="mean_squared_error", optimizer=SGD, trainable=["w"], backend="cpu"
        ) as trainer,
        pytest.raises(gpunn.DivergenceError, match="step 1: first not finite is input 'x'"),
    ):
        trainer.step(X * np.float32("inf"), TARGET)


@pytest.mark.parametrize(
    ("inputs", "target", "rate", "match"),
    [
        (X, TARGET[:1], None, r"input 'target' must have shape \[2, 1\], got \[1, 1\]"),
        (X, TARGET.astype(complex), None, "input 'target' must be float32, got complex128"),
        (X[:0], TARGET[:0], None, "the mini-batch is empty"),
        (X, TARGET, -1.0, r"a learning rate must be 0 or more, and less than \S+, got -1.0"),
        (X, TARGET, math.nan, r"a learning rate must be 0 or more, and less than \S+, got nan"),
        (X, TARGET, "quick", r"a learning rate must be 0 or more, and less than \S+, got 'quick'"),
        ([[1, 2], [3]], TARGET, None, "input 'x' cannot be made an array"),
        ((X, X), TARGET, None, "the model takes 1 input, got 2"),
        ({"y": X}, TARGET, None, r"the model's inputs are \['x'\], got \['y'\]"),
    ],
)
def test_nonsense_in_a_step(inputs: Any, target: Array, rate: Any, match: str) -> None:
    with (
        gpunn.Trainer(
            line(), loss="mean_squared_error", optimizer=SGD, trainable=["w"], backend="cpu"
        ) as trainer,
        pytest.raises(gpunn.ModelError, match=match),
    ):
        trainer.step(inputs, target, learning_rate=rate)


def test_nonsense_in_a_training() -> None:
    with gpunn.Trainer(
        classifier(), loss="cross_entropy", optimizer=SGD, trainable=WEIGHTS, backend="cpu"
    ) as trainer:
        with pytest.raises(gpunn.ModelError, match="epoch 0 has no mini-batch"):
            trainer.fit([])
        with pytest.raises(gpunn.ModelError, match=r"epoch 1 has no mini-batch \(batches must be such"):
            trainer.fit(iter(batches()), epochs=2)
        for epochs in (0, 1.5, "3", True, math.nan, None):
            with pytest.raises(gpunn.ModelError, match="epochs must be an integer of 1 or more, got"):
                trainer.fit(batches(), epochs=epochs)  # type: ignore[arg-type]
        with pytest.raises(gpunn.ModelError, match="batches must be a list of pairs of inputs and target"):
            trainer.fit(None)  # type: ignore[arg-type]
        with pytest.raises(gpunn.ModelError, match="a pair of inputs and target"):
            trainer.fit([X[0]])
        with pytest.raises(gpunn.ModelError, match="on_progress must be a function, got 5"):
            trainer.fit(batches(), on_progress=5)  # type: ignore[arg-type]
        with pytest.raises(gpunn.ModelError, match="classes must be from 0 to 2, got 0 to 3"):
            trainer.step(batches()[0][0], np.array([0, 1, 2, 3]))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"loss": "hinge"}, "cross_entropy, cross_entropy_with_logits, got 'hinge'"),
        ({"trainable": []}, "there is nothing to train"),
        ({"trainable": "w"}, "trainable must be a list of weights, got 'w'"),
        ({"optimizer": "adam"}, "an optimizer is a gpunn.SGD or gpunn.Adam, got 'adam'"),
        ({"trainable": [5]}, "no operand 5"),
        ({"loss": ["mean_squared_error"]}, "a loss is one of"),
        ({"axis": 1.5}, "axis must be an integer, got 1.5"),
        ({"model": "line.tflite"}, "expected a gpunn.Model, as gpunn.load.. returns it, got str"),
        ({"trainable": ["nothing"]}, "no operand 'nothing'"),
        ({"trainable": ["x"]}, "only float32 constants can be trained"),
        ({"trainable": ["w", "w"]}, "named twice"),
        ({"output": "z"}, "which one is the loss of"),
    ],
)
def test_trainers_that_cannot_be(change: dict[str, Any], match: str) -> None:
    stated = {"model": line(), "loss": "mean_squared_error", "optimizer": SGD, "trainable": ["w"]}
    with pytest.raises(gpunn.ModelError, match=match):
        gpunn.Trainer(**{**stated, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: gpunn.SGD(-1),
        lambda: gpunn.SGD(math.inf),
        lambda: gpunn.SGD(10**400),
        lambda: gpunn.SGD(True),
        lambda: gpunn.SGD(1, momentum=1),
        lambda: gpunn.Adam(1, beta1=1),
        lambda: gpunn.Adam(1, beta2=-0.1),
        lambda: gpunn.Adam(1, eps=-1),
    ],
)
def test_optimizers_out_of_range(make: Any) -> None:
    with pytest.raises(gpunn.ModelError, match="must be 0 or more"):
        make()


def test_states_of_variables_can_be_set(backend: str) -> None:
    """compiled.reset_state(values): what variables begin with instead."""
    model = Model()
    total = model.variable("total", float32(2))
    model.output(total)
    model.update(total, *model.add("add", [total, model.input("x", float32(2))]))
    with model.compile(backend) as compiled:
        values = np.array([5, 6], np.float32)
        compiled.reset_state({"total": values})
        compiled(np.ones(2, np.float32))
        assert compiled.variables()["total"].tolist() == [6, 7]
        assert values.tolist() == [5, 6]
        compiled.reset_state()
        assert compiled.variables()["total"].tolist() == [0, 0]
        with pytest.raises(gpunn.ModelError, match="has no variable 'sum'"):
            compiled.reset_state({"sum": values})
        with pytest.raises(gpunn.ModelError, match="variable 'total' should be"):
            compiled.reset_state({"total": values[:1]})


def test_states_in_a_worker_process_are_refused() -> None:
    model = Model()
    total = model.variable("total", float32(2))
    model.output(total)
    with (
        model.compile("cpu", isolate=True) as compiled,
        pytest.raises(gpunn.UnsupportedError, match="in a worker process begin with their initial values"),
    ):
        compiled.reset_state({"total": np.ones(2, np.float32)})


def test_a_trained_model_compares(gpu: str) -> None:
    with gpunn.Trainer(
        classifier(), loss="cross_entropy", optimizer=ADAM, trainable=WEIGHTS, backend=gpu
    ) as trainer:
        trainer.fit(batches())
        made = trainer.model()
    assert gpunn.compare(made, [batches()[0][0]]).ok
