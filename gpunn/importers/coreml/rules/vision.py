"""Rules of layers that resample images, and that choose among boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpunn.graph.operation import Operand
from gpunn.importers.common.node import RefusedError
from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.rules.arithmetic import as_number, pair
from gpunn.importers.coreml.rules.windows import channel_first, extents, images
from gpunn.types import Array

# Of SamplingMode, by number.
SAMPLINGS = ("strict_align_endpoints", "align_endpoints", "upsample", "roi_align")
WIDTH_FIRST, CENTRES = (1, 3), (2, 3)  # of BoxCoordinatesMode
# Start and end lie half a size before and after the centre, along both axes.
FROM_CENTRES = np.array([[1, 0, -0.5, 0], [0, 1, 0, -0.5], [1, 0, 0.5, 0], [0, 1, 0, 0.5]])


def _sampling(node: Node) -> str:
    """Return the sampling method by name."""
    number = node.params.mode.samplingMethod
    if not 0 <= number < len(SAMPLINGS):
        raise RefusedError(f"its sampling method {number} is not in the format's document")
    return SAMPLINGS[number]


def resize_bilinear(node: Node) -> Value:
    """Return images of a stated size, sampled by one of four methods."""
    params, x = node.params, node.only()
    image = images(node, x)
    count, height, width, _ = node.shape(image)
    size, sampling = extents(node, params.targetSize, "targetSize", 1), _sampling(node)
    if sampling == "roi_align" or (sampling == "align_endpoints" and 1 in size):
        boxes = node.floats(np.tile([0, 0, height - 1, width - 1], (count, 1)))
        every = node.integers(np.arange(count))
        y = node.add("crop_resize", image, boxes, every, size=size, sampling=sampling)
    else:
        y = node.add("resize_bilinear", image, size=size, align_corners=sampling != "upsample")
    return channel_first(node, y, node.shape(x)[:-3])


def crop_resize(node: Node) -> Value:
    """Return windows of images: each of all images, or of the image whose number stands before the box."""
    x, roi = pair(node)
    shape, count = x.type.shape, math.prod(roi.type.shape[:1])
    entries = roi.type.size // max(count, 1)
    if len(shape) != 5 or shape[0] != 1:
        node.corrupt(f"expected an input [1, batch, channels, height, width], got shape {list(shape)}")
    if roi.type.shape not in ((count, 1, 4, 1, 1), (count, 1, 5, 1, 1)):
        node.corrupt(f"boxes have shape {list(roi.type.shape)}, expected [N, 1, 4, 1, 1] or [N, 1, 5, 1, 1]")
    batch = shape[1]
    rows = node.add("reshape", roi, shape=(count, entries))
    boxes = node.add("fully_connected", rows, node.floats(_corners(node, shape[-2:], entries)))
    number: Value
    if entries == 5:
        first = node.add(
            "strided_slice", rows, begin=(None, 0), end=(None, 1), strides=(1, 1), shrink_axes=(1,)
        )
        number, leading = node.add("cast", first, dtype="int32"), (count, 1)
    else:
        apart = node.add("reshape", boxes, shape=(count, 1, 4))
        repeated = node.add("broadcast_to", apart, shape=(count, batch, 4))
        boxes = node.add("reshape", repeated, shape=(count * batch, 4))
        number, leading = node.integers(np.tile(np.arange(batch), count)), (count, batch)
    size = extents(node, node.params.targetSize, "targetSize", 1)
    y = node.add("crop_resize", images(node, x), boxes, number, size=size, sampling=_sampling(node))
    y = node.add("transpose", y, perm=(0, 3, 1, 2))
    return node.add("reshape", y, shape=(*leading, *node.shape(y)[1:]))


def non_maximum_suppression(node: Node) -> Sequence[Value]:
    """Return boxes that do not overlap better ones, their scores, their numbers, and how many there are.

    What is left over is filled with boxes and scores of 0 and numbers of -1.
    """
    params, count = node.params, len(node.inputs)
    if not 2 <= count <= 5:
        node.corrupt(f"expected 2 to 5 inputs, got {count}")
    boxes, scores = node.operand(0), node.operand(1)
    iou, least = (
        node.operand(k) if k < count else node.scalar(getattr(params, name))
        for k, name in ((2, "iouThreshold"), (3, "scoreThreshold"))
    )
    size = int(params.maxBoxes)
    if count == 5:
        (size,) = node.numbers(4, "maximum number of boxes")[:1] or (0,)
    corners = _from_centres(node, boxes)
    attrs = {"max_output_size": size, "per_class": params.perClassSuppression, "keep_best": True}
    found = node.add("batched_non_max_suppression", corners, scores, iou, least, **attrs)
    places = node.add("add", found, node.integers(1))  # behind a box of zeros

    def chosen(x: Operand) -> Value:
        behind = node.add("pad", x, paddings=((0, 0), (1, 0), (0, 0)), value=0.0)
        return node.add("gather", behind, places, axis=1, batch_dims=1)

    numbers = as_number(node, found), as_number(node, found.beside(1))
    return chosen(boxes), chosen(scores), *numbers


def _from_centres(node: Node, boxes: Operand) -> Value:
    """Return boxes [B, N, 4] of centre and size by their corners."""
    shape = boxes.type.shape
    if len(shape) != 3 or shape[2] != 4:
        node.corrupt(f"boxes have shape {list(shape)}, expected [B, N, 4]")
    rows = node.add("reshape", boxes, shape=(shape[0] * shape[1], 4))
    corners = node.add("fully_connected", rows, node.floats(FROM_CENTRES))
    return node.add("reshape", corners, shape=shape)


def _corners(node: Node, spatial: tuple[int, ...], entries: int) -> Array:
    """Return the matrix [4, entries] that makes (top, left, bottom, right) in pixels of a box of the file."""
    params, mode = node.params, node.params.boxIndicesMode.boxMode
    if not 0 <= mode < 4:
        raise RefusedError(f"its box mode {mode} is not in the format's document")
    matrix = np.eye(4)
    if mode in CENTRES:
        matrix = FROM_CENTRES
    if mode in WIDTH_FIRST:
        matrix = matrix[:, [1, 0, 3, 2]]
    scale = params.spatialScale or 1.0
    if not math.isfinite(scale):
        node.corrupt(f"spatialScale is {scale}")
    if params.normalizedCoordinates:
        matrix = matrix * np.tile([n - 1 for n in spatial], 2)[:, None]
    return np.pad(scale * matrix, ((0, 0), (entries - 4, 0)))
