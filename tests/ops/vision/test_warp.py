"""Affine maps of images, and the matrix of a turned crop: by hand, and by other ways to the same numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.types import Array
from tests.ops.harness import ATOL, EPS, check, model_of, random


def matrices(*rows: tuple[float, ...]) -> Array:
    """Matrices of m00, m01, m03, m10, m11, m13 each; what does not count is not 0."""
    found = np.full((len(rows), 4, 4), 7, np.float32)
    for matrix, (a, b, c, d, e, f) in zip(found, rows, strict=True):
        matrix[0], matrix[1] = (a, b, 7, c), (d, e, 7, f)
    return found


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_whole_pixels_are_moved(channels: int, backend: str) -> None:
    """A shift by whole pixels, and a quarter turn: the values themselves, and 0 outside."""
    x = random(0, 2, 4, 5, channels)
    moves = matrices((1, 0, 2, 0, 1, -1), (0, 1, 0, 1, 0, 0))
    (y,) = check("warp_affine", [x, moves], {"size": (5, 4)}, backend=backend)
    shifted = np.zeros((5, 4, channels), np.float32)
    shifted[1:5, :3] = x[0, :4, 2:]
    np.testing.assert_array_equal(y[0], shifted)
    np.testing.assert_array_equal(y[1], x[1].transpose(1, 0, 2))


def test_points_between_pixels_by_hand(backend: str) -> None:
    x = np.array([[0, 10], [100, 110]], np.float32).reshape(1, 2, 2, 1)
    (y,) = check("warp_affine", [x, matrices((0.5, 0, 0, 0, 1, 0.25))], {"size": (1, 4)}, backend=backend)
    assert y.ravel().tolist() == [25, 30, 35, 0]
    attrs: dict[str, Any] = {"size": (4, 4), "half_pixel_centers": True}
    (y,) = check("warp_affine", [x, matrices((0.5, 0, 0, 0, 0.5, 0))], attrs, backend=backend)
    assert y[0, :, 1, 0].tolist() == [0, 27.5, 77.5, 0]  # 0.25 and 0.75; a quarter pixel outside at both ends


@pytest.mark.parametrize("centers", [False, True])
@pytest.mark.parametrize("channels", [1, 2, 5, 8])
def test_random_maps_of_ramps(centers: bool, channels: int, backend: str) -> None:
    """On a ramp the result is the plane at the mapped point. No point is so near the border that float32
    may put it on the other side; positions of up to 20 are off by 8 eps of that, and a pixel is worth 5.
    """
    rows, columns = np.meshgrid(np.arange(9.0), np.arange(7.0), indexing="ij")
    ramp = (3 * rows - 2 * columns + 1)[..., None] + np.arange(channels)
    x = np.stack([ramp, -ramp, 2 * ramp]).astype(np.float32)
    moves = matrices(
        (0.61, -0.23, 1.7, 0.33, 0.71, -0.9), (-1.3, 0, 6.1, 0, 1.9, 0.3), (0.1, 0.1, 2, 0, 0, 3.3)
    )
    attrs = {"size": (6, 11), "half_pixel_centers": centers}
    (y,) = check("warp_affine", [x, moves], attrs, backend=backend, atol=ATOL + 8 * EPS * 20 * 10)
    more = 0.5 if centers else 0.0
    inside = 0
    for n, i, j in np.ndindex(3, 6, 11):
        a, b = moves[n, :2, [0, 1, 3]].T.astype(np.float64) @ (j + more, i + more, 1) - more
        margin = min(abs(a), abs(a - 6), abs(b), abs(b - 8))
        assert margin > 1e-4
        plane = (3 * b - 2 * a + 1 + np.arange(channels)) * (1, -1, 2)[n]
        within = 0 <= a <= 6 and 0 <= b <= 8
        np.testing.assert_allclose(y[n, i, j], plane if within else 0, atol=1e-4)
        inside += within
    assert inside > 50


def test_positions_that_are_no_numbers_give_nothing(backend: str) -> None:
    x = random(0, 3, 4, 4, 2)
    moves = matrices((np.nan, 0, 0, 0, 1, 0), (1, 0, np.inf, 0, 1, 0), (1, 0, 1e30, 0, -1e30, 0))
    (y,) = check("warp_affine", [x, moves], {"size": (3, 3)}, backend=backend)
    assert not y.any()


@pytest.mark.parametrize(
    ("shape", "matrix", "size", "message"),
    [
        ((1, 4, 4, 1), (1, 3, 3), (2, 2), r"matrices must have shape \[1, 4, 4\]"),
        ((2, 4, 4, 1), (1, 4, 4), (2, 2), r"matrices must have shape \[2, 4, 4\]"),
        ((1, 0, 4, 1), (1, 4, 4), (2, 2), "input image must not be empty"),
        ((1, 4, 4, 1), (1, 4, 4), (0, 2), "size must be positive"),
    ],
)
def test_warps_that_are_refused(
    shape: tuple[int, ...], matrix: tuple[int, ...], size: tuple[int, int], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        model_of("warp_affine", [random(0, *shape), random(0, *matrix)], {"size": size})


PLAIN: dict[str, Any] = {"scale": (1.0, 1.0), "origin": (0.0, 0.0)}


def test_a_matrix_by_hand(backend: str) -> None:
    """A box of 6 x 2 around (5, 3), not turned, in a crop of 12 x 8 pixels with twice the sides."""
    points = np.array([[0, 1], [9, 1], [2, 3], [8, 2], [4, 4]], np.float32)
    attrs = {"scale": (2 / 12, 2 / 8), "origin": (6, 4), "stretch": (1, 10)}
    (m,) = check("rotated_crop_matrix", [points], attrs, backend=backend)
    expected = [[1, 0, 0, -1], [0, 5, 0, 10], [0, 0, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(m, expected, atol=1e-5)


def test_quarter_turns_by_hand(backend: str) -> None:
    """Point 1 is above point 0, so the crop's x axis points up the image, and its y axis to the left."""
    points = np.array([[0, 0, 5], [0, 2, 5], [1, 1, 5], [3, 5, 5]], np.float32)
    (m,) = check("rotated_crop_matrix", [points], PLAIN, backend=backend)
    np.testing.assert_allclose(m[:2], [[0, -2, 0, 2], [4, 0, 0, 3]], atol=1e-5)
    (m,) = check("rotated_crop_matrix", [points], {**PLAIN, "rotation": math.pi / 2}, backend=backend)
    np.testing.assert_allclose(m[:2], [[2, 0, 0, 2], [0, 4, 0, 3]], atol=1e-5)


def test_opposite_directions(backend: str) -> None:
    points = np.array([[3, 1], [1, 1], [1, 1], [3, 5]], np.float32)
    (m,) = check("rotated_crop_matrix", [points], PLAIN, backend=backend)
    np.testing.assert_allclose(m[:2], [[-2, 0, 0, 2], [0, -4, 0, 3]], atol=1e-5)
    (m,) = check("rotated_crop_matrix", [points], {**PLAIN, "half_turn": True}, backend=backend)
    np.testing.assert_allclose(m[:2], [[2, 0, 0, 2], [0, 4, 0, 3]], atol=1e-5)
    same = np.array([[1, 1], [1, 1], [1, 1], [3, 5]], np.float32)
    (m,) = check("rotated_crop_matrix", [same], PLAIN, backend=backend)
    np.testing.assert_allclose(m[:2], [[2, 0, 0, 2], [0, 4, 0, 3]], atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_corners_of_the_crop_enclose_the_points(seed: int, backend: str) -> None:
    """The image's points, taken back into the crop, touch all four of its sides.

    Points of up to 4, sides of up to 12, a crop of 10 x 6: 32 eps of the numbers that are added.
    """
    points = random(seed, 7, 2 + seed % 2)
    attrs = {"scale": (1 / 10, 1 / 6), "origin": (5.0, 3.0), "rotation": 0.3 * seed}
    (m,) = check("rotated_crop_matrix", [points], attrs, backend=backend, atol=32 * EPS * 4 * 4)
    back = np.linalg.inv(m.astype(np.float64))
    inside = back @ np.stack([*points[2:, :2].T, np.zeros(5), np.ones(5)]).astype(np.float64)
    np.testing.assert_allclose(inside[:2].min(axis=1), 0, atol=1e-4)
    np.testing.assert_allclose(inside[:2].max(axis=1), (10, 6), atol=1e-4)
    eyes = back[:2, :2] @ (points[1] - points[0])[:2]
    sides = np.linalg.norm(m[:2, :2], axis=0)  # of a crop's pixel in the image
    direction = math.atan2(eyes[1] * sides[1], eyes[0] * sides[0]) - attrs["rotation"]
    assert abs(math.remainder(direction, math.tau)) < 1e-4


@pytest.mark.parametrize(
    ("shape", "attrs", "message"),
    [
        ((2, 2), {}, "points must have shape"),
        ((3, 1), {}, "points must have shape"),
        ((3, 2), {"scale": (1.0,)}, "scale"),
        ((3, 2), {"origin": (1.0, math.nan)}, "origin must be two numbers"),
        ((3, 2), {"rotation": math.inf}, "rotation must be a number"),
    ],
)
def test_matrices_that_are_refused(shape: tuple[int, ...], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        model_of("rotated_crop_matrix", [random(0, *shape)], {**PLAIN, **attrs})


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_random_images(channels: int, backend: str) -> None:
    """Positions of up to 6 are off by 8 eps of that; neighbours differ by up to 8 along either axis."""
    turn, one = (0.41, -0.23, 1.73, 0.33, 0.71, 0.87), (1, 0, 0.3, 0, 1, 0.6)
    for count, height, width, size in (
        (2, 5, 7, (6, 4)),
        (1, 1, 9, (3, 3)),
        (2, 8, 2, (1, 7)),
        (0, 3, 3, (2, 2)),
    ):
        x = random(count, count, height, width, channels)
        inputs = [x, matrices(turn, one)[:count]]
        for centers in (False, True):
            attrs = {"size": size, "half_pixel_centers": centers}
            tolerance = ATOL + 8 * EPS * 6 * 8 * 2
            check("warp_affine", inputs, attrs, backend=backend, atol=tolerance)
            check("warp_affine", inputs, attrs, backend=backend, atol=tolerance, constants=(1,))
