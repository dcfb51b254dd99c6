"""Damaged and hostile .mlmodel files end in an error of gpunn's, at once."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import gpunn
from gpunn.importers.coreml.rules.table import RULES
from tests.importers.coreml.builder import (
    Message,
    floats,
    image_model,
    inner_product,
    layer,
    model,
    weights_of,
)
from tests.importers.coreml.mutation import damaged_contents, in_pipeline, survives
from tests.importers.coreml.test_package import package
from tests.importers.damage import damaged_bytes

ROUNDS = 150


def network() -> Message:
    """A specification with several layers and weights."""
    made = model((2, 6, 6))
    params = layer(made, "convolution", ["x"], ["a"])
    params.outputChannels, params.kernelChannels = 3, 2
    params.kernelSize.extend([3, 3])
    params.weights.floatValue.append(floats(range(54)))
    pool = layer(made, "pooling", ["a"], ["b"])
    pool.kernelSize.extend([2, 2])
    pool.stride.extend([2, 2])
    layer(made, "softmax", ["b"], ["y"])
    return made


def classifier() -> Message:
    """A specification with an image, preprocessing, an optional input, a state and labels."""
    made = image_model(20, 6, 6)
    made.neuralNetworkClassifier.SetInParent()
    made.neuralNetworkClassifier.preprocessing.add(featureName="x").scaler.channelScale = 2
    extra = made.description.input.add(name="state").type
    extra.isOptional = True
    extra.multiArrayType.shape.extend([4, 6, 6])
    network = made.neuralNetworkClassifier
    layer_ = network.layers.add(name="p", input=["x", "state"], output=["p"])
    layer_.concat.SetInParent()
    network.stringClassLabels.vector.extend(["cat", "dog"])
    made.description.output[0].name = "label"
    made.description.output[0].type.stringType.SetInParent()
    made.description.output.add(name="probs").type.dictionaryType.SetInParent()
    return made


def pipeline() -> Message:
    """A pipeline of two networks and a pipeline."""
    last = network()
    last.description.input[0].name = last.neuralNetwork.layers[0].input[0] = "y"
    last.description.output[0].name = last.neuralNetwork.layers[2].output[0] = "z"
    del last.description.input[0].type.multiArrayType.shape[:]
    last.description.input[0].type.multiArrayType.shape.extend([3, 2, 2])
    del last.neuralNetwork.layers[0:2]
    last.neuralNetwork.layers[0].input[0] = "y"
    return in_pipeline([in_pipeline([network()]), last])


SAMPLES = pytest.mark.parametrize("sample", [network, classifier, pipeline])


@SAMPLES
def test_samples_are_sound(sample: Callable[[], Message]) -> None:
    assert gpunn.load(sample().SerializeToString()).outputs


@SAMPLES
def test_damaged_bytes(sample: Callable[[], Message]) -> None:
    data, random_ = sample().SerializeToString(), random.Random(7)
    assert len({survives(damaged_bytes(data, random_)) for _ in range(ROUNDS)}) > 1


@SAMPLES
def test_damaged_contents(sample: Callable[[], Message]) -> None:
    made, random_ = sample(), random.Random(7)
    assert len({survives(damaged_contents(made, random_)) for _ in range(ROUNDS)}) > 2


@SAMPLES
def test_truncated_files(sample: Callable[[], Message]) -> None:
    data = sample().SerializeToString()
    for length in range(len(data)):
        with pytest.raises(gpunn.GpunnError):
            gpunn.load(data[:length])


def test_damaged_packages(tmp_path: Path) -> None:
    folder = package(tmp_path / "net.mlpackage")
    manifest, random_ = (folder / "Manifest.json").read_bytes(), random.Random(7)
    for _ in range(ROUNDS):
        (folder / "Manifest.json").write_bytes(damaged_bytes(manifest, random_))
        try:
            gpunn.load(folder)
        except gpunn.FormatError as error:
            assert str(error).startswith("net.mlpackage: ")
            assert len(str(error)) < 1000


def _unpacked_and_packed(made: Message) -> None:
    weights = weights_of(made)
    weights.MergeFromString(b"\x0d\0\0\0\0")  # field 1 as a float of its own
    weights.floatValue.append(floats(range(11)))


CONTENTS: dict[str, tuple[Callable[[Message], object], str]] = {
    "count": (lambda m: weights_of(m).floatValue.append(floats(range(11))), "have 11 values, expected 12"),
    "bytes": (lambda m: weights_of(m).floatValue.append(b"12345"), "no whole number of floats"),
    "mixture": (_unpacked_and_packed, "floatValue is partly packed"),
    "half": (lambda m: weights_of(m).MergeFromString(b"\x12\x01a"), "no whole number of float16"),
    "none": (lambda m: None, "have 0 values, expected 12"),
    "several": (
        lambda m: weights_of(m).MergeFromString(b"\x12\x02aa\x0a\x04aaaa"),
        "several forms: floatValue, float16Value",
    ),
    "bits": (lambda m: weights_of(m).MergeFromString(b"\xf2\x01\x01a"), "quantised to 0 bits"),
    "huge": (lambda m: setattr(m.neuralNetwork.layers[0].innerProduct, "outputChannels", 2**63), "expected"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_weights_that_contradict_themselves(name: str) -> None:
    change, message = CONTENTS[name]
    made = inner_product()
    change(made)
    with pytest.raises(gpunn.FormatError, match=message):
        gpunn.load(made.SerializeToString())


def test_a_crop_to_a_size_without_a_width() -> None:
    made = model((2, 4, 4), exact=True)
    made.description.input.add(name="size").type.multiArrayType.shape.append(4)
    layer(made, "crop", ["x", "size"])
    with pytest.raises(gpunn.FormatError, match=r"second input with height and width, got shape \[4\]"):
        gpunn.load(made.SerializeToString())


def test_a_box_scale_that_is_no_number() -> None:
    made = model((1, 1, 2, 4, 4), exact=True)
    made.description.input.add(name="box").type.multiArrayType.shape.extend([3, 1, 4, 1, 1])
    layer(made, "cropResize", ["x", "box"]).spatialScale = float("inf")
    with pytest.raises(gpunn.FormatError, match="spatialScale is inf"):
        gpunn.load(made.SerializeToString())


def test_a_box_scale_beyond_float32_gives_no_warning() -> None:
    made = model((1, 1, 2, 4, 4), exact=True)
    made.description.input.add(name="box").type.multiArrayType.shape.extend([3, 1, 4, 1, 1])
    layer(made, "cropResize", ["x", "box"]).spatialScale = 3e38
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gpunn.load(made.SerializeToString())


def test_weights_without_elements_and_with_huge_extents() -> None:
    made = model((4,), exact=True)
    params = layer(made, "innerProduct", ["x"])
    params.inputChannels, params.outputChannels = 0, 2**63
    with pytest.raises(gpunn.FormatError, match="is too large"):
        gpunn.load(made.SerializeToString())


def test_a_split_without_outputs() -> None:
    made = model((2, 3), exact=True)
    layer(made, "splitND", ["x"], [])
    with pytest.raises(gpunn.FormatError, match="has no outputs"):
        gpunn.load(made.SerializeToString())


def test_names_that_lead_nowhere_or_twice() -> None:
    made = model()
    layer(made, "softmax", ["nothing"])
    with pytest.raises(gpunn.FormatError, match="input 'nothing' is computed by no layer before"):
        gpunn.load(made.SerializeToString())
    made = model()
    layer(made, "softmax", outputs=["x"])
    with pytest.raises(gpunn.FormatError, match="output 'x' is there already"):
        gpunn.load(made.SerializeToString())
    made = model()
    layer(made, "softmax", outputs=["z"])
    with pytest.raises(gpunn.FormatError, match="no layer computes 'y'"):
        gpunn.load(made.SerializeToString())


def test_all_refusals_are_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("gru", "custom"):
        monkeypatch.delitem(RULES, kind, raising=False)
    made = model()
    layer(made, "gru", outputs=["a"])
    layer(made, "softmax", ["a"], ["b"])
    layer(made, "custom", ["b"], ["y"])
    with pytest.raises(gpunn.UnsupportedError, match=r"0 'the gru', gru: .*2 'the custom', custom"):
        gpunn.load(made.SerializeToString())


@pytest.mark.parametrize("shape", [(), (0,), (-1,), (2**40,), (1,) * 9])
def test_inputs_of_impossible_shapes(shape: tuple[int, ...]) -> None:
    made = model(shape, exact=True)
    layer(made, "sin")
    with pytest.raises(gpunn.FormatError, match="input 'x' has"):
        gpunn.load(made.SerializeToString())


def test_deep_nesting_is_refused() -> None:
    data = b""
    for _ in range(1000):  # a loop in the body of a loop
        loop = b"\x22" + _length(data) + data
        layer_ = b"\xba\x26" + _length(loop) + loop
        data = b"\x0a" + _length(layer_) + layer_
    with pytest.raises(gpunn.FormatError, match="is no complete Core ML model"):
        gpunn.load(b"\x08\x01\x12\x00\xa2\x1f" + _length(data) + data)


def _length(data: bytes) -> bytes:
    length, found = len(data), b""
    while length > 127:
        found += bytes([length & 127 | 128])
        length >>= 7
    return found + bytes([length])


def test_choice_between_shapes_that_do_not_fit() -> None:
    made = model((3,), exact=True)
    made.description.input.add(name="z").type.multiArrayType.shape.append(4)
    layer(made, "whereBroadcastable", ["x", "x", "z"])
    with pytest.raises(gpunn.FormatError, match=r"shapes \[3\], \[3\], \[4\] cannot be broadcast"):
        gpunn.load(made.SerializeToString())


def test_weights_that_are_no_numbers_raise_no_warning() -> None:
    made = model((1, 1, 1))
    params = layer(made, "batchnorm")
    params.channels = 1
    for weights in (params.gamma, params.beta, params.mean, params.variance):
        weights.floatValue.append(b"\x01\x00\x80\x7f")  # a signalling NaN
    gpunn.load(made.SerializeToString())


@pytest.mark.parametrize("kind", ["cumSum", "oneHot", "topK"])
def test_a_number_of_no_elements(kind: str) -> None:
    made = model((2, 3), exact=True)
    made.neuralNetwork.layers.add(name="c", output=["e"]).loadConstantND.shape.append(0)
    layer(made, kind, ["x", "e"], ["y", "z"] if kind == "topK" else ["y"])
    with pytest.raises(gpunn.FormatError, match=r"input 1, .*has 0 entries, expected 1"):
        gpunn.load(made.SerializeToString())


@pytest.mark.parametrize(("groups", "each"), [(1, 2), (2, 4), (2, 1)])
def test_filters_that_do_not_fit_their_groups(groups: int, each: int) -> None:
    made = model((1, 4, 5, 5), exact=True)
    params = layer(made, "convolution")
    params.outputChannels, params.kernelChannels, params.nGroups = 4, each, groups
    params.kernelSize.extend([1, 1])
    params.weights.floatValue.append(floats(range(4 * each)))
    with pytest.raises(gpunn.FormatError, match=f"filters of {each} channels in {groups} groups"):
        gpunn.load(made.SerializeToString())


def test_many_steps_for_many_images() -> None:
    made = image_model(10)
    for k in range(80):
        image = made.description.input.add(name=f"i{k}").type.imageType
        image.width, image.height, image.colorSpace = 1, 1, 10
        made.neuralNetwork.preprocessing.add().scaler.channelScale = 2
    with pytest.raises(gpunn.FormatError, match="80 steps of preprocessing for each of 81 images"):
        gpunn.load(made.SerializeToString())
