"""Poses, found in maps that are made of known poses: every keypoint must come back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.types import Array
from tests.ops.harness import check, model_of

HOST = "poses are found one after the other"
ATTRS = {"max_detections": 4, "score_threshold": 0.4, "stride": 16, "nms_radius": 20.0}
FIRST = {"max_detections": 1, "score_threshold": 1e-4}  # the pose of the best root, whatever its score
BODY = np.array(
    [
        *((1, 4), (0, 5), (0, 3), (1, 6), (1, 2)),  # nose, eyes, ears
        *((3, 6), (3, 2), (5, 7), (5, 1), (7, 7), (7, 1)),  # shoulders, elbows, wrists
        *((7, 5), (7, 3), (9, 6), (9, 2), (11, 6), (11, 2)),  # hips, knees, ankles
    ]
)
# Edges from the nose outwards, on the left and on the right.
TREE = [(0, 1), (1, 3), (0, 2), (2, 4), (0, 5), (5, 7), (7, 9), (5, 11), (11, 13), (13, 15)]
TREE += [(0, 6), (6, 8), (8, 10), (6, 12), (12, 14), (14, 16)]
LEFT_EYE = 1


def maps(people: list[Array], root: int = 0, height: int = 13, width: int = 30) -> list[Array]:
    """Heatmaps and offsets of people at whole positions, each with its own scores; `root` has the best one.

    Mid offsets are right at each keypoint; elsewhere they are 0.
    """
    heat = np.full((1, height, width, 17), -10, np.float32)
    short = np.zeros((1, height, width, 34), np.float32)
    mid = np.zeros((1, height, width, 64), np.float32)
    for number, body in enumerate(people):
        for keypoint, (y, x) in enumerate(body):
            heat[0, y, x, keypoint] = 1 + 0.05 * keypoint + (2 if keypoint == root else 0) - 0.5 * number
        for edge, (near, far) in enumerate(TREE):
            for block, start, end in ((0, near, far), (32, far, near)):
                y, x = body[start]
                dy, dx = 16 * (body[end] - body[start])
                mid[0, y, x, block + edge], mid[0, y, x, block + 16 + edge] = dy, dx
    return [heat, short, mid]


def found(given: list[Array], backend: str, **changed: Any) -> tuple[Array, ...]:
    return check("posenet_decoder", given, {**ATTRS, **changed}, backend=backend, host=HOST, atol=1e-4)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("root", [0, 2, 5, 10, 16])
def test_one_pose_from_any_root(root: int, backend: str) -> None:
    points, parts, scores, count = found(maps([BODY], root), backend)
    expected = sigmoid(1 + 0.05 * np.arange(17) + 2 * (np.arange(17) == root))
    assert count.tolist() == [1]
    np.testing.assert_allclose(points[0, 0], 16 * BODY, atol=1e-4)
    np.testing.assert_allclose(parts[0, 0], expected, rtol=1e-5)
    assert scores[0, 0] == pytest.approx(expected.mean(), rel=1e-5)
    assert not points[0, 1:].any()
    assert not scores[0, 1:].any()


def test_two_people_the_better_one_first(backend: str) -> None:
    other = BODY + np.array([1, 15])
    points, _, scores, count = found(maps([BODY, other]), backend)
    assert count.tolist() == [2]
    np.testing.assert_allclose(points[0, :2], 16 * np.stack([BODY, other]), atol=1e-4)
    assert scores[0, 0] > scores[0, 1] > 0.4
    assert found(maps([BODY, other]), backend, max_detections=1)[3].tolist() == [1]


def test_short_offsets_say_the_exact_place(backend: str) -> None:
    """Offsets of (4, -8) pixels at the keypoint; five steps more of them, interpolated where they lead."""
    given = maps([BODY], 16)
    y, x = BODY[16]
    given[1][0, :, :, 16], given[1][0, y, x, 16 + 17] = 4, -8
    points = found(given, backend, **FIRST)[0]
    # the root is moved once: by a quarter of a cell down, by half a cell to the left
    np.testing.assert_allclose(points[0, 0, 16], [16 * y + 4, 16 * x - 8], atol=1e-4)


def test_points_between_cells_are_interpolated(backend: str) -> None:
    """The score of a root between two cells of logits 3 and -10 is that of the mean."""
    given = maps([BODY], 16)
    y, x = BODY[16]
    given[0][0, y, x, 16] = 3
    given[1][0, y, x, 16 + 17] = -8
    parts = found(given, backend, **FIRST)[1]
    assert parts[0, 0, 16] == pytest.approx(sigmoid(np.float32(-3.5)), rel=1e-4)


def test_the_nose_from_the_left_eye_as_coral_reads_it(backend: str) -> None:
    """Its y offset is the forward x of the first edge, its x offset the backward y."""
    given = maps([BODY], LEFT_EYE)
    y, x = BODY[LEFT_EYE]
    assert given[2][0, y, x, [32, 48]].tolist() == [16, -16]
    given[2][0, y, x, 16] = 32
    nose = y + 2, x + 1
    given[0][0, nose[0], nose[1], 0] = 1.5
    points = found(given, backend, **FIRST)[0]
    assert points[0, 0, 0].tolist() == [16 * nose[0], 16 * nose[1]]


def test_a_keypoint_near_that_of_a_better_pose_does_not_count(backend: str) -> None:
    """The second person stands 3 cells aside but shares the left ankle; 16 of 17 scores are left."""
    other = BODY + np.array([0, 9])
    other[15] = BODY[15]
    given = maps([BODY, other])
    _, parts, scores, count = found(given, backend)
    assert count.tolist() == [2]
    assert scores[0, 1] == pytest.approx((parts[0, 1].sum() - parts[0, 1, 15]) / 17, rel=1e-5)
    # with a wide radius nothing of it counts
    assert found(given, backend, nms_radius=400.0)[3].tolist() == [1]


def test_no_pose(backend: str) -> None:
    empty = maps([])
    points, parts, scores, count, masks = found([*empty, np.zeros((1, 33, 33, 34), np.float32)], backend)
    assert count.tolist() == [0]
    assert not any(v.any() for v in (points, parts, scores, masks))
    assert found(maps([BODY]), backend, score_threshold=0.99)[3].tolist() == [0]


def test_masks_show_whose_pixel_it_is(backend: str) -> None:
    """Offsets lead from the left half to the first person, from the right half to the second one."""
    other = BODY + np.array([1, 15])
    given = maps([BODY, other], height=33, width=33)
    long = np.zeros((33, 33, 2, 17), np.float32)
    grid = np.stack(np.meshgrid(np.arange(33), np.arange(33), indexing="ij"), axis=-1)
    for half, body in ((slice(0, 16), BODY), (slice(16, 33), other)):
        to = 16 * (body[None, None] - grid[:, half, None])
        # Half of the way in each of three steps leads near enough.
        long[:, half] = np.moveaxis(to, -1, 2) / 2
    masks = found([*given, long.reshape(1, 33, 33, 34)], backend)[4]
    assert masks[0, 0, :, :5].all()
    assert masks[0, 1, :, 25:].all()
    assert (masks[0, :2].sum(axis=0) == 1).all()
    assert not masks[0, 2:].any()


def test_what_is_not_finite(backend: str) -> None:
    """NaN is no score and no offset."""
    given = maps([BODY])
    given[0][0, 12, 29], given[1][0, 12, 29] = np.nan, np.nan
    given[2][0, 12, 29] = np.inf
    assert found(given, backend)[3].tolist() == [1]


@pytest.mark.parametrize(
    ("shapes", "changed", "message"),
    [
        ([(1, 5, 6, 17), (1, 5, 6, 34), (1, 5, 6, 32)], {}, "input 2 must have shape"),
        ([(1, 5, 6, 17), (1, 5, 7, 34), (1, 5, 6, 64)], {}, "input 1 must have shape"),
        ([(2, 5, 6, 17), (2, 5, 6, 34), (2, 5, 6, 64)], {}, "input 0 must have shape"),
        ([(5, 6, 17), (1, 5, 6, 34), (1, 5, 6, 64)], {}, "takes maps"),
        ([(1, 5, 6, 17), (1, 5, 6, 34), (1, 5, 6, 64), (1, 5, 6, 34)], {}, "input 3 must have shape"),
        ([(1, 5, 6, 17), (1, 5, 6, 34), (1, 5, 6, 64)], {"max_detections": 0}, "max_detections"),
        ([(1, 5, 6, 17), (1, 5, 6, 34), (1, 5, 6, 64)], {"stride": 0}, "stride"),
        ([(1, 5, 6, 17), (1, 5, 6, 34), (1, 5, 6, 64)], {"nms_radius": -1.0}, "nms_radius"),
        ([(1, 5, 6, 17), (1, 5, 6, 34), (1, 5, 6, 64)], {"score_threshold": np.nan}, "score_threshold"),
    ],
)
def test_refused(shapes: list[tuple[int, ...]], changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        model_of("posenet_decoder", [np.zeros(s, np.float32) for s in shapes], {**ATTRS, **changed})
