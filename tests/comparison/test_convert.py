"""The same model from files of two formats: photos, pixels and arrays, each in the form of its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gpunn
from gpunn import vision
from gpunn.comparison.convert import arranged
from gpunn.types import DType, Quantization, TensorType
from tests.importers.coreml import twins
from tests.resources import shared

SCALE = {"mean": twins.MEAN, "std": twins.STD}


@pytest.mark.parametrize(
    ("have", "want", "axes"),
    [
        ((3, 4, 5), (1, 4, 5, 3), (1, 2, 0)),
        ((1, 4, 5, 3), (3, 4, 5), (0, 3, 1, 2)),
        ((2, 3, 4, 5), (2, 4, 5, 3), (0, 2, 3, 1)),
        ((2, 4, 5, 3), (2, 3, 4, 5), (0, 3, 1, 2)),
        ((4, 4, 5), (1, 4, 5, 4), (1, 2, 0)),
        ((1, 4, 5, 4), (4, 4, 5), (0, 3, 1, 2)),
        ((3, 2, 4, 5), (1, 2, 4, 5, 3), (1, 2, 3, 0)),
        ((4, 5), (5, 4), (0, 1)),  # two axes may also be numbered differently
        ((1, 4, 5), (20,), (0, 1, 2)),
        ((3, 3, 3), (1, 3, 3, 3), (0, 1, 2)),
    ],
)
def test_channels_move_if_shapes_say_so(
    have: tuple[int, ...], want: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    x = np.arange(np.prod(have)).reshape(have)
    np.testing.assert_array_equal(arranged(x, want), x.transpose(axes).reshape(want))


@pytest.mark.parametrize(
    ("type", "mean", "std"),
    [
        (TensorType(DType.FLOAT32, (1, 16, 16, 1)), 127.5, 127.5),
        (TensorType(DType.FLOAT32, (1, 16, 16, 1)), 0, -3),
        (TensorType(DType.INT8, (1, 16, 16, 1), Quantization((0.5,), (3,))), None, None),
        (TensorType(DType.UINT8, (1, 16, 16, 1), Quantization((1.0,), (0,))), None, None),
    ],
)
def test_pixels_are_recovered_from_values(type: TensorType, mean: float | None, std: float | None) -> None:
    taken = vision.PhotoInput(type, mean, std)
    pixels = np.arange(256, dtype=np.uint8).reshape(type.shape)
    np.testing.assert_array_equal(taken.pixels(taken.stored(pixels)), pixels)


def test_other_values_give_no_pixels() -> None:
    taken = vision.PhotoInput(TensorType(DType.FLOAT32, (1, 1, 2, 1)), 0, 1)
    for wrong in (0.5, -1, 256, np.nan):
        with pytest.raises(gpunn.ModelError, match="no pixels 0 to 255, less mean 0"):
            taken.pixels(np.float32([[1, wrong]]))


@pytest.mark.parametrize("first", ["mlmodel", "tflite"])
@pytest.mark.parametrize("inputs", ["photo", "random", "arrays"])
def test_two_formats_agree(first: str, inputs: str, tmp_path: Path) -> None:
    files = [twins.mlmodel(), twins.tflite()]
    if first == "tflite":
        files.reverse()
    given: object = 3
    if inputs == "photo":
        pixels = np.random.default_rng(1).integers(0, 256, (20, 30, 3), np.uint8)
        given = tmp_path / "photo.png"
        Image.fromarray(pixels).save(given)
    elif inputs == "arrays":
        pixels = np.random.default_rng(1).integers(0, 256, (1, twins.HEIGHT, twins.WIDTH, 3), np.uint8)
        given = [pixels if first == "mlmodel" else (pixels / np.float32(twins.STD) - 1).astype(np.float32)]
    found = gpunn.compare(files[0], given, ["cpu"], other=files[1], **SCALE, per_layer=True)
    assert found.ok
    pair = found.pair("model")
    assert pair.outputs[0].metrics.max_abs_error < 1e-7  # the scale 1 / 127.5 is a float32 in one file
    assert pair.agreement is not None and pair.agreement.top1 == 1
    assert {guess.label for guess in found.answers[0].guesses["cpu"]} == set(twins.LABELS)
    ops = {layer.name: layer.op for layer in found.layers}
    assert [ops[p.name] for p in found.layer_pairs][-1] == "softmax"
    assert all(p.metrics.max_abs_error < 1e-5 for p in found.layer_pairs)


@pytest.mark.parametrize("first", ["mlmodel", "tflite"])
def test_optional_inputs_have_their_defaults(first: str, tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    Image.new("RGB", (9, 9), "teal").save(photo)
    for optional, apart in ((0.0, 0.0), (0.25, 0.25)):
        files = [twins.mlmodel(optional=optional), twins.tflite()]
        if first == "tflite":
            files.reverse()
        for inputs in (photo, 2):
            found = gpunn.compare(files[0], inputs, ["cpu"], other=files[1], **SCALE)
            error = found.pair("model").outputs[0].metrics.max_abs_error
            assert error == pytest.approx(apart, abs=1e-6)


def test_scales_of_two_files_may_be_arrays() -> None:
    ours, theirs = twins.mlmodel(), twins.tflite()
    wanted = gpunn.compare(ours, 2, ["cpu"], other=theirs, **SCALE).pair("model").outputs[0]
    mean, std = np.full(3, twins.MEAN), [twins.STD] * 3
    found = gpunn.compare(ours, 2, ["cpu"], other=theirs, mean=mean, std=std).pair("model").outputs[0]
    assert found.metrics == wanted.metrics


def test_other_weights_are_found() -> None:
    found = gpunn.compare(twins.mlmodel(), 2, ["cpu"], other=twins.tflite(seed=1), **SCALE)
    assert not found.ok
    assert "of model against cpu64" in found.findings[0].text


def test_channels_first_against_channels_last() -> None:
    ours, theirs = twins.mlmodel(photos=False, classes=False), twins.tflite(classes=False)
    for files in ((ours, theirs), (theirs, ours)):
        found = gpunn.compare(files[0], 2, [], other=files[1])
        assert found.pairs[0].outputs[0].metrics.max_abs_error < 1e-12
        assert found.pairs[0].outputs[0].metrics.max_abs_error is not None and found.ok


def test_mean_and_std_are_refused_for_a_model_that_scales_photos() -> None:
    model = gpunn.load(twins.mlmodel())
    with pytest.raises(gpunn.ModelError, match="scales them itself: leave out mean and std"):
        vision.photo_input(model, 127.5, 127.5)
    assert vision.photo_input(model, 0, 1).stored(np.uint8([7])).tolist() == [7]


def test_mobilenet_is_the_same_in_both_formats() -> None:
    """The float MobileNet v1 of ../shared has the same weights in both formats: all bits are equal."""
    ours, theirs = (shared(f"models/{name}") for name in FILES)
    photo = shared("models/images/cat.bmp")
    found = gpunn.compare(ours, photo, ["cpu"], other=theirs, mean=128, std=128, per_layer=True)
    pair = found.pair(theirs.name)
    assert found.ok and pair.outputs[0].ok
    assert pair.outputs[0].metrics.identical
    assert (
        len(found.layer_pairs) == 30
    )  # 27 convolutions with their activations, the mean, the classes, softmax
    assert all(layers.metrics.identical for layers in found.layer_pairs)
    assert found.answers[0].guesses["cpu"][0].label == "Egyptian cat"


FILES = ("coreml/MobileNet.mlmodel", "tflite/mobilenet_v1_1.0_224.tflite")
