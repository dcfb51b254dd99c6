"""Suppression of boxes, by batch and class: against a comparison of all pairs, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import ModelError
from tests.ops.harness import check, model_of, random
from tests.ops.vision.test_detection import HOST, ROW, share

OP = "batched_non_max_suppression"


@pytest.mark.parametrize("constants", [(2, 3), ()])
@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize(("most", "overlap", "least"), [(30, 0.3, 0.0), (4, 0.6, 2.0), (30, 0.0, 3.0)])
def test_of_two_boxes_that_overlap_the_better_one_stays(
    most: int, overlap: float, least: float, per_class: bool, constants: tuple[int, ...], backend: str
) -> None:
    """The corners lie on a grid, so that areas are whole numbers of cells."""
    ends = np.round(random(1, 2, 25, 2, 2, low=0, high=4) * 16) / 16
    boxes = np.concatenate([ends.min(axis=2), ends.max(axis=2)], axis=2)
    scores = random(2, 2, 25, 3, low=0, high=4)
    inputs = [boxes, scores, np.float32(overlap), np.float32(least)]
    attrs = {"max_output_size": most, "per_class": per_class}
    numbers, counts = check(OP, inputs, attrs, backend=backend, constants=constants, host=HOST)
    for image in range(2):
        highest, of_class = scores[image].max(axis=1), scores[image].argmax(axis=1)
        stays: list[int] = []
        for box in np.argsort(-highest):
            rivals = [other for other in stays if not per_class or of_class[box] == of_class[other]]
            shares = [share(boxes[image, box], boxes[image, other]) for other in rivals]
            if highest[box] >= least and all(part <= overlap for part in shares):
                stays.append(int(box))
        stays = stays[:most]
        assert counts[image] == len(stays)
        assert numbers[image].tolist() == stays + [-1] * (most - len(stays))


def test_hand_worked_numbers(backend: str) -> None:
    """The first two of three squares share 1/3; a score of 2 is just enough; ties keep their order."""
    scores = np.array([[[3, 0], [0, 2], [2, 1]]], np.float32)
    squares = np.sort(ROW.reshape(1, 3, 2, 2), axis=2).reshape(1, 3, 4)
    for overlap, per_class, expected in (
        (1 / 3 - 0.01, False, [0, 2, -1]),
        (1 / 3 + 0.01, False, [0, 1, 2]),
        (1 / 3 - 0.01, True, [0, 1, 2]),
    ):
        inputs = [squares, scores, np.float32(overlap), np.float32(2)]
        attrs = {"max_output_size": 3, "per_class": per_class}
        numbers, counts = check(OP, inputs, attrs, backend=backend, host=HOST)
        assert numbers[0].tolist() == expected
        assert counts[0] == 3 - expected.count(-1)


def test_the_best_box_stays_if_none_is_good_enough(backend: str) -> None:
    scores = np.array([[[1], [3], [2]], [[9], [1], [1]]], np.float32)
    inputs = [np.stack([ROW, ROW]), scores, np.float32(0.5), np.float32(5)]
    for keep, expected in ((True, [[1, -1], [0, -1]]), (False, [[-1, -1], [0, -1]])):
        attrs = {"max_output_size": 2, "keep_best": keep}
        numbers, counts = check(OP, inputs, attrs, backend=backend, host=HOST)
        assert numbers.tolist() == expected
        assert counts.tolist() == [int(keep), 1]


@pytest.mark.parametrize(("batch", "boxes", "most"), [(0, 3, 2), (2, 0, 2), (2, 3, 0)])
def test_no_boxes(batch: int, boxes: int, most: int, backend: str) -> None:
    inputs = [random(0, batch, boxes, 4), random(1, batch, boxes, 2), np.float32(0), np.float32(0)]
    for per_class in (False, True):
        attrs = {"max_output_size": most, "keep_best": True, "per_class": per_class}
        numbers, counts = check(OP, inputs, attrs, backend=backend, host=HOST)
        assert (numbers == -1).all()
        assert not counts.any()


@pytest.mark.parametrize(
    ("shapes", "most", "message"),
    [
        (((3, 4), (3, 1), (1,), (1,)), 2, r"boxes \[B, N, 4\] and scores \[B, N, classes\] are expected"),
        (((1, 3, 4), (1, 2, 1), (1,), (1,)), 2, "are expected"),
        (((1, 3, 4), (1, 3, 0), (1,), (1,)), 2, "are expected"),
        (((1, 3, 4), (1, 3, 1), (2,), (1,)), 2, "input 2 must be one number"),
        (((1, 3, 4), (1, 3, 1), (1,), (1,)), -1, r"max_output_size must be in 0 \.\.\. "),
    ],
)
def test_errors(shapes: tuple[tuple[int, ...], ...], most: int, message: str) -> None:
    inputs = [random(k, *shape) for k, shape in enumerate(shapes)]
    with pytest.raises(ModelError, match=f"{OP}: .*{message}"):
        model_of(OP, inputs, {"max_output_size": most})
