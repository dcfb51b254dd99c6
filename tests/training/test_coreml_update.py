"""update(): trainings worked by hand, files that are written, and refusals with their reasons."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.importers.coreml.updates import update_of
from gpunn.types import Array
from tests.importers.coreml import builder

Message = Any
X, TARGET = np.array([[1], [3]], np.float32), np.array([[0], [1]], np.float32)
HALF = np.array([[0.5, -1], [2, 0.25], [0, 1]], np.float32)


def updatable(made: Message, loss: str, kind: str = "neuralNetwork", size: int = 2) -> Message:
    """The specification, updated by SGD with one loss of y, in mini-batches of a size, in one epoch."""
    made.isUpdatable = True
    stated = getattr(made, kind).updateParams
    layer = getattr(stated.lossLayers.add(name="loss"), loss)
    layer.input, layer.target = "y", "wanted"
    optimizer = stated.optimizer.sgdOptimizer
    optimizer.learningRate.defaultValue, optimizer.learningRate.range.maxValue = 0.0625, 1
    optimizer.miniBatchSize.defaultValue = size
    optimizer.miniBatchSize.set.values.extend((1, size))
    stated.epochs.defaultValue = 1
    for name in ("x", "wanted"):
        made.description.trainingInput.add(name=name).type.multiArrayType.dataType = 65568
    return made


def weighted(made: Message, params: Message, **values: Array) -> Message:
    """Give the last layer of a model, which becomes updatable, weights and biases."""
    for name, value in values.items():
        getattr(params, name).floatValue.append(builder.floats(value.reshape(-1)))
        getattr(params, name).isUpdatable = True
    params.hasBias = "bias" in values
    made.neuralNetwork.layers[-1].isUpdatable = True
    return params


def line() -> Message:
    """y = w x with w = 1."""
    made = builder.model((1,), exact=True)
    params = builder.layer(made, "innerProduct")
    params.inputChannels = params.outputChannels = 1
    weighted(made, params, weights=np.ones(1, np.float32))
    return updatable(made, "meanSquaredErrorLossLayer")


def classifier() -> Message:
    """Softmax of an inner product of two inputs with three results."""
    made = builder.model((2,))
    params = builder.layer(made, "innerProduct", ["x"], ["z"])
    params.inputChannels, params.outputChannels = 2, 3
    weighted(made, params, weights=HALF, bias=np.zeros(3, np.float32))
    builder.layer(made, "softmax", ["z"], ["y"])
    return updatable(made, "categoricalCrossEntropyLossLayer")


def loaded(made: Message) -> gpunn.Model:
    return gpunn.load(made.SerializeToString())


def stored(model: gpunn.Model) -> list[Array]:
    """The updatable weights in the file of a model."""
    assert model.template is not None
    assert model.template.contents is not None
    return [w.value for w in update_of(model.template.contents()[0], "file").weights]


def test_an_update_by_hand(backend: str, tmp_path: Path) -> None:
    """The gradient of ((w - 0)^2 + (3w - 1)^2) / 2 is 10 w - 3: 7 for w = 1."""
    told: list[gpunn.Progress] = []
    model = loaded(line())
    updated = gpunn.update(
        model,
        {"x": X, "wanted": TARGET},
        on_progress=told.append,  # type: ignore[arg-type]
        backend=backend,
    )
    assert [(p.epoch, p.batch, p.loss) for p in told] == [(0, 0, 2.5)]
    assert stored(updated)[0].item() == 1 - 7 / 16
    assert stored(model)[0].item() == 1
    updated.save(tmp_path / "updated.mlmodel")
    again = gpunn.load(tmp_path / "updated.mlmodel")
    with again.compile(backend) as compiled:
        assert compiled(np.float32([2])).tolist() == [2 - 14 / 16]
    more = gpunn.update(again, {"x": X, "wanted": TARGET}, backend=backend)
    assert stored(more)[0].item() == 0.5625 - 2.625 / 16


def test_the_rest_of_the_file_stays() -> None:
    """Fields that the reader does not know are there, too; at a rate of 0 so are the weights."""
    made = classifier()
    data = made.SerializeToString() + b"\xfa\x3e\x03abc"  # field 1007
    updated = gpunn.update(
        gpunn.load(data),
        {"x": np.ones((3, 2), np.float32), "wanted": np.arange(3)},
        learning_rate=0.0,
        backend="cpu",
    )
    assert updated.template is not None
    assert updated.template.contents is not None
    assert updated.template.contents()[0] == data


def test_models_without_a_file_are_not_saved(tmp_path: Path) -> None:
    model = gpunn.Model()
    with pytest.raises(gpunn.UnsupportedError, match="is of no file"):
        model.save(tmp_path / "model.mlmodel")
    with pytest.raises(gpunn.UnsupportedError, match="is of no file"):
        gpunn.update(model, {})
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("groups", [1, 2])
def test_filters_go_back_in_the_order_of_the_file(groups: int) -> None:
    """The numbers 0 to 15 stay where they are if the rate is 0, also for a filter of each channel."""
    made = builder.model((2, 3, 3))
    params = builder.layer(made, "convolution")
    params.outputChannels, params.kernelChannels, params.nGroups = 2 * groups, 2 // groups, groups
    params.kernelSize.extend((2, 2))
    params.valid.SetInParent()
    weighted(made, params, weights=np.arange(16, dtype=np.float32))
    updatable(made, "meanSquaredErrorLossLayer")
    examples = {"x": np.ones((2, 2, 3, 3), np.float32), "wanted": np.ones((2, 2 * groups * 4), np.float32)}
    updated = gpunn.update(loaded(made), examples, learning_rate=0.0, backend="cpu")
    assert stored(updated)[0].reshape(-1).tolist() == [*range(16)]


def test_targets_may_be_names_of_classes() -> None:
    made = classifier()
    network = made.neuralNetwork
    made.neuralNetworkClassifier.MergeFromString(network.SerializeToString())
    made.neuralNetworkClassifier.stringClassLabels.vector.extend(("cat", "dog", "bird"))
    made.description.predictedFeatureName = "wanted"
    x = np.array([[1, 2], [3, -1]], np.float32)
    by_name = gpunn.update(loaded(made), {"x": x, "wanted": ["bird", "cat"]}, backend="cpu")
    by_number = gpunn.update(loaded(classifier()), {"x": x, "wanted": [2, 0]}, backend="cpu")
    for a, b in zip(stored(by_name), stored(by_number), strict=True):
        assert np.array_equal(a, b)
    with pytest.raises(gpunn.ModelError, match="'horse' is no class of the model"):
        gpunn.update(loaded(made), {"x": x, "wanted": ["bird", "horse"]}, backend="cpu")


def test_orders_follow_from_the_seed() -> None:
    examples = {"x": np.arange(8, dtype=np.float32).reshape(4, 2), "wanted": np.array([0, 1, 2, 0])}

    def trained(seed: int, shuffle: bool = True) -> Array:
        options: dict[str, Any] = {"seed": seed, "shuffle": shuffle, "mini_batch_size": 1, "epochs": 2}
        return stored(gpunn.update(loaded(classifier()), examples, **options, backend="cpu"))[0]

    assert np.array_equal(trained(1), trained(1))
    assert not np.array_equal(trained(1), trained(2))
    assert np.array_equal(trained(1, shuffle=False), trained(2, shuffle=False))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"learning_rate": 2.0}, "learningRate must be from 0 to 1, got 2"),
        ({"mini_batch_size": 3}, r"miniBatchSize must be one of \[1, 2\], got 3"),
        ({"learning_rate": "quick"}, "learningRate must be a number, got 'quick'"),
        ({"epochs": 0}, "epochs must be an integer of 1 or more, got 0"),
        ({"epochs": 1.5}, "epochs must be an integer of 1 or more, got 1.5"),
        ({"epochs": "3"}, "epochs must be a number, got '3'"),
        ({"seed": 1.5}, "seed must be an integer, got 1.5"),
        ({"shuffle": "no"}, "shuffle must be True or False, got 'no'"),
        ({"batches": {"x": X}}, r"examples are of \['wanted', 'x'\], got \['x'\]"),
        ({"batches": {"x": X, "wanted": TARGET[:1]}}, "one row for each example"),
        ({"batches": {"x": X[:0], "wanted": TARGET[:0]}}, "one row for each example"),
        ({"batches": {"x": X, "wanted": np.ones((2, 2))}}, "'wanted' must have 1 values for an example"),
        ({"batches": {"x": np.ones((2, 3)), "wanted": TARGET}}, "'x' must have 1 values for an example"),
    ],
)
def test_what_the_file_does_not_allow(options: dict[str, Any], match: str) -> None:
    stated = {"batches": {"x": X, "wanted": TARGET}, "backend": "cpu", **options}
    with pytest.raises(gpunn.ModelError, match=match):
        gpunn.update(loaded(line()), **stated)


def edit(change: Callable[[Message, Message], object]) -> Callable[[], Message]:
    """A classifier after a change of its specification and its network."""

    def made() -> Message:
        found = classifier()
        change(found, found.neuralNetwork)
        return found

    return made


REFUSALS: dict[str, Callable[[Message, Message], object]] = {
    "the model is not updatable": lambda m, n: setattr(m, "isUpdatable", False),
    "isUpdatable or updateParams is not set": lambda m, n: n.ClearField("updateParams"),
    "specification version 4 or more": lambda m, n: setattr(m, "specificationVersion", 3),
    "it has 2 loss layers, expected 1": lambda m, n: n.updateParams.lossLayers.add(name="other"),
    "neither cross entropy nor": lambda m, n: n.updateParams.lossLayers[0].ClearField(
        "categoricalCrossEntropyLossLayer"
    ),
    "it has no optimizer": lambda m, n: n.updateParams.ClearField("optimizer"),
    "no layer computes 'q'": lambda m, n: setattr(
        n.updateParams.lossLayers[0].categoricalCrossEntropyLossLayer, "input", "q"
    ),
    "the result of innerProduct, not of softmax": lambda m, n: setattr(
        n.updateParams.lossLayers[0].categoricalCrossEntropyLossLayer, "input", "z"
    ),
    "the target 'q' is no training input": lambda m, n: setattr(
        n.updateParams.lossLayers[0].categoricalCrossEntropyLossLayer, "target", "q"
    ),
    "none of its layers is": lambda m, n: setattr(n.layers[0], "isUpdatable", False),
    "softmax is updatable: only convolution and innerProduct": lambda m, n: setattr(
        n.layers[1], "isUpdatable", True
    ),
    "is updatable, its bias are not": lambda m, n: setattr(
        n.layers[0].innerProduct.bias, "isUpdatable", False
    ),
    "must be float32 or float16, not quantised": lambda m, n: setattr(
        n.layers[0].innerProduct.weights.quantization, "numberOfBits", 8
    ),
    "updatable bias must be float32 or float16": lambda m, n: setattr(
        n.layers[0].innerProduct.bias, "int8RawValue", b"abc"
    ),
    "the default of learningRate must be from 0 to 1, got 3": lambda m, n: setattr(
        n.updateParams.optimizer.sgdOptimizer.learningRate, "defaultValue", 3
    ),
    "epochs must be positive": lambda m, n: n.updateParams.ClearField("epochs"),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_files_that_cannot_be_updated(reason: str) -> None:
    """Such files are read and run; only an update refuses them."""
    data = edit(REFUSALS[reason])().SerializeToString()
    with pytest.raises((gpunn.FormatError, gpunn.UnsupportedError), match=reason):
        update_of(data, "file")


def test_layers_that_nothing_goes_back_through() -> None:
    made = classifier()
    network = made.neuralNetwork
    network.layers[1].input[0] = "u"
    builder.layer(made, "unary", ["z"], ["u"])
    network.layers.insert(1, network.layers.pop())
    with pytest.raises(gpunn.FormatError, match="layer 1 'the unary', unary is of the type unary: between"):
        update_of(made.SerializeToString(), "file")


def photos() -> Message:
    """A convolution and an inner product that tell three classes of photos of 6 by 5 pixels."""
    random, made = np.random.default_rng(0), builder.model()
    image = made.description.input[0].type.imageType
    image.height, image.width, image.colorSpace = 6, 5, 20
    params = builder.layer(made, "convolution", ["x"], ["c"])
    params.outputChannels, params.kernelChannels, params.nGroups = 4, 3, 1
    params.kernelSize.extend((3, 3))
    params.valid.SetInParent()
    filter = random.normal(size=(4, 3, 3, 3), scale=0.01).astype(np.float32)
    weighted(made, params, weights=filter, bias=np.zeros(4, np.float32))
    builder.layer(made, "activation", ["c"], ["r"]).ReLU.SetInParent()
    builder.layer(made, "flatten", ["r"], ["f"])
    params = builder.layer(made, "innerProduct", ["f"], ["z"])
    params.inputChannels, params.outputChannels = 48, 3
    weighted(
        made,
        params,
        weights=random.normal(size=(3, 48), scale=0.01).astype(np.float32),
        bias=np.zeros(3, np.float32),
    )
    builder.layer(made, "softmax", ["z"], ["y"])
    return updatable(made, "categoricalCrossEntropyLossLayer", size=4)


def test_photos_of_three_colours(backend: str) -> None:
    """Red, green and blue photos are told apart after some epochs, those of the last mini-batch as well."""
    pixels = np.repeat(np.eye(3, dtype=np.uint8)[:, None, None] * 200, 2, axis=0)
    x, wanted = np.broadcast_to(pixels, (6, 6, 5, 3)), np.array([0, 0, 1, 1, 2, 2])
    updated = gpunn.update(
        loaded(photos()), {"x": x, "wanted": wanted}, epochs=20, learning_rate=0.001, backend=backend
    )
    with updated.compile(backend) as compiled:
        assert [int(np.argmax(compiled(x[k : k + 1]))) for k in range(6)] == wanted.tolist()


def test_damaged_files_raise_errors_of_gpunn() -> None:
    data, random = classifier().SerializeToString(), np.random.default_rng(0)
    examples = {"x": np.ones((3, 2), np.float32), "wanted": np.arange(3)}
    refused = 0
    for _ in range(400):
        damaged = bytearray(data)
        damaged[random.integers(len(data))] = random.choice([0, 1, 127, 128, 255])
        try:
            gpunn.update(gpunn.load(bytes(damaged)), examples, epochs=1, backend="cpu")
        except gpunn.GpunnError:
            refused += 1
    assert 0 < refused < 400


def test_a_model_updates_itself_by_mini_batches(backend: str) -> None:
    """As gpunn.update() does with the same rows; as pairs, by name, and of a generator for one epoch."""
    x, wanted = np.array([[1, 2], [3, 1], [0, 1]], np.float32), np.array([0, 2, 1])
    model = loaded(classifier())
    expected = stored(gpunn.update(model, {"x": x, "wanted": wanted}, backend=backend))
    pairs: list[Any] = [(x[:2], wanted[:2]), ({"x": x[2:]}, wanted[2:])]
    named = [{"x": x[:2], "wanted": wanted[:2]}, {"x": x[2:], "wanted": wanted[2:]}]
    for batches in (pairs, named, iter(pairs), {"x": x, "wanted": wanted}):
        found = stored(model.update(batches, backend=backend))
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    told = list[gpunn.Progress]()
    model.update(pairs, epochs=2, learning_rate=0.0, on_progress=told.append, backend="cpu")  # type: ignore[arg-type]
    assert [(p.epoch, p.batch) for p in told] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    stopped = model.update(pairs, epochs=2, on_progress=lambda p: p.batch < 1, backend="cpu")
    assert not np.array_equal(stored(stopped)[0], stored(model)[0])
    again = model.update(pairs, backend="cpu").update(pairs, backend="cpu")
    assert not np.array_equal(stored(again)[0], expected[0])


@pytest.mark.parametrize(
    ("batches", "options", "match"),
    [
        ([], {}, "epoch 0 has no mini-batch"),
        ([np.ones(3)], {}, "a mini-batch is a mapping by name, or a pair"),
        ([(X, TARGET)], {"shuffle": True}, "leave out mini_batch_size, shuffle and seed"),
        ([(np.ones((3, 1)), np.ones((3, 1)))], {}, r"miniBatchSize must be one of \[1, 2\], got 3"),
        ([(X, TARGET[:1])], {}, "one row for each example"),
        (iter([(X, TARGET)]), {"epochs": 2}, "epoch 1 has no mini-batch"),
    ],
)
def test_mini_batches_that_do_not_fit(batches: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises(gpunn.ModelError, match=match):
        loaded(line()).update(batches, backend="cpu", **options)


def test_update_still_says_what_a_variable_takes() -> None:
    model = gpunn.Model()
    count = model.variable("count", gpunn.TensorType(gpunn.DType.FLOAT32, (1,)))
    (after,) = model.add("add", [count, model.constant("one", np.ones(1, np.float32))])
    model.update(variable=count, operand=after)
    model.output(after)
    with model.compile("cpu") as compiled:
        assert [compiled().item() for _ in range(2)] == [1, 2]
    with pytest.raises(gpunn.UnsupportedError, match=r"gpunn\.Trainer trains any model"):
        model.update([(X, TARGET)])
