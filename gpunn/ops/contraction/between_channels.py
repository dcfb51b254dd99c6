"""Convolutions that conv2d and depthwise_conv2d can compute, each written as the quicker one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpunn.kernel import Unsupported
from gpunn.ops.call import Call
from gpunn.ops.expansion import Expansion, Tensor

_TO_CHANNELS = 3, 1, 2, 0  # from conv2d's filter of one input channel to depthwise_conv2d's, and back


def as_depthwise(call: Call, to: Expansion, x: Tensor, filter: Tensor, bias: Tensor | None = None) -> Tensor:
    """Write a convolution with a group for each input channel as a depthwise one."""
    if call.x.shape[3] == 1 or filter.type.shape[3] > 1:
        raise Unsupported("several channels in a group")
    turned = _turned(to, filter)
    attrs = {**call.attrs, "halves_away": True}  # of integers, as all convolutions with groups
    return to.add("depthwise_conv2d", x, turned, bias, quantization=call.y.quantization, **attrs)


def as_dense(call: Call, to: Expansion, x: Tensor, filter: Tensor, bias: Tensor | None = None) -> Tensor:
    """Write several filters on one input channel, of reals, as a convolution without groups.

    Converters from PyTorch write each convolution of a sound or a grey image as a depthwise one.
    """
    if call.x.shape[3] > 1 or call.y.shape[3] == 1:
        raise Unsupported("several input channels, or a single filter")
    if call.x.quantization is not None or filter.type.quantization is not None:
        raise Unsupported("depthwise convolutions round integers otherwise")
    attrs = {name: value for name, value in call.attrs.items() if name != "halves_away"}
    return to.add("conv2d", x, _turned(to, filter), bias, **attrs)


def _turned(to: Expansion, filter: Tensor) -> Tensor:
    """Return the filter of the other op, whose output channels are the last dimension, or the first one."""
    quantization = filter.type.quantization
    if filter.value is None:
        if quantization is not None:
            raise Unsupported("the integers of a filter that is not a constant stay where they are")
        return to.add("transpose", filter, perm=_TO_CHANNELS)
    if quantization is not None and not quantization.per_tensor:
        quantization = replace(quantization, axis=_TO_CHANNELS.index(quantization.axis))
    return to.constant(np.ascontiguousarray(filter.value.transpose(_TO_CHANNELS)), quantization)
