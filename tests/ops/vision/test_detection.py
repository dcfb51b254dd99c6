"""Suppression of boxes: against a comparison of all pairs, and numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.types import Array
from tests.ops.harness import check, model_of, random

HOST = "boxes are chosen one after the other"
# Unit squares that are shifted by 0, 1/2 and 2: their intersections over unions are 1/3 and 0.
ROW = np.array([[0, 0, 1, 1], [1, 1.5, 0, 0.5], [0, 2, 1, 3]], np.float32)


def share(a: Array, b: Array) -> float:
    """Compute the intersection over union of two boxes from the cells of a fine grid."""
    y, x = np.meshgrid(np.arange(0, 4, 1 / 16) + 1 / 32, np.arange(0, 4, 1 / 16) + 1 / 32, indexing="ij")
    inside = []
    for box in (a, b):
        (top, bottom), (left, right) = sorted(box[::2]), sorted(box[1::2])
        inside.append((top < y) & (y < bottom) & (left < x) & (x < right))
    union = np.count_nonzero(inside[0] | inside[1])
    return np.count_nonzero(inside[0] & inside[1]) / union if union else 0.0


@pytest.mark.parametrize("constants", [(2, 3), ()])
@pytest.mark.parametrize(("most", "overlap", "least"), [(30, 0.3, 0.0), (4, 0.6, 1.0), (30, 1.0, 0.5)])
def test_of_two_boxes_that_overlap_the_better_one_stays(
    most: int, overlap: float, least: float, constants: tuple[int, ...], backend: str
) -> None:
    """The corners lie on a grid, so that areas are whole numbers of cells."""
    boxes = np.round(random(1, 25, 4, low=0, high=4) * 16) / 16
    scores = random(2, 25, low=0, high=4)
    inputs = [boxes, scores, np.float32(overlap), np.float32(least)]
    attrs = {"max_output_size": most}
    numbers, found, count = check(
        "non_max_suppression", inputs, attrs, backend=backend, constants=constants, host=HOST
    )
    stays: list[int] = []
    for box in np.argsort(-scores):
        if scores[box] > least and all(share(boxes[box], boxes[other]) < overlap for other in stays):
            stays.append(int(box))
    stays = stays[:most]
    assert count == len(stays)
    assert numbers.tolist() == stays + [0] * (most - len(stays))
    assert found.tolist() == [*scores[stays].tolist(), *[0.0] * (most - len(stays))]


def test_overlaps_lower_scores(backend: str) -> None:
    """The second score is multiplied by exp(-(1/3)^2 / (2 * 0.25)) and falls below the third."""
    scores = np.array([3, 2, 1.9], np.float32)
    inputs = [ROW, scores, np.float32(0.5), None, np.float32(0.25)]
    attrs = {"max_output_size": 3}
    numbers, found, count = check("non_max_suppression", inputs, attrs, backend=backend, host=HOST)
    assert (numbers.tolist(), int(count)) == ([0, 2, 1], 3)
    np.testing.assert_allclose(found, [3, 1.9, 2 * np.exp(-2 / 9)], rtol=1e-6)


def test_a_box_at_the_iou_threshold_is_dropped(backend: str) -> None:
    scores = np.array([1, 1, 1], np.float32)
    twins = np.concatenate([ROW[:1], ROW[:1], ROW[2:]])
    inputs, attrs = [twins, scores, np.ones(1, np.float32)], {"max_output_size": 3}
    numbers, _, count = check("non_max_suppression", inputs, attrs, backend=backend, host=HOST)
    assert (numbers.tolist(), int(count)) == ([0, 2, 0], 2)


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ((1.5, 0, 0), r"iou_threshold must be in 0 \.\.\. 1, got 1.5"),
        ((0.5, np.nan, 0), "score_threshold must be a number"),
        ((0.5, 0, -1), "sigma must be 0 or more, got -1.0"),
    ],
)
def test_thresholds_out_of_range(thresholds: tuple[float, ...], message: str, backend: str) -> None:
    inputs = [ROW, np.ones(3, np.float32), *map(np.float32, thresholds)]
    with pytest.raises(ModelError, match=f"non_max_suppression: {message}"):
        model_of("non_max_suppression", inputs, {"max_output_size": 2}, (2, 3, 4))
    model = model_of("non_max_suppression", inputs, {"max_output_size": 2})
    with model.compile(backend) as compiled, pytest.raises(ModelError, match=message):
        compiled(*inputs)
