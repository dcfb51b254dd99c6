"""Products in f16 (shaders/lib/workgroup_halves.wgsl): calls that may have them, filters, errors.

Eight products are added up in f16, in any order, and these sums in f32. With u = 2^-11, each product goes
through up to eight roundings: their errors add up to at most ((1 + u)^8 - 1) sum |w x|.

Devices may take numbers below 2^-14, the subnormal ones of f16, for 0, wherever they meet one (WGSL,
section 15.7.2). Filters are scaled so that W, the largest weight of a channel, is between 8 and 16. Then a
product may lose:

* an element of x below 2^-14: 2^-14 W,
* a weight below 2^-14, which is at most 2^-17 W before it is scaled: 2^-17 W |x|,
* its value, and the sum that it is added to, 2^-14 each, of W = 8 or more: 2 * 2^-17 W.
"""

from __future__ import annotations

import numpy as np

from gpunn.ops.accuracy import Evaluation
from gpunn.ops.call import Call
from gpunn.ops.contraction.filter_packing import pack_bias, pack_deep_filter
from gpunn.ops.contraction.prepared import constants_only
from gpunn.types import Array, DType

LARGEST = 256.0  # of rows and scaled weights: eight products are at most 8 * 256 * 16 = 2^15
FAR = int(np.float32(LARGEST).view(np.uint32))
ROUNDINGS = 8  # that a product goes through
ROUNDING = ((1 + 2.0**-11) ** ROUNDINGS - 1) / ROUNDINGS  # the relative error of each
_TOP = 4  # the largest weight of a channel is scaled to 2^3 and more, but below 2^4


def in_halves(call: Call) -> bool:
    """Tell whether products of a call may be computed in f16: it is relaxed, and its filter a constant."""
    types = call.x.dtype, call.input(1).dtype
    return call.relaxed and types == (DType.FLOAT16, DType.FLOAT16) and constants_only(call)


def lost_values(evaluation: Evaluation) -> tuple[Array | None, ...]:
    """Return inputs of the same call: their products are what products may lose to subnormal numbers."""
    x, filter = (np.abs(evaluation.input(k)) for k in range(2))
    largest = filter.reshape(len(filter), -1).max(axis=1, initial=0)
    largest = np.broadcast_to(largest.reshape(-1, *(1,) * (filter.ndim - 1)), filter.shape)
    return 2.0**-17 * x + (2.0**-14 + 2.0**-16), largest, *(None for _ in evaluation.inputs[2:])


def _exponents(filter: Array) -> Array:
    """Return for each output channel of [O, ...] the power of two that scales its largest finite weight."""
    weights = np.abs(filter.reshape(filter.shape[0], -1).astype(np.float32))
    largest = np.where(np.isfinite(weights), weights, 0).max(axis=1, initial=0)
    return np.where(largest > 0, _TOP - np.frexp(largest)[1], 0).astype(np.int32)


def pack_scaled(filter: Array) -> Array:
    """Pack float16 [O, ..., I] as pack_deep_filter() does, scaled so that channels have weights up to 16."""
    exponents = _exponents(filter).reshape(-1, *(1,) * (filter.ndim - 1))
    return pack_deep_filter(np.ldexp(filter.astype(np.float32), exponents).astype(np.float16))


def pack_scales(filter: Array) -> Array:
    """Return what sums of each channel of pack_scaled() are multiplied with, as pack_bias() packs them."""
    return pack_bias(np.ldexp(np.float32(1), -_exponents(filter)))
