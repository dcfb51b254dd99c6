"""A transposed convolution as a convolution, whose output channels are the pixels of a stride."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpunn.kernel import Unsupported, ceil_div
from gpunn.ops.call import Call
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.kernels.window import Pair, Window, most_padded
from gpunn.types import Quantization

_MOST_ZEROS = 4  # times the filter's elements that the filter of all phases may have


class _Phases(NamedTuple):
    """Pixels of a result along an axis: stride j + phase, for each phase below the stride.

    size: cells of the filter; taps: those that a phase has, or fewer; padding: of x; crop: how many pixels
    are computed before the result begins.
    """

    stride: int
    size: int
    taps: int
    padding: Pair
    crop: int

    @classmethod
    def of(cls, size: int, stride: int, before: int, extent: int, out: int) -> _Phases:
        """Return those of a filter of `size` cells that leads from `extent` pixels to `out`."""
        taps = ceil_div(size, stride)
        first, last = before // stride, (before + out - 1) // stride
        return cls(stride, size, taps, (taps - 1 - first, last + 1 - extent), before - first * stride)


def by_phases(
    call: Call, to: Expansion, window: Window, operands: tuple[Tensor, Tensor, Tensor | None]
) -> Tensor:
    """Add a convolution to the channels of all phases, which then are put side by side; return the result.

    Pixel stride j + phase of the result, counted from where the padding begins, gets pixel j - t of x by cell
    stride t + phase of the filter. So the cells of a phase are a filter of their own, and one window has the
    pixels that all phases see. Cells are 0 where the stride does not divide the filter. operands: x, filter
    and bias of transpose_conv2d. Raises Unsupported where most cells would be 0, or the padding too wide.
    """
    x, filter, bias = operands
    down, right = phases = _phases(call, window)
    apart = down.stride * right.stride
    if bias is not None and apart > 1:
        bias = _repeated(to, bias, apart)
    attrs = {"padding": (down.padding, right.padding), "activation": call["activation"]}
    weights = _of_phases(to, filter, phases)
    y = to.add("conv2d", x, weights, bias, quantization=call.y.quantization, **attrs)
    y = _side_by_side(to, y, phases, call.y.shape[3])
    if y.type.shape == call.y.shape:
        return y
    begin = (0, down.crop, right.crop, 0)
    end = tuple(a + n for a, n in zip(begin, call.y.shape, strict=True))
    return to.add("strided_slice", y, begin=begin, end=end, strides=(1, 1, 1, 1))


def _phases(call: Call, window: Window) -> tuple[_Phases, _Phases]:
    image = call.x.shape[1], call.x.shape[2]
    axes = zip(window.size, window.stride, window.before, image, call["size"], strict=True)
    down, right = (_Phases.of(*axis) for axis in axes)
    if not call.y.size or min(*down.padding, *right.padding) < 0:
        raise Unsupported("pixels of x that reach no pixel of the result")
    height, width = image[0] + sum(down.padding), image[1] + sum(right.padding)
    if height * width > most_padded(image):
        raise Unsupported("a filter that is much larger than the image")
    if down.stride * down.taps * right.stride * right.taps > _MOST_ZEROS * math.prod(window.size):
        raise Unsupported("phases without cells of the filter")
    return down, right


def _of_phases(to: Expansion, filter: Tensor, phases: Sequence[_Phases]) -> Tensor:
    """Return a filter [O, KH, KW, I] with the output channels of all phases, one phase behind the other."""
    (channels, *_, depth), (down, right) = filter.type.shape, phases
    behind = ((0, 0), *((0, p.stride * p.taps - p.size) for p in phases), (0, 0))
    shape = channels, down.taps, down.stride, right.taps, right.stride, depth
    perm, whole = (2, 4, 0, 1, 3, 5), (down.stride * right.stride * channels, down.taps, right.taps, depth)
    if filter.value is not None:
        scales = filter.type.quantization
        zero = 0 if scales is None else scales.zero_point[0]
        known = np.pad(filter.value, behind, constant_values=zero).reshape(shape)[:, ::-1, :, ::-1]
        known = np.ascontiguousarray(known.transpose(perm)).reshape(whole)
        return to.constant(known, _of_all(scales, down.stride * right.stride))
    cells = to.add("pad", filter, paddings=behind) if any(map(any, behind)) else filter
    cells = to.add("reshape", cells, shape=shape)
    ends = (None,) * len(shape)
    cells = to.add("strided_slice", cells, begin=ends, end=ends, strides=(1, -1, 1, -1, 1, 1))
    return to.add("reshape", to.add("transpose", cells, perm=perm), shape=whole)


def _repeated(to: Expansion, bias: Tensor, times: int) -> Tensor:
    if bias.value is not None:
        return to.constant(np.tile(bias.value, times), _of_all(bias.type.quantization, times))
    return to.add("tile", bias, multiples=(times,))


def _of_all(scales: Quantization | None, phases: int) -> Quantization | None:
    """Return the quantisation of channels of so many phases."""
    if scales is None or scales.per_tensor:
        return scales
    zeros = scales.zero_point * (phases if len(scales.zero_point) > 1 else 1)
    return Quantization(scales.scale * phases, zeros, scales.axis)


def _side_by_side(to: Expansion, y: Tensor, phases: Sequence[_Phases], channels: int) -> Tensor:
    """Return pixels of all phases [batch, height, width, phases x channels] as an image."""
    (batch, height, width, _), (down, right) = y.type.shape, (p.stride for p in phases)
    if down == right:
        return y if down == 1 else to.add("depth_to_space", y, block_size=down)
    y = to.add("reshape", y, shape=(batch, height, width, down, right, channels))
    y = to.add("transpose", y, perm=(0, 1, 3, 2, 4, 5))
    return to.add("reshape", y, shape=(batch, height * down, width * right, channels))
