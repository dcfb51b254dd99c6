"""Detection: a few boxes from a detector's raw predictions (detection_postprocess, non_max_suppression)."""

from __future__ import annotations

import heapq
import math

import numpy as np

from gpunn.errors import ModelError
from gpunn.ops.call import Call
from gpunn.ops.check import expect_bool, expect_dtype, expect_float, expect_int, expect_unquantised
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, TensorType, float32

MAX_DETECTIONS = 1 << 20  # boxes in a result: an attribute that a small file may set to anything
COUNTS = ("max_detections", "max_classes_per_detection", "detections_per_class", "num_classes")
_DEFAULTS = (math.nan, -math.inf, 0.0)  # of non_max_suppression: iou_threshold has none
HOST_REASON = "boxes are chosen one after the other, each by those before it"
SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")


def _infer(call: Call) -> tuple[TensorType, ...]:
    boxes, scores, anchors = (expect_dtype(call, index, DType.FLOAT32) for index in range(3))
    for index, rank in enumerate((3, 3, 2)):
        call.expect_rank(index, rank)
    count = boxes.shape[1]
    if boxes.shape[0] != 1 or boxes.shape[2] < 4:
        call.fail(f"boxes must have shape [1, N, 4 or more], got {list(boxes.shape)}")
    if scores.shape[:2] != (1, count) or anchors.shape != (count, 4):
        call.fail(f"{boxes} does not go with scores {scores} and anchors {anchors}")
    classes = _expect_attributes(call)
    if scores.shape[2] - classes not in (0, 1):
        call.fail(f"scores of {scores.shape[2]} classes are not those of {classes}, or one more (background)")
    total = call["max_detections"] * call["max_classes_per_detection"]
    if total > MAX_DETECTIONS:
        call.fail(f"{total} detections are too many, at most {MAX_DETECTIONS} make sense")
    return float32(1, total, 4), float32(1, total), float32(1, total), float32(1)


def _expect_attributes(call: Call) -> int:
    """Return the number of classes; raise ModelError for invalid attributes."""
    for name in COUNTS:
        if expect_int(call, name, call[name]) < 1:
            call.fail(f"{name} must be 1 or more, got {call[name]}")
    expect_bool(call, "use_regular_nms")
    for name in SCALES:
        scale = expect_float(call, name)
        if not math.isfinite(scale) or scale == 0:
            call.fail(f"{name} must be a number other than 0, got {scale}")
    if not 0 < expect_float(call, "nms_iou_threshold") <= 1:
        call.fail(f"nms_iou_threshold must be over 0 and at most 1, got {call['nms_iou_threshold']}")
    if math.isnan(expect_float(call, "nms_score_threshold")):
        call.fail("nms_score_threshold must be a number")
    return int(call["num_classes"])


def _decode(boxes: Array, anchors: Array, scales: tuple[float, float, float, float]) -> Array:
    """Compute corners [N, 4] (ymin, xmin, ymax, xmax) from centres and sizes relative to anchors.

    In float64, as TFLite; centres and half sizes are rounded to float32 before they are added.
    """
    dtype = boxes.dtype
    relative = boxes[:, :4].astype(np.float64) / np.asarray(scales)
    centre, size = anchors[:, :2].astype(np.float64), anchors[:, 2:].astype(np.float64)
    middle = (relative[:, :2] * size + centre).astype(dtype)
    half = (0.5 * np.exp(relative[:, 2:]) * size).astype(dtype)
    return np.concatenate([middle - half, middle + half], axis=1)


def _iou(box: Array, others: Array) -> Array:
    """Compute the intersection over union of one box with each of the others; 0 for boxes without an area."""
    zero = box.dtype.type(0)
    area = (box[2] - box[0]) * (box[3] - box[1])
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    common = np.prod(np.maximum(sides, zero), axis=1)
    empty = (areas <= 0) | (area <= 0)
    iou: Array = np.where(empty, zero, common / np.where(empty, 1, area + areas - common))
    return iou


def suppress(
    corners: Array, scores: Array, count: int, score_threshold: float, iou_threshold: float
) -> Array:
    """Choose up to `count` boxes, best first; none has a higher IoU with a better one than the threshold."""
    left = np.flatnonzero(scores >= scores.dtype.type(score_threshold))
    left = left[np.argsort(-scores[left], kind="stable")]
    chosen: list[int] = []
    while left.size and len(chosen) < count:
        first, left = int(left[0]), left[1:]
        chosen.append(first)
        left = left[~(_iou(corners[first], corners[left]) > scores.dtype.type(iou_threshold))]
    return np.array(chosen, np.int64)


def best(values: Array, count: int) -> Array:
    """Return the positions of the `count` highest values along the last axis; of equal values the first comes
    first.
    """
    return np.argsort(-values, axis=-1, kind="stable")[..., :count]


def _fast(
    corners: Array, scores: Array, max_detections: int, classes: int, thresholds: tuple[float, float]
) -> tuple[Array, Array, Array, int]:
    """Select boxes by their best scores. Return slots in the result, the box and class of each, and the
    number of boxes.
    """
    kept = suppress(corners, scores.max(axis=1, initial=-np.inf), max_detections, *thresholds)
    number = best(scores[kept], classes)
    slots = np.arange(len(kept))[:, None] * classes + np.arange(number.shape[1])
    return slots.reshape(-1), np.repeat(kept, number.shape[1]), number.reshape(-1), len(kept)


def _regular(
    corners: Array, scores: Array, max_detections: int, per_class: int, thresholds: tuple[float, float]
) -> tuple[Array, Array, Array, int]:
    """Select boxes within each class; otherwise as _fast."""
    kept = [suppress(corners, column, per_class, *thresholds) for column in scores.T]
    box = np.concatenate(kept)
    number = np.repeat(np.arange(len(kept)), [len(k) for k in kept])
    first = best(scores[box, number], max_detections)
    return np.arange(len(first)), box[first], number[first], len(first)


@op(_infer, host_reason=HOST_REASON, precise=True, unbounded=True)
def detection_postprocess(
    boxes: Array,
    scores: Array,
    anchors: Array,
    *,
    max_detections: int,
    max_classes_per_detection: int = 1,
    detections_per_class: int = 100,
    use_regular_nms: bool = False,
    num_classes: int,
    nms_score_threshold: float,
    nms_iou_threshold: float,
    y_scale: float,
    x_scale: float,
    h_scale: float,
    w_scale: float,
) -> tuple[Array, Array, Array, Array]:
    """Detect objects: (corners [1, D, 4] as ymin, xmin, ymax, xmax; classes [1, D]; scores [1, D]; count
    [1]).

    boxes [1, N, 4 or more]: centre y and x, height and width, relative to anchors [N, 4] in the same form: y
    / y_scale * anchor height + anchor y, exp(h / h_scale) * anchor height. scores [1, N, C or C + 1]: with
    one more than num_classes, the first is the background's and does not count. A box is dropped if its score
    is below nms_score_threshold, or if its IoU with a better box (intersection divided by union) is above
    nms_iou_threshold. Fast (use_regular_nms False): boxes compete by their best score, and each of
    max_detections boxes has its max_classes_per_detection best classes. Regular: boxes compete within each
    class, with up to detections_per_class boxes for each class, of which the max_detections best remain. D is
    max_detections * max_classes_per_detection; unused places are 0. For equal scores the first box and the
    lowest class come first. `count` is the number of boxes. Raises ModelError for other shapes and attributes
    and, in the run, for boxes of negative size. Inputs float32 or quantised, results float32. TFLite schema,
    OperatorCode.custom_code TFLite_Detection_PostProcess; TFLite's kernel of that name.
    """
    corners = _decode(boxes[0], anchors, (y_scale, x_scale, h_scale, w_scale))
    if (corners[:, 2:] < corners[:, :2]).any():
        raise ModelError("detection_postprocess: a box has a negative height or width")
    of_class = scores[0, :, scores.shape[2] - num_classes :]
    thresholds = nms_score_threshold, nms_iou_threshold
    if use_regular_nms:
        found = _regular(corners, of_class, max_detections, detections_per_class, thresholds)
    else:
        found = _fast(corners, of_class, max_detections, max_classes_per_detection, thresholds)
    total = max_detections * max_classes_per_detection
    results = [np.zeros((1, total, *tail), boxes.dtype) for tail in ((4,), (), ())]
    slots, box, number, count = found
    for result, values in zip(results, (corners[box], number, of_class[box, number]), strict=True):
        result[0, slots] = values
    return results[0], results[1], results[2], np.array([count], boxes.dtype)


def _infer_suppression(call: Call) -> tuple[TensorType, ...]:
    boxes, scores = (expect_dtype(call, index, DType.FLOAT32) for index in range(2))
    if boxes.shape != (scores.size, 4) or scores.rank != 1:
        call.fail(f"boxes [N, 4] and scores [N] are expected, got {boxes} and {scores}")
    count = expect_int(call, "max_output_size", call["max_output_size"])
    if not 0 <= count <= MAX_DETECTIONS:
        call.fail(f"max_output_size must be in 0 ... {MAX_DETECTIONS}, got {count}")
    for index in (k for k in range(2, 5) if call.has(k)):
        if expect_unquantised(call, index, DType.FLOAT32).size != 1:
            call.fail(f"input {index} must be one number, got {call.input(index)}")
        known = call.known(index)
        problem = "" if known is None else _problem(index, known.item())
        if problem:
            call.fail(problem)
    return TensorType(DType.INT32, (count,)), float32(count), TensorType(DType.INT32, ())


def _problem(index: int, value: float) -> str:
    """Say what is wrong with the value of input `index`, a parameter of non_max_suppression."""
    if index == 2:
        return "" if 0 <= value <= 1 else f"iou_threshold must be in 0 ... 1, got {value}"
    if index == 3:
        return "score_threshold must be a number" if math.isnan(value) else ""
    return "" if 0 <= value < math.inf else f"sigma must be 0 or more, got {value}"


def _select(
    corners: Array, scores: Array, count: int, thresholds: tuple[float, float], sigma: float
) -> list[tuple[int, Array]]:
    """Choose up to `count` boxes, best first, with their scores, which overlaps with better boxes reduce."""
    max_iou, min_score = (scores.dtype.type(threshold) for threshold in thresholds)
    decay = scores.dtype.type(-0.5 / sigma if sigma else 0)
    heap = [(-score, box, 0) for box, score in enumerate(scores) if score > min_score]
    heapq.heapify(heap)
    chosen: list[tuple[int, Array]] = []
    while heap and len(chosen) < count:
        negative, box, met = heapq.heappop(heap)
        iou = _iou(corners[box], corners[[other for other, _ in chosen[met:]]])[::-1]
        if (iou >= max_iou).any():
            continue
        factors = np.exp(decay * iou * iou)
        score = np.multiply.accumulate(np.concatenate([[-negative], factors]))[-1]
        if score == -negative:
            chosen.append((box, score))
        elif score > min_score:
            heapq.heappush(heap, (-score, box, len(chosen)))
    return chosen


@op(_infer_suppression, host_reason=HOST_REASON, precise=True)
def non_max_suppression(
    boxes: Array,
    scores: Array,
    iou_threshold: Array,
    score_threshold: Array | None = None,
    sigma: Array | None = None,
    *,
    max_output_size: int,
) -> tuple[Array, Array, Array]:
    """Choose boxes that do not overlap better ones: their indices, their scores, and their number.

    boxes [N, 4]: y and x of two opposite corners; scores [N]. Only boxes with a score above score_threshold
    take part. A box is dropped if its intersection with a better chosen box, divided by their union (IoU), is
    iou_threshold or more. With sigma > 0 each better chosen box also multiplies the score by
    exp(-IoU^2 / (2 sigma)), and the box takes part with the reduced score. For equal scores the first box
    comes first. The results are int32 [max_output_size], scores [max_output_size], both best first and filled
    up with 0, and an int32 scalar. Boxes and scores float32 or quantised; iou_threshold in 0 ... 1,
    score_threshold and sigma, by default -infinity and 0, one float32 each. Raises ModelError for other
    dtypes, shapes and sizes and, at once or in the run, for thresholds out of range. TFLite schema,
    NonMaxSuppressionV4Options and V5Options; Bodla et al., Soft-NMS, 2017.
    """
    given = (iou_threshold, score_threshold, sigma)
    iou, least, decay = (
        float(default if v is None else v.item()) for v, default in zip(given, _DEFAULTS, strict=True)
    )
    problem = next(filter(None, (_problem(k, value) for k, value in enumerate((iou, least, decay), 2))), "")
    if problem:
        raise ModelError(f"non_max_suppression: {problem}")
    one, other = boxes[:, :2], boxes[:, 2:]
    corners = np.concatenate([np.minimum(one, other), np.maximum(one, other)], axis=1)
    chosen = _select(corners, scores, max_output_size, (iou, least), decay)
    numbers, values = np.zeros(max_output_size, np.int32), np.zeros(max_output_size, scores.dtype)
    for place, (box, score) in enumerate(chosen):
        numbers[place], values[place] = box, score
    return numbers, values, np.array(len(chosen), np.int32)


OPS: tuple[Op, ...] = (detection_postprocess, non_max_suppression)
