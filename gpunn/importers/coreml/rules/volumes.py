"""Rules of layers that work on the last three axes, depth, height and width."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.rules.windows import MAX_BORDER, part
from gpunn.types import Array, Shape

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
    """Return a convolution or deconvolution over depth, height and width."""
    params, shape = node.params, _volumes(node)
    kernel, dilation = _three(node, "kernel", 3), _three(node, "dilation")
    outputs, groups = int(params.outputChannels), int(params.nGroups) or 1
    channels = shape[-4]
    if groups < 1 or channels % groups or outputs % groups:
        node.corrupt(f"{channels} and {outputs} channels cannot be divided into {groups} groups")
    bias = node.floats(node.weights(params.bias, outputs, what="bias")) if params.hasBias else None
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    x = node.add("reshape", node.only(), shape=(math.prod(shape[:-4]), *shape[-4:]))
    x = node.add("transpose", x, perm=(0, 2, 3, 4, 1))
    stride = _three(node, "stride")
    attrs = {"stride": stride, "dilation": dilation, "groups": groups}
    if params.isDeconvolution:
        stored = node.weights(params.weights, channels, outputs // groups, *kernel)
        y = _deconvolution(node, x, _by_cell(node, stored), bias, reach, attrs)
    else:
        stored = node.weights(params.weights, outputs, int(params.inputChannels) // groups, *kernel)
        padding = _padding(node, shape[-3:], reach, stride)
        if any(map(any, padding)):
            x = node.add("pad", x, paddings=((0, 0), *padding, (0, 0)), value=0.0)
        y = node.add("conv3d", x, _by_cell(node, stored), bias, padding="valid", **attrs)
    y = node.add("transpose", y, perm=(0, 4, 1, 2, 3))
    return node.add("reshape", y, shape=(*shape[:-4], *node.shape(y)[1:]))


def _by_cell(node: Node, stored: Array) -> Value:
    """Return weights [A, B, KD, KH, KW] as a filter [KD, KH, KW, B, A]."""
    return node.floats(np.ascontiguousarray(stored.transpose(2, 3, 4, 1, 0)))


def _deconvolution(
    node: Node, x: Value, filter: Value, bias: Value | None, reach: Shape, attrs: dict[str, Any]
) -> Value:
    """Return [N, D, H, W, outputs], each cell spread over a window; what the padding covers is cut off."""
    axes = zip(node.shape(x)[1:4], attrs["stride"], reach, strict=True)
    whole = tuple((n - 1) * s + r for n, s, r in axes)
    starts, size = _kept(node, node.shape(x)[1:4], whole, attrs["stride"])
    y: Value = node.add("transpose_conv3d", x, filter, size=whole, padding="valid", **attrs)
    y = part(node, y, starts, size)
    return y if bias is None else node.add("add", y, bias)


def _kept(node: Node, spatial: Shape, whole: Shape, stride: Shape) -> tuple[Shape, Shape]:
    """Return where the result of a deconvolution starts in all cells that windows reach, and its extents.

    A stated outputShape wins over the padding, and SAME means input times stride. Then the smaller half of
    what is too much is cut off at the start, as in two dimensions.
    """
    params = node.params
    if len(params.outputShape):
        size = node.ints_of(params.outputShape, "outputShape", 3)
    elif params.paddingType == SAME:
        size = tuple(n * s for n, s in zip(spatial, stride, strict=True))
    else:
        cuts = _padding(node, spatial, spatial, stride)
        size = tuple(w - sum(cut) for w, cut in zip(whole, cuts, strict=True))
        return tuple(before for before, _ in cuts), size
    return tuple(max(0, w - n) // 2 for w, n in zip(whole, size, strict=True)), size


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
