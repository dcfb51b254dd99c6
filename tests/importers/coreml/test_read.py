"""What the reader makes of inputs, outputs and weights."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
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


def test_optional_inputs_have_their_default() -> None:
    made = model((3,), exact=True)
    extra = made.description.input.add(name="z")
    extra.type.isOptional = True
    extra.type.multiArrayType.shape.append(3)
    extra.type.multiArrayType.floatDefaultValue = 5
    layer(made, "addBroadcastable", ["x", "z"])
    loaded = gpunn.load(made.SerializeToString())
    assert [o.name for o in loaded.inputs] == ["x"]
    with loaded.compile("cpu") as compiled:
        assert compiled(np.zeros(3, np.float32)).tolist() == [5, 5, 5]


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


def test_class_labels_may_be_numbers() -> None:
    made = model((3,), exact=True, kind="neuralNetworkClassifier")
    network = made.neuralNetworkClassifier
    added = network.layers.add(name="p", input=["x"], output=["p"])
    added.softmaxND.axis = -1
    network.int64ClassLabels.vector.extend([7, 8, 9])
    made.description.output[0].name = "label"
    made.description.output[0].type.int64Type.SetInParent()
    made.description.predictedFeatureName = "label"
    loaded = gpunn.load(made.SerializeToString())
    assert loaded.labels == ("7", "8", "9")
    assert [o.name for o in loaded.outputs] == ["p"]


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
