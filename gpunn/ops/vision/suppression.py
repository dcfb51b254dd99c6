"""Boxes that do not overlap, for a batch of images: batched_non_max_suppression."""

from __future__ import annotations

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.check import expect_bool, expect_dtype, expect_int, expect_unquantised
from gpunn.ops.op import Op, op
from gpunn.ops.vision.detection import HOST_REASON, MAX_DETECTIONS, best, suppress
from gpunn.types import Array, DType, TensorType


def _infer(call: Call) -> tuple[TensorType, TensorType]:
    boxes, scores = (expect_dtype(call, index, DType.FLOAT32) for index in range(2))
    if boxes.rank != 3 or scores.rank != 3 or boxes.shape != (*scores.shape[:2], 4) or not scores.shape[2]:
        call.fail(f"boxes [B, N, 4] and scores [B, N, classes] are expected, got {boxes} and {scores}")
    for index in (2, 3):
        if expect_unquantised(call, index, DType.FLOAT32).size != 1:
            call.fail(f"input {index} must be one number, got {call.input(index)}")
    expect_bool(call, "per_class")
    expect_bool(call, "keep_best")
    count = expect_int(call, "max_output_size", call["max_output_size"])
    if not 0 <= count <= MAX_DETECTIONS:
        call.fail(f"max_output_size must be in 0 ... {MAX_DETECTIONS}, got {count}")
    batch = boxes.shape[0]
    return TensorType(DType.INT32, (batch, count)), TensorType(DType.INT32, (batch,))


def _chosen(
    corners: Array, scores: Array, count: int, score_threshold: float, iou_threshold: float, per_class: bool
) -> Array:
    """Choose up to `count` boxes of one image, best first."""
    highest = scores.max(axis=1)
    if not per_class:
        return suppress(corners, highest, count, score_threshold, iou_threshold)
    of_class = scores.argmax(axis=1)
    kept = [np.empty(0, np.int64)]
    for number in np.unique(of_class):
        own = np.flatnonzero(of_class == number)
        kept.append(own[suppress(corners[own], highest[own], count, score_threshold, iou_threshold)])
    found = np.sort(np.concatenate(kept))
    return np.asarray(found[best(highest[found], count)])


@op(_infer, host_reason=HOST_REASON, precise=True, unbounded=True)
def batched_non_max_suppression(
    boxes: Array,
    scores: Array,
    iou_threshold: Array,
    score_threshold: Array,
    *,
    max_output_size: int,
    per_class: bool = False,
    keep_best: bool = False,
) -> tuple[Array, Array]:
    """Choose boxes of each image that do not overlap better ones: (numbers [B, M], how many [B]).

    boxes float32 [B, N, 4]: one corner and the opposite one, further along both axes; scores float32 [B, N,
    classes]. A box is as good as its best class. It takes part with a score of at least score_threshold, and
    is dropped if its intersection with a better chosen box, divided by their union, is above iou_threshold;
    with per_class only if both have the same best class. Numbers are int32, best first, up to M =
    max_output_size, and filled up with -1; for equal scores the first box comes first. keep_best: if the
    scores of an image are all too low, its best box is chosen. iou_threshold and score_threshold are one
    float32 each. Raises ModelError for other dtypes, shapes and sizes. NeuralNetwork.proto of Core ML,
    NonMaximumSuppressionLayerParams.
    """
    numbers = np.full((len(boxes), max_output_size), -1, np.int32)
    counts = np.zeros(len(boxes), np.int32)
    thresholds = float(score_threshold.item()), float(iou_threshold.item())
    for image, (corners, of_class) in enumerate(zip(boxes, scores, strict=True)):
        found = _chosen(corners, of_class, max_output_size, *thresholds, per_class)
        if keep_best and not len(found):
            found = best(of_class.max(axis=1), min(1, max_output_size))
        numbers[image, : len(found)], counts[image] = found, len(found)
    return numbers, counts


OPS: tuple[Op, ...] = (batched_non_max_suppression,)
