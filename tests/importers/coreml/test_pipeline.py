"""Pipelines: models that run one after the other, joined by the names of their inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import Mock

import numpy as np
import pytest

import gpunn
from gpunn.importers.coreml import features
from gpunn.importers.coreml.messages import model_class
from tests.importers.coreml.builder import Message, image_model, layer, model
from tests.importers.coreml.test_read import classifier

X = np.array([-1, 2, 3], np.float32)
GREY, RGB, BGR = 10, 20, 30


def network(given: str, found: str, alpha: float = 2, beta: float = 0) -> Message:
    """A network that multiplies an array of 3 with a number, and adds a number."""
    made = model((3,), exact=True)
    made.description.input[0].name, made.description.output[0].name = given, found
    linear = layer(made, "activation", [given], [found]).linear
    linear.alpha, linear.beta = alpha, beta
    return made


def pipeline(models: Sequence[Message], given: Message, found: Message, kind: str = "pipeline") -> Message:
    """A pipeline of models, with the inputs of `given` and the outputs of `found`."""
    made = model_class()(specificationVersion=4)
    made.description.input.extend(given.description.input)
    made.description.output.extend(found.description.output)
    getattr(made, kind).SetInParent()
    inner = made.pipeline if kind == "pipeline" else getattr(made, kind).pipeline
    inner.models.extend(models)
    return made


def chain(*models: Message, kind: str = "pipeline") -> Message:
    """A pipeline with the inputs of the first model and the outputs of the last."""
    return pipeline(models, models[0], models[-1], kind)


def load(made: Message) -> gpunn.Model:
    return gpunn.load(made.SerializeToString())


def run(made: Message, x: np.ndarray = X, backend: str = "cpu") -> np.ndarray:
    with load(made).compile(backend) as compiled:
        found = compiled(x)
    assert isinstance(found, np.ndarray)
    return found


@pytest.mark.parametrize("kind", ["pipeline", "pipelineRegressor", "pipelineClassifier"])
def test_arrays_go_from_model_to_model(kind: str, backend: str) -> None:
    made = chain(network("x", "a", 2), network("a", "b", 1, 5), network("b", "y", -1), kind=kind)
    assert run(made, backend=backend).tolist() == [-3, -9, -11]


def test_names_of_layers_do_not_meet() -> None:
    first, second = network("x", "a"), network("a", "y", 3)
    for made in (first, second):  # both have a tensor "y", and only the last one is the output
        layer(made, "tanh", [made.description.input[0].name], ["z"])
    layer(first, "tanh", ["x"], ["y"])
    loaded = load(chain(first, second))
    assert [o.name for o in loaded.outputs] == ["y"]
    assert run(chain(first, second)).tolist() == [-6, 12, 18]


def test_an_output_takes_the_place_of_one_before() -> None:
    made = chain(network("x", "x", 2), network("x", "x", 3))
    for inner in made.pipeline.models:  # the layer may not overwrite its input
        inner.neuralNetwork.layers[0].output[0] = "t"
        inner.neuralNetwork.layers.add(name="c", input=["t"], output=["x"]).copy.SetInParent()
    loaded = load(made)
    assert [o.name for o in loaded.inputs] == [o.name for o in loaded.outputs] == ["x"]
    assert run(made).tolist() == [-6, 12, 18]


def test_a_later_model_reads_the_inputs_of_the_pipeline_and_of_any_model() -> None:
    last = network("x", "y", 1)
    last.description.input.add().CopyFrom(last.description.input[0])
    last.description.input[1].name = "a"
    del last.neuralNetwork.layers[:]
    layer(last, "addBroadcastable", ["x", "a"])
    middle = network("a", "b", 100)
    made = pipeline([network("x", "a", 10), middle, last], network("x", "a"), last)
    made.description.output.add().CopyFrom(middle.description.output[0])
    with load(made).compile("cpu") as compiled:
        found = compiled.run({"x": X})
    assert {name: y.tolist() for name, y in found.items()} == {"y": [-11, 22, 33], "b": [-1000, 2000, 3000]}


def test_an_optional_input_that_nothing_is_connected_with_has_its_default() -> None:
    second = network("a", "y")
    extra = second.description.input.add(name="extra")
    extra.type.isOptional = True
    extra.type.multiArrayType.shape.append(3)
    extra.type.multiArrayType.floatDefaultValue = 7
    del second.neuralNetwork.layers[:]
    layer(second, "addBroadcastable", ["a", "extra"])
    made = chain(network("x", "a", 1), second)
    assert [o.name for o in load(made).inputs] == ["x"]
    assert run(made).tolist() == [6, 9, 10]
    made.description.input.add().CopyFrom(extra)
    with load(made).compile("cpu") as compiled:
        assert compiled(X).tolist() == [6, 9, 10]
        assert compiled(X, X).tolist() == [-2, 4, 6]


@pytest.mark.parametrize("spaces", [(RGB, RGB), (RGB, BGR), (BGR, BGR), (GREY, GREY)])
def test_images_go_from_model_to_model_as_pixels(spaces: tuple[int, int], backend: str) -> None:
    first, second = (image_model(space) for space in spaces)
    first.description.output[0].name = "a"
    first.neuralNetwork.layers[0].output[0] = "a"
    first.neuralNetwork.layers[0].activation.linear.alpha = 1.25
    first.description.output[0].type.imageType.CopyFrom(first.description.input[0].type.imageType)
    second.description.input[0].name = "a"
    second.neuralNetwork.layers[0].input[0] = "a"
    channels = 1 if GREY in spaces else 3
    pixels = (np.arange(6 * channels, dtype=np.uint8) * 13).reshape(1, 3, 2, channels)
    between = np.minimum(np.floor(pixels * 1.25 + 0.5), 255)
    expected = between[0, ..., slice(None, None, -1 if spaces[1] == BGR else 1)].transpose(2, 0, 1)
    np.testing.assert_array_equal(run(chain(first, second), pixels, backend), expected)


def test_shapes_that_follow_from_values_pass_on_to_the_next_model(backend: str) -> None:
    first = network("x", "a")
    shape = first.description.input.add(name="shape")
    shape.type.multiArrayType.shape.append(2)
    del first.neuralNetwork.layers[:]
    layer(first, "reshapeDynamic", ["x", "shape"], ["a"])
    with load(chain(first, network("a", "y", 3))).compile(backend) as compiled:
        for target in ((1, 3), (3, 1)):
            assert np.array_equal(compiled(X, target), 3 * X.reshape(target))


def test_pipelines_lie_in_pipelines_up_to_a_depth() -> None:
    made = network("x", "y")
    for _ in range(16):
        made = chain(made)
    assert run(made).tolist() == [-2, 4, 6]
    with pytest.raises(gpunn.FormatError, match="is a pipeline in more than 16 others"):
        load(chain(made))


def test_a_pipeline_in_a_pipeline_sees_only_its_own_inputs() -> None:
    inner = pipeline([network("b", "y")], network("a", "y"), network("a", "y"))
    with pytest.raises(gpunn.FormatError, match="model 2, model 0: input 'b' is neither an input"):
        load(chain(network("x", "a"), network("a", "b"), inner))


def test_other_kinds_of_models_are_refused_by_name_and_place() -> None:
    made = chain(network("x", "a"), network("a", "b"), network("b", "y"))
    made.pipeline.names.extend(["net", "the scaler", "the nms"])
    for index, number in ((1, 604), (2, 610)):
        made.pipeline.models[index].ClearField("neuralNetwork")
        made.pipeline.models[index].MergeFromString(bytes([number << 3 & 0x7F | 0x82, number >> 4, 0]))
    with pytest.raises(gpunn.UnsupportedError) as caught:
        load(made)
    assert str(caught.value) == (
        "model: model 1 'the scaler': is a Core ML model of the kind scaler, not a neural network; "
        "model: model 2 'the nms': is a Core ML model of the kind nonMaximumSuppression, not a neural network"
    )


def test_all_that_is_refused_in_any_model_is_in_one_message() -> None:
    first, second = network("x", "a"), network("a", "y")
    layer(first, "custom", ["x"], ["b"])
    layer(second, "custom", ["a"], ["b"])
    places = "model 0: layer 1 'the custom', .*also model 1: layer 1"
    with pytest.raises(gpunn.UnsupportedError, match=places):
        load(chain(first, second))


def _nothing_inside(made: Message) -> None:
    del made.pipeline.models[:]


def _renamed(made: Message) -> None:
    made.pipeline.models[1].description.input[0].name = "b"


def _image_for_an_array(made: Message) -> None:
    made.pipeline.models[1].CopyFrom(image_model(RGB))
    made.pipeline.models[1].description.input[0].name = "a"


def _grey_for_colours(made: Message) -> None:
    for space, inner in zip((GREY, RGB), made.pipeline.models, strict=True):
        inner.CopyFrom(image_model(space))
    first, second = made.pipeline.models
    first.description.output[0].name = first.neuralNetwork.layers[0].output[0] = "a"
    first.description.output[0].type.imageType.colorSpace = GREY
    second.description.input[0].name = "a"
    made.description.input[0].CopyFrom(first.description.input[0])


def _other_output(made: Message) -> None:
    made.description.output[0].name = "z"


def _no_kind(made: Message) -> None:
    made.pipeline.models[0].ClearField("neuralNetwork")


CONTRADICTIONS = {
    "is a pipeline without models": _nothing_inside,
    "model 1: input 'b' is neither an input of the pipeline nor an output of a model before": _renamed,
    "model 1: input 'a' is an image with channels: 3, and <.*float32.* is of another": _image_for_an_array,
    "model 1: input 'a' is an image with channels: 3, and <.*uint8.* is of another type": _grey_for_colours,
    "output 'z' is neither an input of the pipeline nor an output of a model in it": _other_output,
    "model 0: is a Core ML model of no known kind": _no_kind,
}


@pytest.mark.parametrize("message", CONTRADICTIONS)
def test_pipelines_that_contradict_themselves(message: str) -> None:
    made = chain(network("x", "a"), network("a", "y"))
    CONTRADICTIONS[message](made)
    with pytest.raises(gpunn.FormatError, match=message):
        load(made)


def test_the_classifier_is_looked_for_once_for_all_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Mock(wraps=features.scores_of)
    monkeypatch.setattr(features, "scores_of", looked)
    made = chain(network("a", "x"), classifier(), kind="pipelineClassifier")
    load(made)
    few = looked.call_count
    for number in range(40):
        made.description.output.add(name=f"label {number}").type.stringType.SetInParent()
    load(made)
    assert looked.call_count == 2 * few
