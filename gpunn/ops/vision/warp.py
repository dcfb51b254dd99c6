"""Affine maps of images: warp_affine resamples by a matrix, rotated_crop_matrix makes one from points."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpunn.kernel import Kernel, Read, Unsupported, Write, fits_i32, flat_threads, vec_width
from gpunn.ops.accuracy import EPS, Accuracy, Evaluation
from gpunn.ops.call import Call
from gpunn.ops.check import (
    FLOATS,
    expect_bool,
    expect_dtype,
    expect_entries,
    expect_float,
    expect_unquantised,
)
from gpunn.ops.gradient import formula
from gpunn.ops.kernels.chain import boxes, chained, keeping
from gpunn.ops.op import Op, op
from gpunn.ops.vision.crop import LARGEST
from gpunn.ops.vision.gradients import crop_matrix, warp
from gpunn.ops.vision.image import expect_image, image_params
from gpunn.types import Array, DType, TensorType, bounded, float32

Numbers = tuple[float, float]


def _infer_warp(call: Call) -> TensorType:
    x, matrix = expect_unquantised(call, 0, *FLOATS), expect_unquantised(call, 1, DType.FLOAT32)
    batch, _, _, channels = call.expect_rank(0, 4).shape
    if matrix.shape != (batch, 4, 4):
        call.fail(f"matrices must have shape [{batch}, 4, 4], got {list(matrix.shape)}")
    size = expect_image(call)
    expect_bool(call, "half_pixel_centers")
    return bounded("warped", x.with_shape((batch, *size, channels)))


def _warp_kernel(call: Call) -> Kernel:
    extents = (*call.x.shape[1:3], *call["size"])
    if not fits_i32(call.x.size, call.y.size) or max(extents) > LARGEST:
        raise Unsupported("more elements than the shaders can count")
    lanes = vec_width(call.x.shape[3])
    return Kernel(
        body="warp_affine",
        threads=flat_threads(call.y.size // lanes),
        reads=(Read("x", 0, lanes), Read("matrix", 1, 4)),
        writes=(Write(width=lanes),),
        params={**image_params(call, lanes), "centre": 0.5 if call["half_pixel_centers"] else 0.0},
        lanes=lanes,
        reason="four taps for each result",
    )


def _positions(matrix: Array, size: tuple[int, int], half_pixel_centers: bool) -> tuple[Array, Array]:
    """Return the row and the column in the input for every pixel of the result, each [N, size...]."""
    a, b, shift = (matrix[:, :2, k, None, None] for k in (0, 1, 3))
    if half_pixel_centers:
        half = matrix.dtype.type(0.5)
        shift = shift + (a * half + b * half - half)
    rows, columns = (np.arange(n, dtype=matrix.dtype) for n in size)
    column, row = np.moveaxis(a * columns + b * rows[:, None] + shift, 1, 0)
    return row, column


def _warp_error(evaluation: Evaluation) -> Array:
    """Return what float32 costs: four products for each result, and positions.

    A position is a sum of up to six rounded numbers: 8 eps of their sizes. The result changes by as much of
    the greatest difference of two neighbours; at the border of the image it may be 0 instead.
    """
    x, matrix = evaluation.input(0), evaluation.input(1)
    size = evaluation.call["size"]
    largest = np.abs(x).max(axis=(1, 2), initial=0.0)[:, None, None, :]
    total = np.broadcast_to(4 * EPS * largest, evaluation.results[0].shape).copy()
    off = [8 * EPS * (1 + p) for p in _positions(np.abs(matrix), size, False)]
    exact = _positions(matrix, size, evaluation.call["half_pixel_centers"])
    for axis, (position, error) in enumerate(zip(exact, off, strict=True), 1):
        step = np.abs(np.diff(x, axis=axis)).max(axis=(1, 2), initial=0.0)[:, None, None, :]
        border = np.minimum(np.abs(position), np.abs(position - (x.shape[axis] - 1)))[..., None]
        total += np.where(border <= error[..., None], largest, error[..., None] * step)
    return total


@op(
    _infer_warp,
    _warp_kernel,
    precise=True,
    accuracy=Accuracy(formula=_warp_error, arithmetic=True),
    flops=lambda call: 8 * call.y.size,
    formula=formula(warp),
)
def warp_affine(x: Array, matrix: Array, *, size: tuple[int, int], half_pixel_centers: bool = False) -> Array:
    """Resample each image of x linearly at the points that its matrix maps the result's pixels to.

    x [N, H, W, C]; matrix float32 [N, 4, 4]; result [N, size[0], size[1], C]. The pixel in row i and column j
    is the image's point at column m00 j + m01 i + m03 and row m10 j + m11 i + m13; the rest of the matrix
    does not count. With half_pixel_centers i and j are the centres of pixels, half a pixel further, on both
    sides. Points outside of the centres of the border's pixels give 0, and so do positions that are no
    numbers. dtype: float32 or float16. Raises ModelError for other dtypes and shapes, sizes below 1, and
    images without pixels. MediaPipe, util/tflite/operations/transform_tensor_bilinear.cc; its tensors are
    those of the TFLite schema.
    """
    row, column = _positions(matrix, size, half_pixel_centers)
    _, height, width, _ = x.shape
    inside = (row >= 0) & (row <= height - 1) & (column >= 0) & (column <= width - 1)
    row, column = np.where(inside, row, 0), np.where(inside, column, 0)
    above, left = row.astype(np.int64), column.astype(np.int64)
    below, right = np.minimum(above + 1, height - 1), np.minimum(left + 1, width - 1)
    down, across = ((p - q)[..., None].astype(x.dtype) for p, q in ((row, above), (column, left)))
    image = np.arange(len(x))[:, None, None]
    upper = x[image, above, left] * (1 - across) + x[image, above, right] * across
    lower = x[image, below, left] * (1 - across) + x[image, below, right] * across
    return np.asarray(np.where(inside[..., None], upper * (1 - down) + lower * down, x.dtype.type(0)))


def _infer_matrix(call: Call) -> TensorType:
    points = expect_dtype(call, 0, DType.FLOAT32)
    if points.rank != 2 or points.shape[0] < 3 or points.shape[1] < 2:
        call.fail(f"points must have shape [3 or more, 2 or more], got {list(points.shape)}")
    for name in ("scale", "origin", "stretch"):
        values = expect_entries(call, name, 2)
        if not all(isinstance(v, int | float) and math.isfinite(v) for v in values):
            call.fail(f"{name} must be two numbers, got {call[name]}")
    if not math.isfinite(expect_float(call, "rotation")):
        call.fail(f"rotation must be a number, got {call['rotation']}")
    expect_bool(call, "half_turn")
    return float32(4, 4)


def _matrix_kernels(call: Call) -> list[Kernel]:
    rotation = float(call["rotation"])
    pairs = {name: tuple(map(float, call[name])) for name in ("scale", "origin", "stretch")}
    kernel = Kernel(
        body="rotated_crop_matrix",
        threads=(1, 1, 1),
        workgroup=(1, 1, 1),
        reads=(Read("points", 0),),
        params={
            "count": 1,
            "width": call.x.shape[1],
            "cosine": math.cos(rotation),
            "sine": math.sin(rotation),
            "half_turn": int(call["half_turn"]),
            **{f"{name}_{axis}": pair[k] for name, pair in pairs.items() for k, axis in enumerate("xy")},
        },
        reason="one invocation for the matrix",
    )
    box = replace(keeping(kernel, {"y": float32(4)}, {}), body="rotated_crop_box")
    return chained(kernel, box, boxes((call.x.shape[0] - 2,), call.device.max_loop_iterations))


def _matrix_error(evaluation: Evaluation) -> Array:
    """Return what float32 costs: about 30 roundings of numbers as large as the points and the box.

    Rotated points, and what their directions are off by, are 16 eps of the farthest point apart. A side of
    the box has two of them.
    """
    attrs, reach = evaluation.call.attrs, np.abs(evaluation.input(0)[:, :2]).max()
    (sx, sy), (ox, oy) = np.abs(attrs["scale"]), np.abs(attrs["origin"])
    row = [2 * sx, 2 * sy, 0, 1 + 2 * (sx * ox + sy * oy)]
    stretched = np.abs([*attrs["stretch"], 0, 0])
    return np.asarray(32 * EPS * reach * stretched[:, None] * np.array(row))


@op(
    _infer_matrix,
    _matrix_kernels,
    precise=True,
    accuracy=Accuracy(formula=_matrix_error),
    formula=formula(crop_matrix),
)
def rotated_crop_matrix(
    points: Array,
    *,
    scale: Numbers,
    origin: Numbers,
    rotation: float = 0.0,
    stretch: Numbers = (1.0, 1.0),
    half_turn: bool = False,
) -> Array:
    """Make the matrix [4, 4] from pixels of a crop to an image, for a box around points that are turned.

    points float32 [P, 2 or more], x and y first. The crop is turned so that the direction from point 0 to
    point 1 comes to lie at the angle `rotation`, in radians; with half_turn at this angle or opposite,
    whatever is nearer for a direction along x. The box is the smallest one around the other points in the
    turned axes. The matrix shifts a pixel by -`origin`, multiplies it by the box's sides times `scale`,
    turns it back, shifts it by the box's centre, and multiplies the image's x and y by `stretch`; pairs are
    (x, y). Equal points 0 and 1 have the direction of x. Raises ModelError for other dtypes and shapes, and
    for attributes that are no numbers. MediaPipe, util/tflite/operations/landmarks_to_transform_matrix.cc;
    its tensors are those of the TFLite schema.
    """
    dx, dy = (points[1] - points[0])[:2]
    if half_turn and dx < 0:
        dx, dy = -dx, -dy
    angle = points.dtype.type(rotation) - np.arctan2(dy, dx)
    cosine, sine = np.cos(angle), np.sin(angle)
    turn = np.array([[cosine, -sine], [sine, cosine]], points.dtype)
    turned = points[2:, :2] @ turn.T
    low, high = turned.min(axis=0), turned.max(axis=0)
    linear = turn.T * ((high - low) * np.asarray(scale, points.dtype))
    shift = turn.T @ ((low + high) / 2) - linear @ np.asarray(origin, points.dtype)
    matrix = np.eye(4, dtype=points.dtype)
    matrix[:2, :2], matrix[:2, 3] = linear, shift
    matrix[:2] *= np.asarray(stretch, points.dtype)[:, None]
    return matrix


OPS: tuple[Op, ...] = (warp_affine, rotated_crop_matrix)
