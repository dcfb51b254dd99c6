"""update() of float16 weights, and of pipelines, whose last model is trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.importers.coreml.updates import update_of
from tests.importers.coreml import builder
from tests.importers.coreml.test_pipeline import chain, network
from tests.training.test_coreml_update import (
    HALF,
    TARGET,
    X,
    classifier,
    line,
    loaded,
    stored,
    updatable,
    weighted,
)

Message = Any


def halves(made: Message) -> Message:
    """The specification, with the weights of its first layer as float16."""
    weights = made.neuralNetwork.layers[0].innerProduct.weights
    values = np.frombuffer(b"".join(weights.floatValue), "<f4")
    weights.ClearField("floatValue")
    weights.float16Value = values.astype("<f2").tobytes()
    return made


def twice(made: Message, name: str = "front") -> Message:
    """A pipeline of a network that doubles the input, and a model; it is updatable like that."""
    shape = made.description.input[0].type.multiArrayType.shape
    front = network("in", "x", 2)
    front.description.input[0].type.multiArrayType.shape[:] = shape
    front.neuralNetwork.arrayInputShapeMapping = made.neuralNetwork.arrayInputShapeMapping
    whole = chain(front, made)
    whole.pipeline.names.extend((name, "back"))
    whole.isUpdatable = True
    for feature in ("in", "wanted"):
        whole.description.trainingInput.add(name=feature).type.multiArrayType.dataType = 65568
    return whole


def test_float16_weights_are_trained_as_float32_and_rounded(backend: str, tmp_path: Path) -> None:
    """The gradient is 7 for w = 1, see test_an_update_by_hand(): at a rate of 0.001 w becomes 0.993."""
    examples = {"x": X, "wanted": TARGET}
    updated = gpunn.update(loaded(halves(line())), examples, learning_rate=0.001, backend=backend)
    assert stored(updated)[0].item() == np.float16(0.993) != np.float32(0.993)
    updated.save(tmp_path / "updated.mlmodel")
    again = gpunn.load(tmp_path / "updated.mlmodel")
    with again.compile(backend) as compiled:
        assert compiled(np.float32([1])).tolist() == [np.float16(0.993)]
    made = line()
    made.ParseFromString((tmp_path / "updated.mlmodel").read_bytes())
    weights = made.neuralNetwork.layers[0].innerProduct.weights
    assert len(weights.float16Value) == 2
    assert not weights.floatValue
    assert weights.isUpdatable


def test_steps_in_between_are_not_rounded() -> None:
    """Five steps of 2^-13 each are less than float16 can add to 1 one by one."""
    made = halves(line())
    made.neuralNetwork.updateParams.epochs.defaultValue = 5
    still = np.array([[1]], np.float32)  # the gradient is 2 (w - 2): about -2
    updated = gpunn.update(
        loaded(made), {"x": still, "wanted": 2 * still}, learning_rate=2.0**-14, backend="cpu"
    )
    assert stored(updated)[0].item() == np.float16(1 + 5 * 2.0**-13) != 1


def test_float16_weights_that_overflow_are_refused() -> None:
    examples = {"x": 1000 * X, "wanted": TARGET}
    with pytest.raises(gpunn.UnsupportedError, match="float16 are now too large"):
        gpunn.update(loaded(halves(line())), examples, backend="cpu")


def test_a_pipeline_by_hand(backend: str, tmp_path: Path) -> None:
    """As test_an_update_by_hand(), with inputs that the first model doubles."""
    made = twice(line())
    model = loaded(made)
    updated = gpunn.update(model, {"in": X / 2, "wanted": TARGET}, backend=backend)
    assert stored(updated)[0].item() == 1 - 7 / 16
    updated.save(tmp_path / "updated.mlmodel")
    again = gpunn.load(tmp_path / "updated.mlmodel")
    with again.compile(backend) as compiled:
        assert compiled(np.float32([1])).tolist() == [2 - 14 / 16]
    more = gpunn.update(again, {"in": X / 2, "wanted": TARGET}, backend=backend)
    assert stored(more)[0].item() == 0.5625 - 2.625 / 16
    weights = made.pipeline.models[1].neuralNetwork.layers[0].innerProduct.weights
    weights.floatValue[:] = [builder.floats([0.5625])]
    assert made.FromString((tmp_path / "updated.mlmodel").read_bytes()) == made


@pytest.mark.parametrize("name", ["", "a: layer 0 'b' c"])
def test_a_classifier_behind_a_network(name: str) -> None:
    """In mini-batches of several rows, with a softmax; the network alone learns the same."""
    x, wanted = np.array([[1, 2], [3, -1], [0, 1]], np.float32), np.array([2, 0, 1])
    alone = gpunn.update(loaded(classifier()), {"x": x, "wanted": wanted}, backend="cpu")
    behind = gpunn.update(loaded(twice(classifier(), name)), {"in": x / 2, "wanted": wanted}, backend="cpu")
    assert not np.array_equal(stored(alone)[0], HALF.reshape(3, 2))
    for a, b in zip(stored(alone), stored(behind), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("exact", [False, True])
def test_rows_go_through_all_models(exact: bool) -> None:
    """A mini-batch of images: a convolution in the first model, a product in the second."""
    random, batch = np.random.default_rng(0), (1,) if exact else ()
    filter, weights = random.normal(size=(4, 2, 3, 3)), random.normal(size=(3, 8))
    front = builder.model((*batch, 2, 3, 4), exact=exact)
    front.description.input[0].name, front.description.output[0].name = "in", "x"
    params = builder.layer(front, "convolution", ["in"], ["c"])
    params.outputChannels, params.kernelChannels, params.nGroups = 4, 2, 1
    params.kernelSize.extend((3, 3))
    params.valid.SetInParent()
    params.weights.floatValue.append(builder.floats(filter))
    flat = builder.layer(front, "flattenTo2D" if exact else "flatten", ["c"], ["x"])
    if exact:
        flat.axis = 1
    back = builder.model((*batch, 8), exact=exact)
    params = builder.layer(back, "innerProduct")
    params.inputChannels, params.outputChannels = 8, 3
    weighted(back, params, weights=weights.astype(np.float32))
    whole = chain(front, updatable(back, "meanSquaredErrorLossLayer", size=4))
    whole.isUpdatable = True
    x, wanted = random.normal(size=(4, 2, 3, 4)), random.normal(size=(4, 3))
    examples = {"in": x.astype(np.float32), "wanted": wanted.astype(np.float32)}
    updated = gpunn.update(loaded(whole), examples, backend="cpu")
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    found = np.einsum("nchwij,ocij->nohw", windows, filter).reshape(4, 8)
    gradient = 2 / wanted.size * (found @ weights.T - wanted).T @ found
    np.testing.assert_allclose(stored(updated)[0], weights - 0.0625 * gradient, rtol=1e-4, atol=1e-5)


def test_a_pipeline_in_a_pipeline() -> None:
    inner = twice(line())
    inner.description.input[0].name = "outer"
    inner.pipeline.models[0].description.input[0].name = "outer"
    inner.pipeline.models[0].neuralNetwork.layers[0].input[0] = "outer"
    first = network("in", "outer", 0.5)
    first.description.input[0].type.multiArrayType.shape[:] = [1]
    whole = chain(first, inner)
    whole.isUpdatable = True
    updated = gpunn.update(loaded(whole), {"in": X, "wanted": TARGET}, backend="cpu")
    assert stored(updated)[0].item() == 1 - 7 / 16


REFUSALS: dict[str, Callable[[Message], object]] = {
    "the model is not updatable": lambda m: setattr(m, "isUpdatable", False),
    "model 1 'back': the model is not updatable": lambda m: setattr(
        m.pipeline.models[1], "isUpdatable", False
    ),
    "model 1 'back': the model is not updatable: isUpdatable or updateParams": lambda m: m.pipeline.models[
        1
    ].neuralNetwork.ClearField("updateParams"),
    "model 0 'front': it is updatable: only the last": lambda m: setattr(
        m.pipeline.models[0], "isUpdatable", True
    ),
    "specification version 4": lambda m: setattr(m, "specificationVersion", 3),
    "model 1 'back': it has no optimizer": lambda m: m.pipeline.models[
        1
    ].neuralNetwork.updateParams.ClearField("optimizer"),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_pipelines_that_cannot_be_updated(reason: str) -> None:
    made = twice(line())
    REFUSALS[reason](made)
    with pytest.raises((gpunn.FormatError, gpunn.UnsupportedError), match=reason):
        update_of(made.SerializeToString(), "file")
