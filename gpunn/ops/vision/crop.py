"""Windows of images, resampled: crop_resize."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpunn.kernel import Kernel, Read, Unsupported, Write, fits_i32, flat_threads, vec_width
from gpunn.ops.accuracy import EPS, Accuracy, Evaluation
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_dtype, expect_unquantised
from gpunn.ops.gradient import formula
from gpunn.ops.guard import Guard
from gpunn.ops.op import Op, op
from gpunn.ops.vision.gradients import crop
from gpunn.ops.vision.image import expect_image, image_params
from gpunn.types import Array, DType, TensorType

LARGEST = 1 << 24  # rows or columns that a float32 can count


@dataclass(frozen=True, slots=True)
class Sampling:
    """A method to lay n points between the start of a window and its end, d further.

    Point i lies min(d, (i + shift) * max(least, d + more) / parts) after the start. parts is n - 1 with
    `ends`, else n. `middle`: a single point lies in the middle, at d / 2.
    """

    more: float = 0.0
    least: float = 0.0
    shift: float = 0.0
    ends: bool = False
    middle: bool = False

    def steps(self, count: int) -> tuple[float, float]:
        """Return (shift, parts) for a number of points."""
        shift = 0.5 if self.middle and count == 1 else self.shift
        return shift, float(max(count - 1, 1) if self.ends else count)


SAMPLINGS = {
    "strict_align_endpoints": Sampling(ends=True),
    "align_endpoints": Sampling(ends=True, middle=True),
    "upsample": Sampling(more=1.0),
    "roi_align": Sampling(least=1.0, shift=0.5),
}


def _sampled(call: Call, count: int) -> tuple[float, float, float, float]:
    method = SAMPLINGS[call["sampling"]]
    return method.more, method.least, *method.steps(count)


def _infer(call: Call) -> TensorType:
    x, boxes = expect_unquantised(call, 0, *FLOATS), expect_dtype(call, 1, DType.FLOAT32)
    images = expect_unquantised(call, 2, DType.INT32)
    channels = call.expect_rank(0, 4).shape[3]
    count = images.size
    if images.rank != 1 or boxes.shape != (count, 4):
        call.fail(f"boxes [N, 4] and images [N] are expected, got {boxes} and {images}")
    size = expect_image(call)
    if call["sampling"] not in SAMPLINGS:
        call.fail(f"sampling must be one of {', '.join(SAMPLINGS)}, got {call['sampling']!r}")
    return x.with_shape((count, *size, channels))


def _kernel(call: Call) -> Kernel:
    _, height, width, channels = call.x.shape
    _, out_height, out_width, _ = call.y.shape
    if not fits_i32(call.x.size, call.y.size) or max(height, width) > LARGEST:
        raise Unsupported("more elements than the shaders can count")
    sampling = SAMPLINGS[call["sampling"]]
    (row_shift, row_parts), (column_shift, column_parts) = map(sampling.steps, (out_height, out_width))
    lanes = vec_width(channels)
    count = call.y.size // lanes
    return Kernel(
        body="crop_resize",
        threads=flat_threads(count),
        reads=(Read("x", 0, width=lanes), Read("boxes", 1, width=4), Read("images", 2)),
        writes=(Write(width=lanes),),
        params={
            **image_params(call, lanes),
            "more": sampling.more,
            "least": sampling.least,
            "row_shift": row_shift,
            "row_parts": row_parts,
            "column_shift": column_shift,
            "column_parts": column_parts,
        },
        lanes=lanes,
        reason="four taps for each result",
    )


def _taps(ends: Array, count: int, extent: int, sampling: Sampling) -> tuple[Array, Array, Array]:
    """Return for `count` points between each start and end [N, 2] the row before, the row after, and the
    distance from the row before, each [N, count].
    """
    shift, parts = sampling.steps(count)
    start, way = ends[:, :1], ends[:, 1:] - ends[:, :1]
    length = np.abs(way)
    spacing = np.maximum(sampling.least, length + sampling.more) / parts
    offset = np.minimum(length, (np.arange(count) + shift) * spacing)
    position = np.clip(start + np.where(way < 0, -offset, offset), 0, extent - 1)
    lower = np.nan_to_num(position).astype(np.int64)
    beyond = np.where(np.isfinite(way), position - lower, np.nan)
    return lower, np.minimum(lower + 1, extent - 1), beyond


def _error(evaluation: Evaluation) -> Array:
    """Return what float32 costs: four products for each result, and positions.

    A start, its distance from the end, the spacing and the sum are rounded: 8 eps of the greatest number
    among them. The result changes by as much of the greatest difference of two neighbours.
    """
    x, boxes, images = (evaluation.input(k) for k in range(3))
    images = images.astype(np.int64)
    finite = np.where(np.isfinite(boxes), np.abs(boxes), 0)
    largest = np.abs(x).max(axis=(1, 2), initial=0.0)[images]
    total = np.broadcast_to(4 * EPS * largest[:, None, None, :], evaluation.results[0].shape).copy()
    for axis in (1, 2):
        step = np.abs(np.diff(x, axis=axis)).max(axis=(1, 2), initial=0.0)[images]
        reach = np.maximum(finite[:, [axis - 1, axis + 1]].max(axis=1, initial=1.0), 1)
        total += (8 * EPS * reach[:, None] * step)[:, None, None, :]
    return total


@op(
    _infer,
    _kernel,
    guards=(Guard(2, lambda call: [range(call.x.shape[0])], "images"),),
    precise=True,
    accuracy=Accuracy(formula=_error, arithmetic=True),
    flops=lambda call: 8 * call.y.size,
    formula=formula(crop(_sampled)),
)
def crop_resize(x: Array, boxes: Array, images: Array, *, size: Sequence[int], sampling: str) -> Array:
    """Cut windows out of images x[B, H, W, C], and resample each linearly to [N, size[0], size[1], C].

    boxes: float32 [N, 4], top, left, bottom and right of each window in rows and columns, where 0 is the
    middle of the first row. images: int32 [N], the image of each. If the bottom lies above the top, the
    window is upside down; left and right likewise. The points between a start and an end that lies d further:
    strict_align_endpoints: from start to end in equal steps; a single one at the start. align_endpoints: the
    same; a single one in the middle. upsample: n points (d + 1) / n apart, the first at the start.
    roi_align: in the middle of n equal parts of d, or of 1 if d is less. No point lies beyond the end.
    Points outside the image equal the border. Boxes that are not finite give NaN. dtype: float32 or float16.
    Raises ModelError for other dtypes and shapes, sizes below 1, images without pixels and, at once or in the
    run, for the number of an image that is not there. NeuralNetwork.proto of Core ML, CropResizeLayerParams,
    SamplingMode.
    """
    ends, method = boxes.astype(np.float64), SAMPLINGS[sampling]
    top, bottom, down = _taps(ends[:, 0::2], size[0], x.shape[1], method)
    left, right, across = _taps(ends[:, 1::2], size[1], x.shape[2], method)
    down, across = (part.astype(x.dtype) for part in (down[:, :, None, None], across[:, None, :, None]))

    def row(rows: Array) -> Array:
        """Return the points of rows, between the columns before and after."""
        first, second = (x[images[:, None, None], rows[:, :, None], c[:, None, :]] for c in (left, right))
        return np.asarray(first * (1 - across) + second * across)

    return np.asarray(row(top) * (1 - down) + row(bottom) * down)


OPS: tuple[Op, ...] = (crop_resize,)
