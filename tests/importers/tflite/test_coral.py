"""Coral's custom operator PosenetDecoderOp: maps of one known pose in files, float32 and quantised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

import gpunn
from gpunn.errors import FormatError
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.importers.tflite.test_mediapipe import custom_file
from tests.ops.vision.test_poses import BODY, maps

OPTIONS = {"max_detections": 3, "score_threshold": 0.4, "stride": 16, "nms_radius": 20.0}
RESULTS = [float32(1, 3, 17, 2), float32(1, 3, 17), float32(1, 3), float32(1)]


def posenet(inputs: int, results: int, options: Mapping[str, Any]) -> bytes:
    shapes = [(1, 13, 30, 17), (1, 13, 30, 34), (1, 13, 30, 64), (1, 33, 33, 34)]
    types = [*RESULTS, float32(1, 3, 33, 33)]
    packed = bytes(flexbuffers.Dumps(options))
    return custom_file("PosenetDecoderOp", [float32(*s) for s in shapes[:inputs]], types[:results], packed)


def quantised(x: Array, scale: float) -> tuple[TensorType, Array]:
    """The values in steps of a scale around 128, and their type."""
    type = TensorType(DType.UINT8, x.shape, Quantization((scale,), (128,)))
    return type, np.round(x / scale + 128).astype(np.uint8)


def test_a_pose(backend: str) -> None:
    with gpunn.load(posenet(3, 4, OPTIONS)).compile(backend=backend) as compiled:
        points, _, _, count = compiled(*maps([BODY]))
        assert {p.backend for p in compiled.placement} == {"cpu"}
    assert count.tolist() == [1]
    np.testing.assert_allclose(points[0, 0], 16 * BODY, atol=1e-4)


def test_a_pose_and_its_mask(backend: str) -> None:
    """With one pose every pixel is its own."""
    longs = np.zeros((1, 33, 33, 34), np.float32)
    with gpunn.load(posenet(4, 5, OPTIONS)).compile(backend=backend) as compiled:
        masks = compiled(*maps([BODY]), longs)[4]
    assert masks.sum(axis=(0, 2, 3)).tolist() == [33 * 33, 0, 0]


def test_quantised_maps(backend: str) -> None:
    """Offsets of whole cells are multiples of the scale."""
    pairs = [quantised(x, scale) for x, scale in zip(maps([BODY]), (0.1, 1.0, 1.0), strict=True)]
    packed = bytes(flexbuffers.Dumps(OPTIONS))
    file = custom_file("PosenetDecoderOp", [type for type, _ in pairs], RESULTS, packed)
    with gpunn.load(file).compile(backend=backend) as compiled:
        points, _, _, count = compiled(*(value for _, value in pairs))
    assert count.tolist() == [1]
    np.testing.assert_allclose(points[0, 0], 16 * BODY, atol=1e-4)


@pytest.mark.parametrize(
    ("inputs", "results", "changed", "message"),
    [
        (3, 5, {}, "takes 3 inputs and gives 4, or 4 and 5, got 3 and 5"),
        (2, 4, {}, "takes 3 inputs and gives 4, or 4 and 5, got 2 and 4"),
        (3, 4, {"stride": None}, "option stride must be a number, got None"),
        (3, 4, {"max_detections": 0}, "max_detections must be in 1"),
        (3, 4, {"max_detections": 1 << 40}, "max_detections must be in 1"),
    ],
)
def test_damage(inputs: int, results: int, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        gpunn.load(posenet(inputs, results, {**OPTIONS, **changed}))
