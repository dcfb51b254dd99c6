"""Rules of layers that work on the last three axes, depth, height and width."""

from __future__ import annotations

import math

import numpy as np

from gpunn.importers.common.node import RefusedError
from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.rules.windows import MAX_BORDER
from gpunn.types import Shape

Pairs = tuple[tuple[int, int], ...]
AXES = ("Depth", "Height", "Width")
CUSTOM, VALID, SAME = range(3)


def _three(node: Node, stem: str, default: int = 1) -> Shape:
    """Return a parameter of depth, height and width; 0 stands for the default."""
    found = tuple(int(getattr(node.params, stem + axis)) or default for axis in AXES)
    if min(found) < 1:
        node.corrupt(f"{stem} must be positive, got {list(found)}")
    return found


def _padding(node: Node, spatial: Shape, reach: Shape, stride: Shape) -> Pairs:
    params = node.params
    if params.paddingType == VALID:
        return ((0, 0),) * 3
    if params.paddingType == SAME:
        axes = zip(spatial, stride, reach, strict=True)
        totals = [max(0, (-(-n // s) - 1) * s + r - n) for n, s, r in axes]
        return tuple((t // 2, t - t // 2) for t in totals)
    sides = (("Front", "Back"), ("Top", "Bottom"), ("Left", "Right"))
    found = tuple(tuple(int(getattr(params, f"customPadding{s}")) for s in pair) for pair in sides)
    if not all(0 <= n <= MAX_BORDER for pair in found for n in pair):
        node.corrupt(f"custom padding must be 0 to {MAX_BORDER}, got {found}")
    return tuple((a, b) for a, b in found)


def _volumes(node: Node) -> Shape:
    """Return the shape of the one input. Raises FormatError unless it is [..., C, D, H, W]."""
    shape = node.only().type.shape
    if len(shape) < 5:
        node.corrupt(f"expected an input [batch, channels, depth, height, width], got shape {list(shape)}")
    return shape


def convolution3d(node: Node) -> Value:
    """Return a convolution over depth, height and width."""
    params, shape = node.params, _volumes(node)
    if params.isDeconvolution:
        raise RefusedError("deconvolutions in three dimensions have no rule")
    if params.nGroups > 1:
        raise RefusedError("convolutions in three dimensions have one group")
    kernel, stride, dilation = _three(node, "kernel", 3), _three(node, "stride"), _three(node, "dilation")
    outputs, inputs = int(params.outputChannels), int(params.inputChannels)
    stored = node.weights(params.weights, outputs, inputs, *kernel).transpose(2, 3, 4, 1, 0)
    bias = node.floats(node.weights(params.bias, outputs, what="bias")) if params.hasBias else None
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    padding = _padding(node, shape[-3:], reach, stride)
    x = node.add("reshape", node.only(), shape=(math.prod(shape[:-4]), *shape[-4:]))
    x = node.add("transpose", x, perm=(0, 2, 3, 4, 1))
    if any(map(any, padding)):
        x = node.add("pad", x, paddings=((0, 0), *padding, (0, 0)), value=0.0)
    filter = node.floats(np.ascontiguousarray(stored))
    y = node.add("conv3d", x, filter, bias, stride=stride, padding="valid", dilation=dilation)
    y = node.add("transpose", y, perm=(0, 4, 1, 2, 3))
    return node.add("reshape", y, shape=(*shape[:-4], *node.shape(y)[1:]))


def pooling3d(node: Node) -> Value:
    """Return the maximum or the average of windows over depth, height and width."""
    params, shape = node.params, _volumes(node)
    kernel, stride = _three(node, "kernel", 3), _three(node, "stride")
    lead = len(shape) - 3
    padding = _padding(node, shape[-3:], kernel, stride)
    attrs = {
        "size": (*(1,) * lead, *kernel),
        "strides": (*(1,) * lead, *stride),
        "paddings": (*((0, 0),) * lead, *padding),
    }
    if params.type == 0:
        lowest = node.scalar(-math.inf)
        return node.add("reduce_window", node.only(), lowest, function="max", **attrs)
    total = node.add("reduce_window", node.only(), node.scalar(0), function="sum", **attrs)
    if not params.countExcludePadding or not any(map(any, padding)):
        return node.add("mul", total, node.scalar(1 / math.prod(kernel)))
    ones = node.add("fill", node.scalar(1), shape=shape)
    return node.add("div", total, node.add("reduce_window", ones, node.scalar(0), function="sum", **attrs))


def global_pooling3d(node: Node) -> Value:
    """Return the maximum or the average of each channel."""
    _volumes(node)
    op = "mean" if node.params.type else "reduce_max"
    return node.add(op, node.only(), axes=(-3, -2, -1), keep_dims=True)
