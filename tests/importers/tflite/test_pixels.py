"""The normalisation in the TFLite metadata of a file says how photos become inputs."""

from __future__ import annotations

import copy
import struct

import numpy as np
import pytest
from PIL import Image

from gpunn import load, vision
from gpunn.graph.pixels import PixelScale
from gpunn.types import DType, Quantization, TensorType, float32
from tests.metadata import metadata
from tests.resources import shared
from tests.tflite_builder import Graph

IMAGE = float32(1, 4, 4, 3)


def file(data: bytes, type: TensorType = IMAGE, *, inputs: int = 1, outside: bool = False) -> bytes:
    graph = Graph()
    numbers = [graph.input(type) for _ in range(inputs)]
    ends = graph.add("RELU", [numbers[0]], [type])
    return graph.build(ends, metadata={"other": b"\0" * 16, "TFLITE_METADATA": data}, outside=outside)


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize(
    ("mean", "std", "expected"),
    [
        ([0], [255], PixelScale(0.0, 255.0)),
        ([127.5] * 3, [127.5] * 3, PixelScale(127.5, 127.5)),
        ([1, 2, 4], [8], PixelScale((1.0, 2.0, 4.0), 8.0)),
        ([0], [-255], PixelScale(0.0, -255.0)),
    ],
)
def test_the_scale_of_pixels(
    mean: list[float], std: list[float], expected: PixelScale, outside: bool
) -> None:
    assert load(file(metadata((mean, std)), outside=outside)).pixel_scale == expected


@pytest.mark.parametrize(
    ("mean", "std"),
    [
        ([0], [0]),
        ([0], [float("nan")]),
        ([float("inf")], [1]),
        ([0, 0, float("nan")], [1]),
        ([0], [1e-40]),
        ([1, 2], [1]),
        ([], [1]),
        ([0], [1, 2, 3, 4, 5, 6]),
        ([0], [1, 1, 0]),
    ],
)
def test_a_scale_that_no_photo_can_have_counts_as_none(mean: list[float], std: list[float]) -> None:
    model = load(file(metadata((mean, std))))
    assert model.pixel_scale is None
    (warning,) = model.warnings
    assert "ignored" in warning


def test_metadata_without_a_scale() -> None:
    scale = ([0], [255])
    for data in (
        metadata(None),
        metadata(),
        metadata(scale, kind=2),  # score calibration
        metadata(scale, identifier=b"M002"),
        b"",
    ):
        model = load(file(data))
        assert (model.pixel_scale, model.warnings) == (None, ())


def test_a_scale_of_something_else_than_an_image_is_ignored() -> None:
    scale = ([0], [255])
    stated = "the TFLite metadata states the scale of pixels 0..1, which is ignored: "
    for model, why in (
        (load(file(metadata(scale), float32(1, 3))), "the input float32[1, 3] is no image"),
        (load(file(metadata(scale, scale), inputs=2)), "the model has 2 inputs"),
    ):
        assert model.pixel_scale is None
        assert model.warnings == (stated + why,)


def test_damaged_metadata_is_no_obstacle() -> None:
    whole = metadata(([0], [255]))
    rng = np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(whole)
        for position in rng.integers(0, len(whole), 2):
            damaged[position] = rng.integers(256)
        assert len(load(file(bytes(damaged))).operations) == 1
    for kept in range(len(whole)):
        assert len(load(file(whole[:kept])).operations) == 1
    for place in range(0, len(whole), 4):  # each offset, each length: as large as it can be
        damaged = bytearray(whole)
        struct.pack_into("<I", damaged, place, 0xFFFFFFFF)
        assert len(load(file(bytes(damaged))).operations) == 1


def test_the_scale_stays_with_the_model() -> None:
    model = load(file(metadata(([1, 2, 4], [8]))))
    expected = PixelScale((1.0, 2.0, 4.0), 8.0)
    assert model.reshaped({model.inputs[0].name: (2, 6, 6, 3)}).pixel_scale == expected
    assert copy.deepcopy(model).pixel_scale == expected


def test_photos_get_the_scale_of_the_file() -> None:
    model = load(file(metadata(([1, 2, 4], [8]))))
    pixels = np.random.default_rng(1).integers(0, 256, (4, 4, 3), np.uint8)
    found = vision.preprocess(model, Image.fromarray(pixels))
    assert np.array_equal(found[0], (pixels - np.float32([1, 2, 4])) / np.float32(8))
    wanted = vision.photo_input(model)
    assert (wanted.origin, wanted.scale) == ("file", "(byte - [1, 2, 4]) / 8")
    assert np.array_equal(wanted.pixels(found)[0], pixels)
    given = vision.photo_input(model, 0, 255)
    assert (given.origin, given.scale) == ("given", "0..1")


def test_a_quantised_model_gets_the_bytes() -> None:
    type = TensorType(DType.UINT8, (1, 4, 4, 3), Quantization((1 / 255,), (0,)))
    wanted = vision.photo_input(load(file(metadata(([127.5], [127.5])), type)))
    assert (wanted.mean, wanted.origin, wanted.scale) == (None, "default", "bytes")


def test_a_published_file() -> None:
    """tf2_mobilenet_v2 of ../shared has metadata by TensorFlow's own tool: -1 to 1."""
    model = load(shared("models/tflite/tf2_mobilenet_v2_1.0_224_ptq.tflite"))
    assert model.pixel_scale == PixelScale(127.5, 127.5)
