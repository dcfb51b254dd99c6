"""Rules of MediaPipe's pools and convolutions, and the table of all custom operators in its models.

Their meaning is that of MediaPipe's kernels, util/tflite/operations/*.cc. Pools and convolutions have the C
structs TfLitePoolParams and TfLiteTransposeConvParams of builtin_op_data.h as their options: little-endian
integers of 32 bits. The files of all versions of these structs begin with the same fields, and the kernels
read no others.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpunn.importers.common.answers import Answer, Step, StepList, Steps, constant
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.rules import landmarks
from gpunn.importers.tflite.rules.options import expect_counts

# TfLitePadding and TfLiteFusedActivation of builtin_op_data.h, as far as the pools compute them. The schema's
# paddings have other numbers.
_PADDINGS = {1: "same", 2: "valid"}
_ACTIVATIONS: tuple[dict[str, str], ...] = (
    {},
    {"activation": "relu"},
    {"activation": "relu1"},
    {"activation": "relu6"},
)
# MediaPipe stores a position as a float32, which it rounds towards zero where it reads it.
_NEARLY_NEXT = np.array(0.1, np.float32)


def _fields(node: Node, names: tuple[str, ...]) -> dict[str, int]:
    """Return the first fields of the struct that the custom options are."""
    have, need = len(node.custom_options), 4 * len(names)
    if have < need:
        node.corrupt(f"the custom options have {have} bytes, {need} are needed for {', '.join(names)}")
    found = dict(zip(names, struct.unpack_from(f"<{len(names)}i", node.custom_options), strict=True))
    if found["padding"] not in _PADDINGS:
        node.corrupt(f"there is no padding number {found['padding']}")
    for name in names:
        if name.startswith(("stride", "filter")) and found[name] < 1:
            node.corrupt(f"{name} must be 1 or more, got {found[name]}")
    return found


def _pool_options(node: Node) -> tuple[dict[str, Any], str, dict[str, str]]:
    """Return size and stride of TfLitePoolParams, its padding, and its activation as an attribute."""
    names = ("padding", "stride_width", "stride_height", "filter_width", "filter_height", "activation")
    found = _fields(node, names)
    if not 0 <= found["activation"] < len(_ACTIVATIONS):
        node.corrupt(f"there is no fused activation number {found['activation']} of a pool")
    window = {
        "size": (found["filter_height"], found["filter_width"]),
        "stride": (found["stride_height"], found["stride_width"]),
    }
    return window, _PADDINGS[found["padding"]], _ACTIVATIONS[found["activation"]]


def transpose_conv_bias(node: Node) -> Step:
    """Translate Convolution2DTransposeBias: filter [O, KH, KW, I], a bias, and a size that follows from x.

    With padding SAME, as many rows and columns are cut from the whole result as the window reaches beyond the
    last stride of the input, half of them first, rounded down. MediaPipe, transpose_conv_bias.cc.
    """
    expect_counts(node, 3, 1)
    found = _fields(node, ("padding", "stride_width", "stride_height"))
    x, filter = node.operand(0), node.operand(1)
    if x.type.rank != 4 or filter.type.rank != 4:
        node.corrupt(f"takes images and a filter of four dimensions, got {x.type} and {filter.type}")
    stride = found["stride_height"], found["stride_width"]
    size, padding = [], []
    for length, reach, step in zip(x.type.shape[1:3], filter.type.shape[1:3], stride, strict=True):
        if length < 1 or reach < 1:
            node.corrupt(f"takes images and a filter with pixels, got {x.type} and {filter.type}")
        cut = max(0, reach - (length - 1) % step - 1) if _PADDINGS[found["padding"]] == "same" else 0
        size.append(step * (length - 1) + reach - cut)
        padding.append((cut // 2, cut - cut // 2))
    attrs = {"size": tuple(size), "stride": stride, "padding": tuple(padding)}
    return Step("transpose_conv2d", (x, filter, node.operand(2)), attrs)


def max_pool_argmax(node: Node) -> Steps:
    """Translate MaxPoolingWithArgmax2D: maxima, and row * width + column of each in its window, plus 0.1.

    A NaN counts as the maximum; MediaPipe skips it. MediaPipe, max_pool_argmax.cc.
    """
    expect_counts(node, 1, 2)
    window, padding, activation = _pool_options(node)
    attrs = {**window, "padding": padding}
    steps, x = StepList(), (node.operand(0),)
    maxima = steps.add("max_pool2d", x, {**attrs, **activation})
    whole = steps.add("cast", (steps.add("arg_max_pool2d", x, attrs),), {"dtype": "float32"})
    return steps.answer(maxima, steps.add("add", (whole, constant("nearly_next", _NEARLY_NEXT))))


def max_unpool(node: Node) -> Steps:
    """Translate MaxUnpooling2D of values and the positions that MaxPoolingWithArgmax2D found.

    Its padding and activation do not count. MediaPipe, max_unpooling.cc; positions outside a window put
    nothing, as in TFLite's GPU delegate.
    """
    expect_counts(node, 2, 1)
    window, _, _ = _pool_options(node)
    steps = StepList()
    positions = steps.add("cast", (node.operand(1),), {"dtype": "int32"})
    return steps.answer(steps.add("max_unpool2d", (node.operand(0), positions), window))


OPERATORS: Mapping[str, Callable[[Node], Answer]] = {
    "Convolution2DTransposeBias": transpose_conv_bias,
    "Landmarks2TransformMatrix": landmarks.transform_matrix,
    "MaxPoolingWithArgmax2D": max_pool_argmax,
    "MaxUnpooling2D": max_unpool,
    "TransformLandmarks": landmarks.transform_landmarks,
    "TransformTensor": landmarks.transform_tensor,
    "TransformTensorBilinear": landmarks.transform_tensor,
}
