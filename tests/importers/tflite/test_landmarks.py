"""MediaPipe's custom operators on landmarks: files of one operator each, with results worked out by hand."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from hypothesis import given, settings
from hypothesis import strategies as st

import gpunn
from gpunn.errors import FormatError, GpunnError, UnsupportedError
from gpunn.types import Array, float32
from tests.importers.tflite.test_mediapipe import custom_file
from tests.ops.harness import random


def flexbuffer(**options: Any) -> bytes:
    """Options by name; lists are typed vectors, as converters write them."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in options.items():
            builder.Key(name)
            builder.TypedVectorFromElements(value) if isinstance(value, list) else builder.Add(value)
    return bytes(builder.Finish())


def run(file: bytes, backend: str, *inputs: Array) -> Array:
    """The one output of a file, all of whose operations run on the backend or move nothing."""
    with gpunn.load(file).compile(backend=backend) as compiled:
        assert {p.backend for p in compiled.placement} <= {backend, "alias"}
        return np.asarray(compiled(*inputs))


# x' = 2 x + 10, y' = 3 y - x; what does not count is 7.
MATRIX = np.array([[2, 0, 7, 10], [-1, 3, 7, 0], [7] * 4, [7] * 4], np.float32)


@pytest.mark.parametrize("shape", [(1, 4, 4), (1, 1, 4, 4)])
def test_landmarks_by_hand(shape: tuple[int, ...], backend: str) -> None:
    """Version 2: the last axis is a point, z stays."""
    x = np.array([[[1, 2, 3], [4, 5, 6]]], np.float32)
    file = custom_file("TransformLandmarks", [float32(1, 2, 3), float32(*shape)], [float32(1, 2, 3)], b"", 2)
    assert run(file, backend, x, MATRIX.reshape(shape)).tolist() == [[[12, 5, 3], [18, 11, 6]]]
    file = custom_file("TransformLandmarks", [float32(1, 3, 2), float32(*shape)], [float32(1, 3, 2)], b"", 2)
    x = np.array([[[1, 2], [4, 5], [0, 0]]], np.float32)
    assert run(file, backend, x, MATRIX.reshape(shape)).tolist() == [[[12, 5], [18, 11], [10, 0]]]


def test_landmarks_side_by_side_by_hand(backend: str) -> None:
    """Version 1: points in the last axis; the scale multiplies only the shift."""
    x = np.array([1, 2, 3, 4, 5, 6], np.float32).reshape(1, 1, 1, 6)
    types = [float32(1, 1, 1, 6), float32(1, 4, 4)]
    for options, expected in (
        (flexbuffer(dimensions=3, scale=0.5), [7, 5, 3, 13, 11, 6]),
        (flexbuffer(dimensions=2, scale=1.0), [12, 5, 16, 9, 20, 13]),
        (flexbuffer(), [12, 5, 3, 18, 11, 6]),
    ):
        file = custom_file("TransformLandmarks", types, types[:1], options)
        assert run(file, backend, x, MATRIX[None]).ravel().tolist() == expected


def test_images_by_hand(backend: str) -> None:
    """Version 1 maps whole pixels, version 2 their centres."""
    x = np.array([[0, 10], [100, 110]], np.float32).reshape(1, 2, 2, 1)
    half = np.diag([0.5, 0.5, 7, 7]).astype(np.float32)[None]
    types, result = [float32(1, 2, 2, 1), float32(1, 4, 4)], [float32(1, 4, 4, 1)]
    options = flexbuffer(output_size=[4, 4], mode="bilinear")
    for name in ("TransformTensor", "TransformTensorBilinear"):
        found = run(custom_file(name, types, result, options), backend, x, half)
        assert found[0, :, 1, 0].tolist() == [5, 55, 105, 0]
    options = flexbuffer(output_height=4, output_width=4)
    found = run(custom_file("TransformTensorBilinear", types, result, options, 2), backend, x, half)
    assert found[0, :, 1, 0].tolist() == [0, 27.5, 77.5, 0]


V1: dict[str, Any] = {
    "dimensions": 3,
    "landmarks_range": 100,
    "bbox_size_multiplier": 1.5,
    "left_rotation_idx": 0,
    "right_rotation_idx": 1,
    "input_hw": [51, 201],
    "output_hw": [11, 21],
    "subset": [2, 3, 4],
}
V2: dict[str, Any] = {
    "left_rotation_idx": 0,
    "right_rotation_idx": 1,
    "target_rotation_radians": 0.25,
    "output_height": 10,
    "output_width": 20,
    "scale_x": 1.5,
    "scale_y": 2.0,
    "subset_idxs": [2, 3, 4, 2],
}


def product(*matrices: list[list[float]]) -> Array:
    """The product of matrices in float64."""
    return np.linalg.multi_dot([np.array(m, np.float64) for m in matrices])


def turned(points: Array, angle: float) -> tuple[Array, Array]:
    """The centre and the sides of the box around points in axes that are turned by an angle."""
    c, s = math.cos(angle), math.sin(angle)
    there = points[:, :2].astype(np.float64) @ np.array([[c, s], [-s, c]])
    low, high = there.min(axis=0), there.max(axis=0)
    return (low + high) / 2 @ np.array([[c, -s], [s, c]]), high - low


@pytest.mark.parametrize("seed", range(6))
def test_matrices_of_version_1_are_mediapipe_s_product(seed: int, backend: str) -> None:
    """To coordinates from -1 to 1, box, turn and shift, back to pixels; points of up to 100."""
    x = random(seed, 5, 3, low=0, high=100)
    angle = -math.atan((float(x[1, 1]) - float(x[0, 1])) / (float(x[1, 0]) - float(x[0, 0])))
    centre, sides = turned(x[2:], angle)
    c, s = math.cos(-angle), math.sin(-angle)
    plane = product(
        [[100, 0, 100], [0, 25, 25], [0, 0, 1]],
        [[c, -s, centre[0] / 50 - 1], [s, c, centre[1] / 50 - 1], [0, 0, 1]],
        [[sides[0] * 0.015, 0, 0], [0, sides[1] * 0.015, 0], [0, 0, 1]],
        [[2 / 20, 0, -1], [0, 2 / 10, -1], [0, 0, 1]],
    )
    types = [float32(1, 1, 1, 15)], [float32(1, 4, 4)]
    file = custom_file("Landmarks2TransformMatrix", *types, flexbuffer(**V1))
    (found,) = run(file, backend, x.reshape(1, 1, 1, 15))
    np.testing.assert_allclose(found[:2, [0, 1, 3]], plane[:2], atol=2e-3)  # 64 eps of 200
    assert found[2:].tolist() == [[0, 0, 1, 0], [0, 0, 0, 1]] and not found[:2, 2].any()


@pytest.mark.parametrize("seed", range(6))
def test_matrices_of_version_2_are_mediapipe_s_product(seed: int, backend: str) -> None:
    x = random(seed, 5, 3, low=0, high=100)
    way = (x[1] - x[0]).astype(np.float64)
    angle = 0.25 - math.atan2(way[1], way[0])
    centre, sides = turned(x[2:], angle)
    c, s = math.cos(-angle), math.sin(-angle)
    plane = product(
        [[1, 0, centre[0]], [0, 1, centre[1]], [0, 0, 1]],
        [[c, -s, 0], [s, c, 0], [0, 0, 1]],
        [[1.5 * sides[0] / 20, 0, 0], [0, 2 * sides[1] / 10, 0], [0, 0, 1]],
        [[1, 0, -10], [0, 1, -5], [0, 0, 1]],
    )
    types = [float32(1, 5, 3)], [float32(1, 4, 4)]
    file = custom_file("Landmarks2TransformMatrix", *types, flexbuffer(**V2), 2)
    (found,) = run(file, backend, x[None])
    np.testing.assert_allclose(found[:2, [0, 1, 3]], plane[:2], atol=2e-3)
    assert found[2:].tolist() == [[0, 0, 1, 0], [0, 0, 0, 1]] and not found[:2, 2].any()


def matrix_file(version: int, **options: Any) -> bytes:
    """A Landmarks2TransformMatrix of five points with some options changed; None leaves one out."""
    all_options = {**(V1 if version == 1 else V2), **options}
    given = {k: v for k, v in all_options.items() if v is not None}
    types = [float32(1, 5, 3)], [float32(1, 4, 4)]
    return custom_file("Landmarks2TransformMatrix", *types, flexbuffer(**given), version)


@pytest.mark.parametrize(
    ("version", "options", "message"),
    [
        (1, {"dimensions": 2}, "takes points of 3 dimensions, got 2"),
        (1, {"landmarks_range": 0}, "option landmarks_range must be over 0"),
        (1, {"bbox_size_multiplier": 0.0}, "option bbox_size_multiplier must not be 0"),
        (1, {"bbox_size_multiplier": None}, "option bbox_size_multiplier must be a number, got None"),
        (1, {"input_hw": [0, 2]}, "option input_hw must be 2 integers of 1 or more"),
        (1, {"output_hw": [2, 2, 2]}, "option output_hw must be 2 integers of 2 or more"),
        (1, {"output_hw": [2, 1]}, "option output_hw must be 2 integers of 2 or more"),
        (1, {"subset": []}, "option subset must be integers of 0 or more"),
        (1, {"subset": [2, -1]}, "option subset must be integers of 0 or more"),
        (1, {"subset": [2, 5]}, "there is no point 5 among 5"),
        (2, {"left_rotation_idx": -1}, "option left_rotation_idx must be an integer of 0 or more, got -1"),
        (2, {"right_rotation_idx": 9}, "there is no point 9 among 5"),
        (2, {"output_height": 0}, "option output_height must be an integer of 1 or more, got 0"),
        (2, {"output_width": 1.5}, "option output_width must be an integer of 1 or more, got 1.5"),
        (2, {"scale_x": 0.0}, "option scale_x must be over 0"),
        (2, {"scale_y": "wide"}, "option scale_y must be a number, got 'wide'"),
        (
            2,
            {"target_rotation_radians": math.nan},
            "target_rotation_radians must be a number, got nan",
        ),
        (2, {"subset_idxs": None}, "option subset_idxs must be integers of 0 or more, got None"),
    ],
)
def test_options_that_make_no_sense_are_refused(version: int, options: dict[str, Any], message: str) -> None:
    gpunn.load(matrix_file(version))
    with pytest.raises(FormatError, match=message):
        gpunn.load(matrix_file(version, **options))


IMAGE, POINTS, ONE = float32(1, 2, 2, 1), float32(1, 1, 1, 6), float32(1, 4, 4)


@pytest.mark.parametrize(
    ("name", "inputs", "options", "version", "message"),
    [
        ("TransformLandmarks", [POINTS, ONE], flexbuffer(dimensions=4), 1, "points of 2 or 3 numbers, got 4"),
        ("TransformLandmarks", [POINTS, ONE], flexbuffer(scale=0.0), 1, "option scale must not be 0"),
        ("TransformLandmarks", [POINTS, ONE], b"", 2, "points of 2 or 3 numbers, got 6"),
        ("TransformLandmarks", [POINTS, float32(2, 4, 4)], b"", 1, "takes one matrix of 4 x 4 numbers"),
        ("TransformLandmarks", [POINTS], b"", 1, "takes 2 inputs and gives 1, got 1 and 1"),
        ("TransformTensorBilinear", [IMAGE, ONE], b"", 1, "option output_size must be 2 integers"),
        ("TransformTensorBilinear", [IMAGE, ONE], b"", 2, "option output_height must be an integer"),
        ("TransformTensorBilinear", [IMAGE, ONE], b"\0\1\2", 2, "the custom options cannot be read"),
        ("Landmarks2TransformMatrix", [float32(1, 4)], b"", 2, "takes points of three numbers"),
    ],
)
def test_other_damage_is_refused(
    name: str, inputs: list[Any], options: bytes, version: int, message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        gpunn.load(custom_file(name, inputs, [float32(1, 4, 4, 1)], options, version))


def test_what_has_no_meaning_is_refused() -> None:
    nearest = flexbuffer(mode="nearest", output_size=[2, 2])
    with pytest.raises(UnsupportedError, match="mode 'nearest', only bilinear has a meaning"):
        gpunn.load(custom_file("TransformTensorBilinear", [IMAGE, ONE], [IMAGE], nearest))
    with pytest.raises(UnsupportedError, match="there is no version 3 of this operator"):
        gpunn.load(custom_file("TransformLandmarks", [POINTS, ONE], [POINTS], b"", 3))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_options_only_raise_errors_of_gpunn(data: st.DataObject) -> None:
    options = bytearray(flexbuffer(**V2))
    for _ in range(data.draw(st.integers(1, 4))):
        options[data.draw(st.integers(0, len(options) - 1))] = data.draw(st.integers(0, 255))
    types = [float32(1, 5, 3)], [float32(1, 4, 4)]
    with contextlib.suppress(GpunnError):
        gpunn.load(custom_file("Landmarks2TransformMatrix", *types, bytes(options), 2))
