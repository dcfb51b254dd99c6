"""Transpose convolution over depth, height and width: transpose_conv3d."""

from __future__ import annotations

import itertools
import math

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_ints, expect_unquantised
from gpunn.ops.contraction.conv3d import by_group, expect_groups
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.kernels.window import along
from gpunn.ops.op import Op, op
from gpunn.types import Array, Shape, TensorType

Triple = tuple[int, int, int]

Span = tuple[int, int, int]  # padding before, padding after, extent of x


def _spans(size: Shape, filter: Shape, stride: Shape, dilation: Shape, padding: str) -> list[Span]:
    """Return the window of the convolution that leads from the result to x, along each axis."""
    axes = zip(size, filter[:3], stride, dilation, strict=True)
    return [along(n, k, s, d, padding) for n, k, s, d in axes]


def _infer(call: Call) -> TensorType:
    x, filter = call.expect_rank(0, 5), call.expect_rank(1, 5)
    for index in range(2 + call.has(2)):
        expect_unquantised(call, index, *FLOATS)
    size, stride, dilation = (expect_ints(call, name, 3) for name in ("size", "stride", "dilation"))
    if min(*stride, *dilation) < 1:
        call.fail(f"strides and dilations must be at least 1, got {list(stride)} and {list(dilation)}")
    if call["padding"] not in ("same", "valid"):
        call.fail(f"padding must be 'same' or 'valid', got {call['padding']!r}")
    groups = expect_groups(call)
    depth, channels = filter.shape[4], filter.shape[3] * groups
    if depth % groups:
        call.fail(f"{depth} channels cannot be divided into {groups} groups")
    found = tuple(n for _, _, n in _spans(size, filter.shape, stride, dilation, call["padding"]))
    if min(filter.shape[:3]) < 1 or (*found, depth) != x.shape[1:]:
        call.fail(f"a result of {list(size)} does not come of {x} and {filter}")
    if call.has(2) and call.input(2).shape != (channels,):
        call.fail(f"bias must have shape [{channels}], got {list(call.input(2).shape)}")
    return x.with_shape((x.shape[0], *size, channels))


def _turned(to: Expansion, filter: Tensor, groups: int) -> Tensor:
    """Return a filter [KD, KH, KW, O / groups, I], reversed, as [KD, KH, KW, I / groups, O]."""
    if filter.value is not None:  # then what conv3d is written in knows it, too
        parts = np.split(filter.value[::-1, ::-1, ::-1], groups, axis=4)
        return to.constant(np.concatenate([part.swapaxes(3, 4) for part in parts], axis=4))
    whole = (None,) * 5
    weights = to.add("strided_slice", filter, begin=whole, end=whole, strides=(-1, -1, -1, 1, 1))
    if groups == 1:
        return to.add("transpose", weights, perm=(0, 1, 2, 4, 3))
    *size, outputs, inputs = weights.type.shape
    apart = to.add("reshape", weights, shape=(*size, outputs, groups, inputs // groups))
    turned = to.add("transpose", apart, perm=(0, 1, 2, 5, 4, 3))
    return to.add("reshape", turned, shape=(*size, inputs // groups, groups * outputs))


def _expand(call: Call, to: Expansion, x: Tensor, filter: Tensor, bias: Tensor | None = None) -> Tensor:
    """Convolve x, with stride - 1 cells of 0 between its elements, with the reversed filter.

    Cell k of the filter adds cell i of x to cell o of the result with o = stride i + dilation k - before.
    """
    shape, (size, stride, dilation) = filter.type.shape, (call[n] for n in ("size", "stride", "dilation"))
    spans = _spans(size, shape, stride, dilation, call["padding"])
    reach = [(k - 1) * d for k, d in zip(shape, dilation, strict=False)]
    spread = [(n - 1) * s + 1 for n, s in zip(call.x.shape[1:4], stride, strict=True)]
    low = [r - before for r, (before, _, _) in zip(reach, spans, strict=True)]
    high = [n + r - a - w for n, r, a, w in zip(size, reach, low, spread, strict=True)]
    weights = _turned(to, filter, call["groups"])
    paddings = ((0, 0), *zip(low, high, strict=True), (0, 0))
    spaced = to.add("dilate", x, steps=(1, *stride, 1), paddings=paddings)
    attrs = {"dilation": dilation, "groups": call["groups"], "activation": call["activation"]}
    return to.add("conv3d", spaced, weights, bias, **attrs)


@op(
    _infer,
    expand=_expand,
    flops=lambda call: 2 * call.x.size * math.prod(call.input(1).shape[:4]),
    fusible=True,
    unbounded=True,
)
def transpose_conv3d(
    x: Array,
    filter: Array,
    bias: Array | None = None,
    *,
    size: Triple,
    stride: Triple = (1, 1, 1),
    padding: str = "valid",
    dilation: Triple = (1, 1, 1),
    groups: int = 1,
) -> Array:
    """Compute the gradient of conv3d for its input: every element of x spreads a filter over the result.

    x [N, D, H, W, I]; filter [KD, KH, KW, O / groups, I]; bias [O]; result [N, *size, O], from which conv3d
    with the same stride, padding ("same" or "valid"), dilation and groups would give x's extents. dtype:
    float32 or float16. Accuracy as of conv3d. Raises ModelError for other dtypes, numbers below 1, and a size
    that does not give x's extents. TFLite schema, CONV_3D_TRANSPOSE with Conv3DOptions; NeuralNetwork.proto
    of Core ML, Convolution3DLayerParams.
    """
    spans = _spans(size, filter.shape, stride, dilation, padding)
    room = [
        max((k - 1) * d + (i - 1) * s + 1, n + b + a)
        for k, d, i, s, n, (b, a, _) in zip(
            filter.shape, dilation, x.shape[1:4], stride, size, spans, strict=False
        )
    ]
    result = np.zeros((x.shape[0], *room, filter.shape[3] * groups), x.dtype)
    for cell in itertools.product(*map(range, filter.shape[:3])):
        starts = [k * d for k, d in zip(cell, dilation, strict=True)]
        steps = zip(starts, x.shape[1:4], stride, strict=True)
        reached = tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in steps)
        matrix = np.concatenate([part.T for part in np.split(filter[cell], groups, axis=1)], axis=1)
        result[(slice(None), *reached)] += by_group(x, matrix, groups)
    inside = tuple(slice(before, before + n) for n, (before, _, _) in zip(size, spans, strict=True))
    found = result[(slice(None), *inside)]
    return found if bias is None else found + bias


OPS: tuple[Op, ...] = (transpose_conv3d,)
