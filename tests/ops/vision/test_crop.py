"""Crops of images: against ramps, whose value at a point is known, and against resize_bilinear."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops.vision.crop import SAMPLINGS
from gpunn.types import Array
from tests.ops.harness import ATOL, EPS, check, model_of, random

# The whole image, inside, upside down, mirrored, beyond the image, a point, thinner than a pixel.
BOXES = np.array(
    [
        [0, 0, 6, 8],
        [1.25, 2.5, 4.75, 7.125],
        [5, 1, 0.5, 6],
        [2, 7, 3.5, 1.5],
        [-3, -2, 9, 11],
        [2.5, 3.5, 2.5, 3.5],
        [3, 4, 3.25, 4.5],
    ],
    np.float32,
)
SIZES = ((1, 1), (1, 4), (3, 1), (2, 3), (5, 9), (14, 2))
samplings = pytest.mark.parametrize("sampling", SAMPLINGS)


def points(start: float, end: float, count: int, sampling: str) -> Array:
    """Return the points of NeuralNetwork.proto's SamplingMode for a window instead of the image."""
    d = abs(end - start)
    if sampling == "upsample":
        at = np.minimum(d, np.linspace(0, (d + 1) - (d + 1) / count, count))
    elif sampling == "roi_align":
        spacing = max(1, d) / count
        at = np.minimum(d, np.linspace(0.5 * spacing, 0.5 * spacing + (count - 1) * spacing, count))
    elif sampling == "align_endpoints" and count == 1:
        at = np.array([d / 2])
    else:
        at = np.linspace(0, d, count)
    return start - at if end < start else start + at


@samplings
@pytest.mark.parametrize("channels", [1, 3, 8])
def test_ramps(sampling: str, channels: int, backend: str) -> None:
    """Interpolation on a ramp gives the ramp's value; beyond the border the value stays the same."""
    rows, columns, c = np.meshgrid(np.arange(7.0), np.arange(9.0), np.arange(channels), indexing="ij")
    ramp = (3 * rows - 2 * columns + c + 1).astype(np.float32)
    x = np.stack([ramp, -ramp])
    images = (np.arange(len(BOXES)) % 2).astype(np.int32)
    for size in SIZES:
        attrs = {"size": size, "sampling": sampling}
        (y,) = check("crop_resize", [x, BOXES, images], attrs, backend=backend, atol=100 * EPS * 27)
        for box, image, found in zip(BOXES.tolist(), images, y, strict=True):
            down = points(box[0], box[2], size[0], sampling).clip(0, 6)
            across = points(box[1], box[3], size[1], sampling).clip(0, 8)
            plane = 3 * down[:, None, None] - 2 * across[:, None] + np.arange(channels) + 1
            np.testing.assert_allclose(found, -plane if image else plane, atol=1e-4)


@samplings
def test_random_images(sampling: str, backend: str) -> None:
    """Positions up to 11 are off by at most 8 eps * 11; neighbours differ by up to 8 along either axis."""
    tolerance = ATOL + 8 * EPS * 11 * 8 * 2
    for seed, (channels, size) in enumerate(zip((1, 2, 3, 4, 5, 12), SIZES, strict=True)):
        x = random(seed, 3, 7, 9, channels)
        images = np.random.default_rng(seed).integers(0, 3, len(BOXES)).astype(np.int32)
        attrs = {"size": size, "sampling": sampling}
        check("crop_resize", [x, BOXES, images], attrs, backend=backend, atol=tolerance)
        check("crop_resize", [x, BOXES, images], attrs, backend=backend, atol=tolerance, constants=(1, 2))
    for x, count in ((random(0, 1, 1, 1, 3), 7), (random(0, 2, 1, 9, 4), 7), (random(0, 2, 3, 3, 4), 0)):
        inputs = [x, BOXES[:count], np.zeros(count, np.int32)]
        check("crop_resize", inputs, {"size": (2, 5), "sampling": sampling}, backend=backend, atol=tolerance)


def test_crops_of_whole_images_agree_with_resize_bilinear(backend: str) -> None:
    x = random(0, 2, 5, 7, 3)
    boxes = np.tile(np.array([0, 0, 4, 6], np.float32), (2, 1))
    for sampling, corners in (("strict_align_endpoints", True), ("upsample", False)):
        for size in SIZES:
            attrs = {"size": size, "align_corners": corners}
            (whole,) = check("resize_bilinear", [x], attrs, backend=backend)
            inputs = [x, boxes, np.arange(2, dtype=np.int32)]
            attrs = {"size": size, "sampling": sampling}
            (crop,) = check("crop_resize", inputs, attrs, backend=backend, atol=1e-4)
            np.testing.assert_allclose(crop, whole, atol=1e-4)


def test_hand_worked_numbers(backend: str) -> None:
    """A crop between the rows 1, 5 and the columns 1, 3: its middle is the mean of four elements."""
    x = np.array([[1, 3], [5, 7]], np.float32).reshape(1, 2, 2, 1)
    for sampling, expected in (
        ("strict_align_endpoints", [1, 3, 5, 7]),
        ("align_endpoints", [1, 3, 5, 7]),
        ("upsample", [1, 3, 5, 7]),
        ("roi_align", [2.5, 3.5, 4.5, 5.5]),
    ):
        inputs = [x, np.array([[0, 0, 1, 1]], np.float32), np.zeros(1, np.int32)]
        attrs = {"size": (2, 2), "sampling": sampling}
        (y,) = check("crop_resize", inputs, attrs, backend=backend)
        assert y.ravel().tolist() == expected
        (y,) = check("crop_resize", inputs, attrs | {"size": (1, 1)}, backend=backend)
        assert y.item() == (4 if sampling in ("align_endpoints", "roi_align") else 1)


def test_boxes_that_are_not_finite_give_nan(backend: str) -> None:
    boxes = np.array(
        [[np.nan, 0, 1, 1], [0, 0, np.inf, 1], [0, -np.inf, 1, np.inf], [0, 0, 1, 1]], np.float32
    )
    inputs = [random(0, 1, 3, 3, 4), boxes, np.zeros(4, np.int32)]
    (y,) = check("crop_resize", inputs, {"size": (2, 2), "sampling": "roi_align"}, backend=backend)
    assert np.isnan(y).all(axis=(1, 2, 3)).tolist() == [True, True, True, False]


@pytest.mark.parametrize("constants", [(), (2,)])
def test_indices_of_images_out_of_range_are_refused(constants: tuple[int, ...], backend: str) -> None:
    inputs = [random(0, 2, 3, 3, 4), BOXES[:2], np.array([1, 2], np.int32)]
    attrs = {"size": (2, 2), "sampling": "upsample"}
    fed = [v for k, v in enumerate(inputs) if k not in constants]
    with pytest.raises(ModelError, match=r"crop_resize: images must be in 0 \.\.\. 1, got 2"):
        model_of("crop_resize", inputs, attrs, constants).compile(backend)(*fed)


@pytest.mark.parametrize(
    ("shapes", "attrs", "message"),
    [
        (((2, 3, 4), (1, 4), (1,)), {}, "input 0 must have rank 4"),
        (((1, 3, 4, 2), (1, 5), (1,)), {}, r"boxes \[N, 4\] and images \[N\] are expected"),
        (((1, 3, 4, 2), (2, 4), (1,)), {}, r"boxes \[N, 4\] and images \[N\] are expected"),
        (((1, 3, 0, 2), (1, 4), (1,)), {}, "input image must not be empty"),
        (((1, 3, 4, 2), (1, 4), (1,)), {"size": (0, 1)}, "size must be positive"),
        (((1, 3, 4, 2), (1, 4), (1,)), {"sampling": "no"}, "sampling must be one of strict_align_endpoints"),
    ],
)
def test_errors(shapes: tuple[tuple[int, ...], ...], attrs: dict[str, object], message: str) -> None:
    inputs = [random(0, *shapes[0]), random(0, *shapes[1]), np.zeros(shapes[2], np.int32)]
    with pytest.raises(ModelError, match=f"crop_resize: {message}"):
        model_of("crop_resize", inputs, {"size": (2, 2), "sampling": "upsample"} | attrs)
