"""Poses of people from the maps of a network: posenet_decoder."""

from __future__ import annotations

import heapq
import math

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.check import expect_dtype, expect_float, expect_int
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, TensorType, float32

KEYPOINTS = 17  # nose, then left and right: eye, ear, shoulder, elbow, wrist, hip, knee, ankle
# Along these a pose is followed from keypoint to keypoint, in both directions.
EDGES = (
    *((0, 1), (1, 3), (0, 2), (2, 4), (0, 5), (5, 7), (7, 9), (5, 11), (11, 13), (13, 15)),
    *((0, 6), (6, 8), (8, 10), (6, 12), (12, 14), (14, 16)),
)
MASK = 33  # rows and columns of a mask of a person
MAX_POSES = 1 << 14  # in a result: an attribute that a small file may set to anything
_REFINEMENTS = 5  # steps along the short offsets
_LONG_STEPS = 3  # steps along the long offsets


def _neighbours() -> list[list[tuple[int, int]]]:
    """List for each keypoint the other ends of its edges, and the first channel of the offsets to them.

    Mid offsets have the channels [forward y, forward x, backward y, backward x], each for all edges.
    For the first backward edge, from the left eye to the nose, Coral's decoder reads forward x and
    backward y. Its results count.
    """
    found: list[list[tuple[int, int]]] = [[] for _ in range(KEYPOINTS)]
    for number, (near, far) in enumerate(EDGES):
        found[near].append((far, number))
    for number, (near, far) in enumerate(EDGES):
        found[far].append((near, number + (2 if number else 1) * len(EDGES)))
    return found


_NEIGHBOURS = _neighbours()


def _infer(call: Call) -> tuple[TensorType, ...]:
    heatmaps = expect_dtype(call, 0, DType.FLOAT32)
    channels = (KEYPOINTS, 2 * KEYPOINTS, 4 * len(EDGES), 2 * KEYPOINTS)
    if heatmaps.rank != 4 or min(heatmaps.shape) < 1:
        call.fail(f"takes maps [1, height, width, channels], got {heatmaps}")
    for index in range(len(call.inputs)):
        size = heatmaps.shape[1:3] if index < 3 else (MASK, MASK)
        found, wanted = expect_dtype(call, index, DType.FLOAT32), (1, *size, channels[index])
        if found.shape != wanted:
            call.fail(f"input {index} must have shape {list(wanted)}, got {list(found.shape)}")
    count = expect_int(call, "max_detections", call["max_detections"])
    if not 1 <= count <= MAX_POSES:
        call.fail(f"max_detections must be in 1 ... {MAX_POSES}, got {count}")
    if expect_int(call, "stride", call["stride"]) < 1:
        call.fail(f"stride must be 1 or more, got {call['stride']}")
    for name in ("score_threshold", "nms_radius"):
        if not 0 <= expect_float(call, name) < math.inf:
            call.fail(f"{name} must be 0 or more, got {call[name]}")
    masks = (float32(1, count, MASK, MASK),) if call.has(3) else ()
    return (
        float32(1, count, KEYPOINTS, 2),
        float32(1, count, KEYPOINTS),
        float32(1, count),
        float32(1),
        *masks,
    )


def _numbers(values: Array) -> Array:
    """Replace NaN by 0."""
    return np.asarray(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf))


def _sample(maps: Array, points: Array, channels: Array) -> Array:
    """Interpolate channels of maps [height, width, channels] at points (y, x) inside; NaN becomes 0."""
    low = np.floor(points).astype(np.int64)
    high = np.ceil(points).astype(np.int64)
    down, along = np.moveaxis(points - low, -1, 0)
    (top, left), (bottom, right) = np.moveaxis(low, -1, 0), np.moveaxis(high, -1, 0)
    above = (1 - along) * maps[top, left, channels] + along * maps[top, right, channels]
    below = (1 - along) * maps[bottom, left, channels] + along * maps[bottom, right, channels]
    return _numbers((1 - down) * above + down * below)


def _moved(maps: Array, points: Array, channels: Array, apart: int) -> Array:
    """Move points by the offsets at them, within the maps; x is `apart` channels behind y."""
    offsets = [_sample(maps, points, channels + shift) for shift in (0, apart)]
    limits = np.array(maps.shape[:2], points.dtype) - 1
    return np.asarray(np.clip(points + np.stack(offsets, axis=-1), 0, limits))


def _roots(scores: Array, shorts: Array, threshold: float) -> list[tuple[int, Array]]:
    """List keypoints and points where a score is the largest around it, best first, ties in their order."""
    height, width, _ = scores.shape
    border = np.pad(scores, ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    around = [border[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    with np.errstate(all="ignore"):
        logit = -np.log(1 / (threshold + 1e-6) - 1)
        peaks = (scores >= logit) & ~np.any([a > scores for a in around], axis=0)
    places = np.argwhere(peaks)
    order = np.argsort(-scores[peaks], kind="stable")
    y, x, keypoint = places[order].T
    offsets = np.stack([shorts[y, x, keypoint], shorts[y, x, keypoint + KEYPOINTS]], axis=-1)
    points = places[order, :2].astype(scores.dtype) + _numbers(offsets)
    return list(zip(keypoint.tolist(), np.clip(points, 0, np.array([height - 1, width - 1])), strict=True))


def _followed(maps: tuple[Array, Array, Array], root: int, point: Array) -> tuple[Array, Array]:
    """Return points [17, 2] and scores [17] of the pose that a root belongs to, the best neighbour first."""
    scores, shorts, mids = maps
    points, found = np.zeros((KEYPOINTS, 2), scores.dtype), np.zeros(KEYPOINTS, scores.dtype)
    left, pushed = set(range(KEYPOINTS)), 0
    queue = [(-float(_sample(scores, point, np.array(root))), pushed, root, point)]
    while queue:
        score, _, keypoint, point = heapq.heappop(queue)
        if keypoint not in left:
            continue
        left.remove(keypoint)
        points[keypoint], found[keypoint] = point, -score
        following = [(far, channel) for far, channel in _NEIGHBOURS[keypoint] if far in left]
        if not following:
            continue
        far, channels = np.array(following).T
        ends = _moved(mids, np.repeat(point[None], len(far), axis=0), channels, len(EDGES))
        for _ in range(_REFINEMENTS):
            ends = _moved(shorts, ends, far, KEYPOINTS)
        for k, value in enumerate(_sample(scores, ends, far)):
            pushed += 1
            heapq.heappush(queue, (-float(value), pushed, int(far[k]), ends[k]))
    return points, 1 / (1 + np.exp(-found))


def _near(a: Array, b: Array, radius: float) -> Array:
    return np.asarray(((a - b) ** 2).sum(axis=-1) <= radius * radius)


def _poses(
    maps: tuple[Array, Array, Array], most: int, threshold: float, radius: float
) -> tuple[Array, Array, Array]:
    """Return points [n, 17, 2], keypoint scores [n, 17] and scores [n] of up to `most` poses, best first."""
    points: list[Array] = []
    scores: list[Array] = []
    for root, place in _roots(maps[0], maps[1], threshold):
        if len(points) == most:
            break
        if any(_near(place, pose[root], radius) for pose in points):
            continue
        pose, found = _followed(maps, root, place)
        if found.mean() >= threshold:
            points.append(pose)
            scores.append(found)
    if not points:
        return np.zeros((0, KEYPOINTS, 2)), np.zeros((0, KEYPOINTS)), np.zeros(0)
    order = np.argsort([-s.mean() for s in scores], kind="stable")
    whole, parts = np.array(points), np.array(scores)
    total = np.zeros(len(points), parts.dtype)
    for rank, k in enumerate(order):  # what lies on a keypoint of a better pose does not count
        covered = _near(whole[k], whole[order[:rank]], radius).any(axis=0)
        total[k] = np.where(covered, 0, parts[k]).mean()
    order = np.argsort(-total, kind="stable")
    order = order[total[order] >= threshold]
    return whole[order], parts[order], total[order]


def _masks(longs: Array, points: Array, stride: int) -> Array:
    """Return [n, 33, 33]: 1 where a pixel's offsets lead nearest to a pose's keypoints."""
    grid = np.stack(np.meshgrid(np.arange(MASK), np.arange(MASK), indexing="ij"), axis=-1)
    reached = np.repeat(grid[:, :, None].astype(longs.dtype), KEYPOINTS, axis=2)
    for _ in range(_LONG_STEPS):
        reached = _moved(longs, reached, np.arange(KEYPOINTS), KEYPOINTS)
    if not len(points):
        return np.zeros((0, MASK, MASK), longs.dtype)
    distances = [((reached * stride - pose) ** 2).sum(axis=(-2, -1)) for pose in points]
    return np.asarray(np.argmin(distances, axis=0) == np.arange(len(points))[:, None, None], longs.dtype)


@op(_infer, host_reason="poses are found one after the other", precise=True, unbounded=True)
def posenet_decoder(
    heatmaps: Array,
    shorts: Array,
    mids: Array,
    longs: Array | None = None,
    *,
    max_detections: int,
    score_threshold: float,
    stride: int,
    nms_radius: float,
) -> tuple[Array, ...]:
    """Find poses: (keypoints [1, D, 17, 2], y and x in pixels; their scores [1, D, 17]; scores [1, D] of
    poses; count [1]; with longs also masks [1, D, 33, 33]).

    D is max_detections; unused places are 0. heatmaps [1, height, width, 17]: logits of each keypoint.
    Offsets in pixels, y before x: shorts [1, height, width, 34] to the exact place of a keypoint; mids
    [1, height, width, 64] along 16 edges, forwards and backwards; longs [1, 33, 33, 34] from each pixel to
    the keypoints of its person. A pixel of the maps stands for `stride` pixels.
    Every local maximum of a heatmap with a probability of score_threshold or more is the root of a pose, the
    best one first, unless a pose has this keypoint within nms_radius pixels already. From there the other
    keypoints are found along edges, by the best scores. A pose's score is the mean of its keypoints' scores,
    without those within nms_radius of a better pose's; below score_threshold it is dropped. Of equal scores
    the first maximum (by row, column, keypoint) counts; Coral does not define which. Offsets that are NaN
    count as 0. Inputs float32 or quantised, results float32. Raises ModelError for other shapes and
    attributes. TFLite schema, OperatorCode.custom_code PosenetDecoderOp of Coral; Papandreou et al. 2018,
    arXiv:1803.08225.
    """
    dtype = heatmaps.dtype
    maps = heatmaps[0], shorts[0] / dtype.type(stride), mids[0] / dtype.type(stride)
    points, parts, total = _poses(maps, max_detections, score_threshold, nms_radius / stride)
    found = [points * stride, parts, total]
    if longs is not None:
        found.append(_masks(longs[0] / dtype.type(stride), points * stride, stride))
    results = []
    for value in found:
        results.append(np.zeros((1, max_detections, *value.shape[1:]), dtype))
        results[-1][0, : len(total)] = value
    return (*results[:3], np.array([len(total)], dtype), *results[3:])


OPS: tuple[Op, ...] = (posenet_decoder,)
