"""Rules of the custom operators on landmarks in MediaPipe's models (a part of the table in mediapipe.py).

Their meaning is that of MediaPipe's kernels, util/tflite/operations/*.cc; their options are flexbuffers, read
as by TFLite's GPU delegate, delegates/gpu/common/mediapipe/*.cc. Both kernels read one image, and one matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpunn.importers.common.answers import Result, StepList, Steps, Value, constant
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.rules.options import Options, expect_counts, options_of

_VERSIONS = (1, 2)


def _options(node: Node) -> Options:
    """Return the options of an operator of a version that there is."""
    if node.version not in _VERSIONS:
        raise RefusedError(f"there is no version {node.version} of this operator")
    return options_of(node)


def _matrix(node: Node, steps: StepList, shape: tuple[int, ...]) -> Result:
    """Add a step that gives input 1, one matrix of 4 x 4, another shape."""
    type = node.operand(1).type
    if type.size != 16:
        node.corrupt(f"takes one matrix of 4 x 4 numbers, got {type}")
    return steps.add("reshape", (node.operand(1),), {"shape": shape})


def transform_tensor(node: Node) -> Steps:
    """Translate TransformTensorBilinear: pixels of the result, mapped to points of the image.

    Version 1, also called TransformTensor, has the option output_size, and maps whole pixels; version 2 has
    output_height and output_width, and maps centres of pixels. MediaPipe, transform_tensor_bilinear.cc.
    """
    expect_counts(node, 2, 1)
    options = _options(node)
    if options.values.get("mode", "bilinear") != "bilinear":
        raise RefusedError(f"mode {options.values['mode']!r}, only bilinear has a meaning")
    if node.version == 1:
        size = options.ints("output_size", 2, least=1)
    else:
        size = options.integer("output_height", least=1), options.integer("output_width", least=1)
    steps = StepList()
    matrix = _matrix(node, steps, (1, 4, 4))
    attrs = {"size": size, "half_pixel_centers": node.version == 2}
    return steps.answer(steps.add("warp_affine", (node.operand(0), matrix), attrs))


def transform_landmarks(node: Node) -> Steps:
    """Translate TransformLandmarks: x and y of points by a matrix without its third column; z stays.

    Version 1 has points of `dimensions` numbers, 3 or 2, side by side in the last axis, and multiplies the
    matrix's shift by `scale`. In version 2 the last axis is one point. MediaPipe, transform_landmarks.cc.
    """
    expect_counts(node, 2, 1)
    options, x = _options(node), node.operand(0)
    last = x.type.shape[-1] if x.type.rank else 0
    wide = options.integer("dimensions", 3) if node.version == 1 else last
    scale = options.number("scale", 1.0) if node.version == 1 else 1.0
    if wide not in (2, 3) or last % wide:
        node.corrupt(f"takes points of 2 or 3 numbers, got {wide} in {x.type}")
    if scale == 0:
        node.corrupt("option scale must not be 0")
    steps = StepList()
    points = steps.add("reshape", (x,), {"shape": (x.type.size // wide, wide)})
    matrix = _matrix(node, steps, (4, 4))
    linear = _part(steps, matrix, (0, 2), (0, 2))
    shift = _part(steps, matrix, (0, 2), (3, 4))
    shift = steps.add("reshape", (shift,), {"shape": (1, 2)})
    if scale != 1:
        shift = steps.add("mul", (shift, constant("scale", np.array(scale, np.float32))))
    flat = steps.add("batch_matmul", (_part(steps, points, (None, None), (0, 2)), linear), {"adj_b": True})
    moved = steps.add("add", (flat, shift))
    if wide == 3:
        moved = steps.add("concat", (moved, _part(steps, points, (None, None), (2, 3))), {"axis": 1})
    return steps.answer(steps.add("reshape", (moved,), {"shape": x.type.shape}))


def _part(
    steps: StepList, x: Value, rows: tuple[int | None, int | None], columns: tuple[int | None, int | None]
) -> Result:
    """Add a step that takes some rows and columns."""
    attrs = {"begin": (rows[0], columns[0]), "end": (rows[1], columns[1]), "strides": (1, 1)}
    return steps.add("strided_slice", (x,), attrs)


def transform_matrix(node: Node) -> Steps:
    """Translate Landmarks2TransformMatrix: the matrix [1, 4, 4] from pixels of a crop to the image.

    The crop is a box around some points of three numbers, turned as the line between two others. Version 1
    measures from the first pixel's centre to the last one's, and leaves it open which of the two is on the
    right; version 2 turns the line to target_rotation_radians. MediaPipe, landmarks_to_transform_matrix.cc.
    """
    expect_counts(node, 1, 1)
    options, x = _options(node), node.operand(0)
    count = x.type.size // 3
    if x.type.size % 3:
        node.corrupt(f"takes points of three numbers, got {x.type}")
    listed = options.ints("subset" if node.version == 1 else "subset_idxs")
    places = options.integer("left_rotation_idx"), options.integer("right_rotation_idx"), *listed
    if max(places) >= count:
        node.corrupt(f"there is no point {max(places)} among {count}")
    attrs = _crop_of_version_1(options) if node.version == 1 else _crop_of_version_2(options)
    steps = StepList()
    points = steps.add("reshape", (x,), {"shape": (count, 3)})
    chosen = steps.add("gather", (points, constant("points", np.array(places, np.int32))), {"axis": 0})
    matrix = steps.add("rotated_crop_matrix", (chosen,), attrs)
    return steps.answer(steps.add("reshape", (matrix,), {"shape": (1, 4, 4)}))


def _crop_of_version_1(options: Options) -> dict[str, Any]:
    """Return the attributes of rotated_crop_matrix for points that count up to landmarks_range."""
    if options.integer("dimensions") != 3:
        options.node.corrupt(f"takes points of 3 dimensions, got {options.values['dimensions']}")
    (height, width), (high, wide) = (
        options.ints(n, 2, least=k) for n, k in (("input_hw", 1), ("output_hw", 2))
    )
    times, reach = options.number("bbox_size_multiplier"), options.positive("landmarks_range")
    if times == 0:
        options.node.corrupt("option bbox_size_multiplier must not be 0")
    return {
        "scale": (times / (wide - 1), times / (high - 1)),
        "origin": ((wide - 1) / 2, (high - 1) / 2),
        "stretch": ((width - 1) / reach, (height - 1) / reach),
        "half_turn": True,
    }


def _crop_of_version_2(options: Options) -> dict[str, Any]:
    """Return the attributes of rotated_crop_matrix for points in pixels of the image."""
    height, width = options.integer("output_height", least=1), options.integer("output_width", least=1)
    return {
        "scale": (options.positive("scale_x") / width, options.positive("scale_y") / height),
        "origin": (width / 2, height / 2),
        "rotation": options.number("target_rotation_radians"),
    }
