"""Rules of TFLite's convolutions and pools (a part of the table in table.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tflite as schema

from gpunn.importers.common.answers import Step
from gpunn.importers.tflite.node import Node, Options
from gpunn.importers.tflite.rules.biases import with_bias

PADDINGS = {schema.Padding.SAME: "same", schema.Padding.VALID: "valid"}


def pool(op: str) -> Callable[[Node], Step]:
    """Make a rule for the pools, which share Pool2DOptions."""

    def rule(node: Node) -> Step:
        options = node.options("Pool2DOptions")
        size = options.get("FilterHeight"), options.get("FilterWidth")
        return Step(op, node.inputs, {"size": size, **_window(options)})

    return rule


def _window(options: Options, axes: str = "HW") -> dict[str, Any]:
    """Return the common attributes of convolutions and pools: stride, padding, activation."""
    padding = options.get("Padding")
    if padding not in PADDINGS:
        options.node.corrupt(f"there is no padding number {padding}")
    stride = tuple(options.get(f"Stride{axis}") for axis in axes)
    return {"stride": stride, "padding": PADDINGS[padding], **options.activation()}


def _dilated_window(options: Options, axes: str = "HW") -> dict[str, Any]:
    """Return the common attributes of convolutions: dilation, stride, padding, activation."""
    dilation = tuple(options.get(f"Dilation{axis}Factor") for axis in axes)
    return {"dilation": dilation, **_window(options, axes)}


def conv(node: Node) -> Step:
    """Translate CONV_2D: filter [O, KH, KW, I]; fewer filter than input channels mean groups."""
    return Step("conv2d", node.inputs, _dilated_window(node.options("Conv2DOptions")))


def depthwise_conv(node: Node) -> Step:
    """Translate DEPTHWISE_CONV_2D: filter [1, KH, KW, O]; the option depth_multiplier only repeats O / C."""
    return Step("depthwise_conv2d", node.inputs, _dilated_window(node.options("DepthwiseConv2DOptions")))


def transpose_conv(node: Node) -> Step:
    """Translate TRANSPOSE_CONV to a constant shape (the first input); the bias (version 3) is the last."""
    options = node.options("TransposeConvOptions")
    attrs = _window(options)
    filter, x = node.operand(1), node.operand(2)
    batch, *size, channels = node.ints(0, "extents", 4)
    if (batch, channels) != (x.type.shape[:1] + filter.type.shape[:1]):
        node.corrupt(
            f"an output of {batch} images x {channels} channels does not fit {x.type}, {filter.type}"
        )
    bias = with_bias(options, x, filter, node.inputs[3:])
    return Step("transpose_conv2d", (x, filter, *bias), {"size": tuple(size), **attrs})


def conv3d(node: Node) -> Step:
    """Translate CONV_3D: filter [KD, KH, KW, I, O]."""
    return Step("conv3d", node.inputs, _dilated_window(node.options("Conv3DOptions"), "DHW"))


def conv3d_transpose(node: Node) -> Step:
    """Translate CONV_3D_TRANSPOSE to a constant shape, filter [KD, KH, KW, O, I]."""
    attrs = _dilated_window(node.options("Conv3DOptions"), "DHW")
    x, filter = node.operand(2), node.operand(1)
    batch, *size, channels = node.ints(0, "extents", 5)
    if x.type.rank != 5 or filter.type.rank != 5 or min(*attrs["stride"], *attrs["dilation"]) < 1:
        node.corrupt(
            f"takes five dimensions and strides over 0, got {x.type}, {filter.type}, {attrs['stride']}"
        )
    if (batch, channels) != (x.type.shape[0], filter.type.shape[3]):
        node.corrupt(
            f"a result of {size} and {channels} channels does not come of {x.type} and {filter.type}"
        )
    return Step("transpose_conv3d", (x, filter, *node.inputs[3:]), {"size": tuple(size), **attrs})
