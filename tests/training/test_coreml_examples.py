"""update(): the examples that it takes, in the shapes of the network, and those that it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.types import Shape
from tests.importers.coreml import builder
from tests.training.test_coreml_update import X, classifier, line, loaded, stored, updatable, weighted

ROWS, RATE = 4, 0.0625


@pytest.mark.parametrize(
    ("declared", "each", "exact"),
    [
        ((1, 3, 3), (1, 3, 3), False),
        ((2, 3, 3), (2, 3, 3), False),
        ((1, 1, 2, 3, 3), (2, 3, 3), False),
        ((1, 1, 2, 3, 3), (2, 3, 3), True),
        ((1, 1, 4, 1, 1), (4,), False),
    ],
)
def test_mini_batches_of_images(declared: Shape, each: Shape, exact: bool, backend: str) -> None:
    """A step of an inner product of all elements, by hand: images of one channel are no batch of one."""
    random, size = np.random.default_rng(0), math.prod(each)
    made = builder.model(declared, exact=exact)
    builder.layer(made, "flatten", ["x"], ["f"])
    params = builder.layer(made, "innerProduct", ["f"], ["y"])
    params.inputChannels, params.outputChannels = size, 3
    before = random.normal(size=(3, size)).astype(np.float32)
    weighted(made, params, weights=before)
    model = loaded(updatable(made, "meanSquaredErrorLossLayer", size=ROWS))
    x = random.normal(size=(ROWS, *each)).astype(np.float32)
    target = random.normal(size=(ROWS, 3)).astype(np.float32)
    (found,) = stored(model.update({"x": x, "wanted": target}, backend=backend))
    flat = x.reshape(ROWS, size).astype(np.float64)
    error = flat @ before.T.astype(np.float64) - target
    expected = before - RATE * 2 / error.size * error.T @ flat
    # Each gradient is a sum of ROWS products of sums of `size` products, each rounded.
    atol = 2**-24 * (size + ROWS + 2) * RATE * np.abs(error).max() * np.abs(flat).max()
    np.testing.assert_allclose(found.reshape(3, size), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("named", [True, False])
def test_optional_inputs_may_be_left_out(named: bool) -> None:
    made = builder.model((1,), exact=True)
    more = made.description.input.add(name="o")
    more.type.multiArrayType.shape.append(1)
    more.type.multiArrayType.dataType, more.type.multiArrayType.floatDefaultValue = 65568, 2
    more.type.isOptional = True
    builder.layer(made, "addBroadcastable", ["x", "o"], ["h"])
    params = builder.layer(made, "innerProduct", ["h"], ["y"])
    params.inputChannels = params.outputChannels = 1
    weighted(made, params, weights=np.ones(1, np.float32))
    model = loaded(updatable(made, "meanSquaredErrorLossLayer"))
    target = np.array([[0], [1]], np.float32)
    given = np.full((2, 1), 2, np.float32)
    expected = stored(model.update({"x": X, "o": given, "wanted": target}, backend="cpu"))
    examples: Any = {"x": X, "wanted": target}
    assert stored(model.update(examples if named else [({"x": X}, target)], backend="cpu")) == expected
    (weight,) = (i for o in model.operations for i in o.inputs if i is not None and i.value is not None)
    chosen: dict[str, Any] = {"loss": "mean_squared_error", "optimizer": gpunn.SGD(0.5), "backend": "cpu"}
    with gpunn.Trainer(model, trainable=[weight], **chosen) as trainer:
        losses = [trainer.step(inputs, target[0]) for inputs in ({"x": X[0], "o": given[0]}, {"x": X[0]})]
    assert losses[0] == 9 and losses[1] != losses[0], "(1 + 2) * 1, squared, and after a step"


def named_classes() -> Any:
    """The classifier with names of its classes, which the target is, too."""
    made = classifier()
    made.neuralNetworkClassifier.MergeFromString(made.neuralNetwork.SerializeToString())
    made.neuralNetworkClassifier.stringClassLabels.vector.extend(("cat", "dog", "bird"))
    made.description.predictedFeatureName = "wanted"
    return made


BAD: dict[str, tuple[Any, Any]] = {
    "must be numbers, got <U1": (line, ["a", "b"]),
    "must be numbers, got complex128": (line, [1j, 2]),
    "must be numbers, got object": (line, [{}, {}]),
    "'wanted' must be numbers of classes": (classifier, [0.5, 1]),
    "cannot be made an array": (classifier, [[1, 2], [3]]),
    "must have one class for an example, got": (named_classes, [["cat", "dog"], ["dog", "cat"]]),
    "'cow' is no class of the model": (named_classes, [["cat"], ["cow"]]),
}


@pytest.mark.parametrize("match", BAD)
def test_targets_that_do_not_fit(match: str) -> None:
    make, target = BAD[match]
    x = X if make is line else np.ones((2, 2), np.float32)
    with pytest.raises(gpunn.ModelError, match=match):
        loaded(make()).update({"x": x, "wanted": target}, backend="cpu")


def test_names_of_classes_may_be_a_column() -> None:
    x = np.ones((2, 2), np.float32)
    column, row = (
        stored(loaded(named_classes()).update({"x": x, "wanted": labels}, backend="cpu"))
        for labels in ([["cat"], ["bird"]], ["cat", "bird"])
    )
    assert all(np.array_equal(a, b) for a, b in zip(column, row, strict=True))


@pytest.mark.parametrize("batches", [None, 5])
def test_what_is_no_list_of_mini_batches(batches: Any) -> None:
    with pytest.raises(gpunn.ModelError, match="must be a mapping by name or an iterable, got"):
        loaded(line()).update(batches, backend="cpu")


def test_inputs_that_do_not_fit() -> None:
    with pytest.raises(gpunn.ModelError, match="input 'x' cannot be made an array"):
        loaded(line()).update({"x": [[1], [2, 3]], "wanted": X}, backend="cpu")
    with pytest.raises(gpunn.ModelError, match=r"examples are of \['wanted', 'x'\], got \['5', 'x'\]"):
        loaded(line()).update({"x": X, 5: X}, backend="cpu")  # type: ignore[dict-item]
