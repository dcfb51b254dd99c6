"""What the reader makes of inputs, outputs and weights."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import gpunn
from gpunn.importers.coreml.messages import model_class
from gpunn.types import DType
from tests.importers.coreml.builder import (
    Message,
    floats,
    image_model,
    inner_product,
    layer,
    model,
    weights_of,
)

X = np.arange(4, dtype=np.float32)


def product(made: Message) -> np.ndarray:
    """What an inner product gives for X."""
    with gpunn.load(made.SerializeToString()).compile("cpu") as compiled:
        return compiled(X)


def test_five_axes_are_hidden_from_callers() -> None:
    made = model((2, 3, 4))
    layer(made, "activation").ReLU.SetInParent()
    loaded = gpunn.load(made.SerializeToString())
    assert loaded.outputs[0].type.shape == (2, 3, 4)
    assert loaded.operations[-1].inputs[0].type.shape == (1, 1, 2, 3, 4)
    batch = loaded.reshaped({"x": (5, 2, 3, 4)})
    assert batch.outputs[0].type.shape == (1, 5, 2, 3, 4)
    with pytest.raises(gpunn.ModelError, match=r"declared shape \[2, 3, 4\] cannot have the shape \[7\]"):
        loaded.reshaped({"x": (7,)})


def test_sequences_of_vectors() -> None:
    made = model((3,))
    layer(made, "activation").ReLU.SetInParent()
    loaded = gpunn.load(made.SerializeToString())
    assert loaded.outputs[0].type.shape == (3,)
    assert loaded.reshaped({"x": (6, 2, 3)}).outputs[0].type.shape == (6, 2, 3, 1, 1)


def test_a_new_layer_type_means_tensors_of_any_rank() -> None:
    made = model((3,))
    layer(made, "sin")
    assert [o.type.shape for o in gpunn.load(made.SerializeToString()).operations[0].inputs] == [(3,)]


@pytest.mark.parametrize(("space", "channels"), [(10, 1), (20, 3), (30, 3)])
def test_images_are_bytes_and_bgr_is_turned(space: int, channels: int) -> None:
    made = image_model(space)
    scaler = made.neuralNetwork.preprocessing.add(featureName="x").scaler
    scaler.channelScale, scaler.blueBias, scaler.redBias, scaler.grayBias = 2, 1, 3, 4
    loaded = gpunn.load(made.SerializeToString())
    assert loaded.inputs[0].type.dtype is DType.UINT8
    pixels = np.arange(6 * channels, dtype=np.uint8).reshape(1, 3, 2, channels)
    with loaded.compile("cpu") as compiled:
        got = compiled(pixels)
    bias = {10: [4], 20: [3, 0, 1], 30: [1, 0, 3]}[space]
    order = slice(None, None, -1 if space == 30 else 1)
    expected = 2.0 * pixels[0, ..., order].transpose(2, 0, 1) + np.reshape(bias, (-1, 1, 1))
    np.testing.assert_array_equal(got, expected)


def test_a_scale_that_is_not_set_is_zero() -> None:
    made = image_model(20)
    made.neuralNetwork.preprocessing.add().scaler.SetInParent()
    with gpunn.load(made.SerializeToString()).compile("cpu") as compiled:
        assert not compiled(np.full((1, 3, 2, 3), 9, np.uint8)).any()


@pytest.mark.parametrize("scale", [2.0**-140, 2.0**-20, 1000.0])
def test_a_scale_may_be_of_any_size(scale: float) -> None:
    """The bias divided by the first one is not a float32."""
    made = image_model(10)
    scaler = made.neuralNetwork.preprocessing.add().scaler
    scaler.channelScale, scaler.grayBias = scale, -3
    with gpunn.load(made.SerializeToString()).compile("cpu") as compiled:
        got = compiled(np.full((1, 3, 2, 1), 200, np.uint8))
    np.testing.assert_allclose(got, 200 * scale - 3, rtol=3e-7)


def optional(default: float | None = None) -> Message:
    """A specification that adds the optional input "a" to "x"; "a" is described first."""
    made = model((3,), exact=True)
    (x,) = made.description.input
    extra = made.description.input.add(name="a")
    extra.type.isOptional = True
    extra.type.multiArrayType.shape.append(3)
    if default is not None:
        extra.type.multiArrayType.floatDefaultValue = default
    made.description.input.add().CopyFrom(x)
    del made.description.input[0]
    layer(made, "addBroadcastable", ["x", "a"])
    return made


@pytest.mark.parametrize("default", [None, 5])
def test_optional_inputs_may_be_left_out(default: float | None, backend: str) -> None:
    loaded = gpunn.load(optional(default).SerializeToString())
    assert [o.name for o in loaded.inputs] == ["x", "a"]  # those that must be given come first
    one = np.ones(3, np.float32)
    with loaded.compile(backend) as compiled:
        left_out = [1 + (default or 0)] * 3
        assert compiled(one).tolist() == left_out
        assert compiled(one, None).tolist() == left_out
        assert compiled.run({"x": one})["y"].tolist() == left_out
        assert compiled.run({"x": one, "a": 2 * one})["y"].tolist() == [3, 3, 3]
        assert compiled(one, 3 * one).tolist() == [4, 4, 4]
        assert [y.tolist() for y in compiled.stream([one, (one, one)])] == [left_out, [2, 2, 2]]
        for wrong in ({"a": one}, {}, {"x": one, "b": one}):
            with pytest.raises(gpunn.ModelError, match=r"the model's inputs are \['x', 'a'\], got"):
                compiled.run(wrong)
        with pytest.raises(gpunn.ModelError, match="the model takes 2 inputs, got 0"):
            compiled()


def test_an_optional_input_keeps_its_default_with_other_shapes() -> None:
    made = optional(5)
    made.description.input[1].type.multiArrayType.ClearField("shape")
    made.description.input[1].type.multiArrayType.shape.extend((2, 3))
    loaded = gpunn.load(made.SerializeToString()).reshaped({"x": (1, 3), "a": (4, 3)})
    with loaded.compile("cpu") as compiled:
        assert compiled(np.ones((1, 3), np.float32)).tolist() == [[6, 6, 6]] * 4


def test_array_inputs_take_the_numbers_of_numpy() -> None:
    made = model((3,), exact=True)
    layer(made, "activation").linear.alpha = 2
    with gpunn.load(made.SerializeToString()).compile("cpu") as compiled:
        for given in ([1, 2, 3], np.array([1, 2, 3], np.int64), np.array([1, 2, 3], np.uint8), [1.0, 2, 3]):
            assert compiled(given).tolist() == [2, 4, 6]
        assert compiled([0.1, 1e300, 0])[0] == np.float32(0.1) * 2
        with pytest.raises(gpunn.ModelError, match="got int64, whose values it cannot hold"):
            compiled([1, 2, 2**24 + 1])
        with pytest.raises(gpunn.ModelError, match="input 'x' must be float32, got complex128"):
            compiled([1, 2, 3j])


@pytest.mark.parametrize("kind", ["doubleType", "int64Type"])
def test_number_inputs_take_plain_numbers(kind: str) -> None:
    made = model()
    getattr(made.description.input[0].type, kind).SetInParent()
    layer(made, "activation").linear.alpha = 2
    with gpunn.load(made.SerializeToString()).compile("cpu") as compiled:
        assert compiled.run({"x": 3})["y"].tolist() == compiled.run({"x": [3.0]})["y"].tolist() == [6]


def test_an_output_that_is_a_tensor_is_no_copy_of_it() -> None:
    made = model((3,), exact=True)
    layer(made, "sin")
    loaded = gpunn.load(made.SerializeToString())
    assert [(o.op, o.outputs[0].name) for o in loaded.operations] == [("sin", "y")]
    made = model((3,), exact=True)
    layer(made, "squeeze", ["x"], ["y"]).squeezeAll = True
    made.description.input[0].type.multiArrayType.shape[:] = [1]
    loaded = gpunn.load(made.SerializeToString())
    assert [o.outputs[0].name for o in loaded.operations] == ["y (tensor)", "y"]
    assert loaded.outputs[0].type.shape == (1,)


@pytest.mark.parametrize(
    ("declared", "given"), [((), (2,)), ((2,), (2,)), ((2, 1, 1), (2, 1, 1)), ((3, 1, 1), (1, 1, 2, 1, 1))]
)
def test_the_declared_shape_decides_how_many_axes_an_output_has(
    declared: tuple[int, ...], given: tuple[int, ...]
) -> None:
    made = model((2, 1, 1))
    made.description.output[0].type.multiArrayType.shape.extend(declared)
    layer(made, "activation").ReLU.SetInParent()
    loaded = gpunn.load(made.SerializeToString())
    assert loaded.outputs[0].type.shape == given
    assert loaded.reshaped({"x": (4, 2, 1, 1)}).outputs[0].type.shape == (1, 4, 2, 1, 1)


@pytest.mark.parametrize("space", [10, 20, 30, 40])
def test_image_outputs_are_pixels(space: int, backend: str) -> None:
    made = image_model(space)
    made.description.output[0].type.imageType.colorSpace = space
    made.neuralNetwork.layers[0].activation.linear.alpha = 1.5
    loaded = gpunn.load(made.SerializeToString())
    dtype, shape = loaded.inputs[0].type.dtype.numpy, loaded.inputs[0].type.shape
    pixels = (np.arange(int(np.prod(shape))) * 19 % 256).astype(dtype).reshape(shape)
    with loaded.compile(backend) as compiled:
        got = compiled(pixels)
    assert got.dtype == dtype
    expected = pixels * 1.5 if space == 40 else np.minimum(np.floor(pixels * 1.5 + 0.5), 255)
    np.testing.assert_array_equal(got, expected)


def test_an_image_output_of_other_channels_is_refused() -> None:
    made = image_model(20)
    made.description.output[0].type.imageType.colorSpace = 10
    with pytest.raises(gpunn.FormatError, match="an image of 1 channels cannot be of the shape"):
        gpunn.load(made.SerializeToString())


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize("kind", ["stringType", "dictionaryType", "sequenceType"])
def test_features_that_are_no_arrays_are_refused_by_name(side: str, kind: str) -> None:
    made = model((3,), exact=True)
    layer(made, "sin")
    getattr(getattr(made.description, side)[0].type, kind).SetInParent()
    with pytest.raises(gpunn.UnsupportedError, match=f"{side} '[xy]' is of the type {kind}"):
        gpunn.load(made.SerializeToString())


def test_weights_in_all_forms() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    made = inner_product()
    data = floats(values)
    weights_of(made).floatValue.extend([data[:20], data[20:]])
    np.testing.assert_array_equal(product(made), values @ X)
    made = inner_product()
    weights_of(made).float16Value = values.astype("<f2").tobytes()
    np.testing.assert_array_equal(product(made), values @ X)
    made = inner_product()
    weights_of(made).int8RawValue = (-values).astype(np.int8).tobytes()
    weights_of(made).quantization.linearQuantization.scale.append(0.5)
    np.testing.assert_array_equal(product(made), -0.5 * values @ X)


@pytest.mark.parametrize("bits", range(1, 9))
def test_quantised_weights_are_a_stream_of_bits(bits: int) -> None:
    stored = (np.arange(12) * 37 % (1 << bits)).astype(np.uint8)
    stream = np.unpackbits(stored[:, None], axis=1)[:, 8 - bits :].reshape(-1)
    for table in (False, True):
        made = inner_product()
        weights_of(made).rawValue = np.packbits(stream).tobytes()
        quantization = weights_of(made).quantization
        quantization.numberOfBits = bits
        if table:
            entries = np.sin(np.arange(1 << bits, dtype=np.float32))
            quantization.lookupTableQuantization.floatValue.extend(entries)
            values = entries[stored].reshape(3, 4)
        else:
            quantization.linearQuantization.scale.extend([1, 2, 4])
            quantization.linearQuantization.bias.append(-3)
            values = stored.reshape(3, 4) * np.float32([[1], [2], [4]]) - 3
        np.testing.assert_allclose(product(made), values @ X, rtol=1e-6, atol=1e-5)


SCORES = np.array([0.25, 0.5, 0.25], np.float32)


def classifier(labels: list[str] | list[int] | None = None, *, dictionary: bool = False) -> Message:
    """A specification of a classifier that takes its input for the probabilities "p" of three classes."""
    made = model((3,), exact=True, kind="neuralNetworkClassifier")
    network = made.neuralNetworkClassifier
    network.layers.add(name="p", input=["x"], output=["p"]).activation.linear.alpha = 1
    labels = labels or ["cat", "dog", "eel"]
    numbers = isinstance(labels[0], int)
    vector = network.int64ClassLabels.vector if numbers else network.stringClassLabels.vector
    vector.extend(labels)
    (label,) = made.description.output
    label.name = made.description.predictedFeatureName = "label"
    getattr(label.type, "int64Type" if numbers else "stringType").SetInParent()
    if dictionary:
        made.description.output.add(name="probs").type.dictionaryType.SetInParent()
    return made


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("labels", [[7, 8, 2**40], ["cat", "dog", "eel"]])
def test_a_classifier_answers_by_the_names_of_its_classes(
    labels: list[int] | list[str], dictionary: bool, backend: str
) -> None:
    loaded = gpunn.load(classifier(labels, dictionary=dictionary).SerializeToString())
    name = "probs" if dictionary else "p"
    assert loaded.labels == tuple(map(str, labels))
    assert [o.name for o in loaded.outputs] == [name]
    with loaded.compile(backend) as compiled:
        assert compiled.run({"x": SCORES})[name].tolist() == SCORES.tolist()
        found = compiled.predict({"x": SCORES})
    assert found == {name: dict(zip(labels, SCORES.tolist(), strict=True)), "label": labels[1]}


def test_a_classifier_in_a_pipeline_answers_by_names() -> None:
    first = model((3,), exact=True)
    first.description.output[0].name = "x"
    first.neuralNetwork.layers.add(name="c", input=["x"], output=["x"]).copy.SetInParent()
    last = classifier(dictionary=True)
    last.description.predictedFeatureName = ""
    made = model_class()(specificationVersion=4)
    made.description.CopyFrom(last.description)
    made.pipelineClassifier.pipeline.models.extend([first, last])
    with gpunn.load(made.SerializeToString()).compile("cpu") as compiled:
        found = compiled.predict({"x": SCORES})
    assert found == {"probs": {"cat": 0.25, "dog": 0.5, "eel": 0.25}, "classLabel": "dog"}


def test_a_model_without_classes_predicts_arrays() -> None:
    made = model((3,), exact=True)
    layer(made, "tanh")
    with gpunn.load(made.SerializeToString()).compile("cpu") as compiled:
        assert compiled.predict({"x": X[:3]})["y"].tolist() == compiled(X[:3]).tolist()


def test_scores_that_are_not_one_for_each_label() -> None:
    made = classifier(["cat", "dog"])
    with gpunn.load(made.SerializeToString()).compile("cpu") as compiled:
        assert compiled.run({"x": SCORES})["p"].size == 3
        with pytest.raises(gpunn.ModelError, match="output 'p' has 3 scores, the model has 2 classes"):
            compiled.predict({"x": SCORES})


def test_a_shape_in_an_input_is_found_in_the_run(backend: str) -> None:
    made = model((6,), exact=True)
    shape = made.description.input.add(name="shape")
    shape.type.multiArrayType.shape.append(2)
    layer(made, "reshapeDynamic", ["x", "shape"], ["a"])
    layer(made, "sin", ["a"])
    loaded = gpunn.load(made.SerializeToString())
    assert [entry.op for entry in loaded.pending] == ["reshapeDynamic", "sin", "output"]
    x = np.arange(6, dtype=np.float32)
    with loaded.compile(backend) as compiled:
        for target in ((2, 3), (3, -1)):
            got = compiled(x, np.array(target, np.float32))
            np.testing.assert_allclose(got, np.sin(x).reshape(target), atol=1e-6)


def test_a_pickled_model_is_its_file() -> None:
    made = model((3,))
    layer(made, "activation").ReLU.SetInParent()
    loaded = gpunn.load(made.SerializeToString())
    again = pickle.loads(pickle.dumps(loaded.reshaped({"x": (6, 2, 3)})))
    assert again.outputs[0].type.shape == (6, 2, 3, 1, 1)
    with again.reshaped({"x": (3,)}).compile("cpu") as compiled:
        assert compiled([-1, 0, 2]).tolist() == [0, 0, 2]
