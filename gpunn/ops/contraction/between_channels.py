"""Convolutions that conv2d and depthwise_conv2d can compute, each written as the quicker one."""

from __future__ import annotations

import numpy as np

from gpunn.kernel import Unsupported
from gpunn.ops.call import Call
from gpunn.ops.expansion import Expansion, Tensor

_TO_CHANNELS = 3, 1, 2, 0  # from conv2d's filter of one input channel to depthwise_conv2d's, and back


def as_depthwise(call: Call, to: Expansion, x: Tensor, filter: Tensor, bias: Tensor | None = None) -> Tensor:
    """Write a convolution of reals with a group for each input channel as a depthwise one."""
    if call.x.shape[3] == 1 or filter.type.shape[3] > 1:
        raise Unsupported("several channels in a group")
    return _written("depthwise_conv2d", call, to, x, filter, bias)


def as_dense(call: Call, to: Expansion, x: Tensor, filter: Tensor, bias: Tensor | None = None) -> Tensor:
    """Write several filters on one input channel, of reals, as a convolution without groups.

    Converters from PyTorch write each convolution of a sound or a grey image as a depthwise one.
    """
    if call.x.shape[3] > 1 or call.y.shape[3] == 1:
        raise Unsupported("several input channels, or a single filter")
    return _written("conv2d", call, to, x, filter, bias)


def _written(op: str, call: Call, to: Expansion, x: Tensor, filter: Tensor, bias: Tensor | None) -> Tensor:
    if call.x.quantization is not None or filter.type.quantization is not None:
        raise Unsupported("depthwise convolutions round integers otherwise")
    if filter.value is None:
        turned = to.add("transpose", filter, perm=_TO_CHANNELS)
    else:
        turned = to.constant(np.ascontiguousarray(filter.value.transpose(_TO_CHANNELS)))
    return to.add(op, x, turned, bias, **call.attrs)
