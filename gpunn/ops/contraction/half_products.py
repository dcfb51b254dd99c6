"""Products in f16 (shaders/lib/workgroup_halves.wgsl): calls that may have them, filters, errors.

Eight products are added up in f16, in any order, and these sums in f32. With u = 2^-11, each product goes
through up to eight roundings: their errors add up to at most ((1 + u)^8 - 1) sum |w x|.

Devices may take numbers below 2^-14, the subnormal ones of f16, for 0, wherever they meet one (WGSL,
section 15.7.2). So weights are scaled by powers of two: those of each channel, whose largest is W, to between
8 and 16. They are packed so, or scaled when the product is computed if they are computed themselves. Then
rows are scaled, too: the largest of each, X, to between 128 and 256. Constant weights leave rows as they are,
which counts as X = 128. A product may lose:

* an element of x, scaled below 2^-14: 2^-21 X W,
* a weight, scaled below 2^-14: 2^-14 / 8 = 2^-17 W |x|,
* its value, and the sum that it is added to, 2^-14 each, where X and W are 128 and 8 or more:
  2 * 2^-24 X W.

Operands of float32, for example what softmax gives, are rounded to f16 before: one rounding more for each.
"""

from __future__ import annotations

import numpy as np

from gpunn.ops.accuracy import Evaluation, HalfProducts
from gpunn.ops.call import Call
from gpunn.ops.contraction.filter_packing import pack_bias, pack_deep_filter
from gpunn.ops.contraction.prepared import constants_only
from gpunn.types import Array, DType

LARGEST = 256.0  # of rows and scaled weights: eight products are at most 8 * 256 * 16 = 2^15
FAR = int(np.float32(LARGEST).view(np.uint32))
_ROUNDINGS = 8  # that a product goes through
_TOP = 4  # the largest weight of a channel is scaled to 2^3 and more, but below 2^4
_LEAST = 2.0**-119  # what is smaller is scaled as if it were this
_REALS = (DType.FLOAT32, DType.FLOAT16)


def in_halves(call: Call) -> bool:
    """Tell whether products of a call may be computed in f16: it is relaxed, and its filter a constant."""
    types = call.x.dtype, call.input(1).dtype
    return call.relaxed and types == (DType.FLOAT16, DType.FLOAT16) and constants_only(call)


def matrices_in_halves(call: Call) -> bool:
    """Tell whether products of two matrices, scaled when they run, may be computed in f16."""
    return call.relaxed and call.x.dtype in _REALS and call.input(1).dtype in _REALS


def filter_errors(evaluation: Evaluation) -> HalfProducts | None:
    """Return the errors of products with a constant filter [O, ...]."""
    if not in_halves(evaluation.call):
        return None
    x, filter = (np.abs(evaluation.input(k)) for k in range(2))
    largest = filter.max(axis=tuple(range(1, filter.ndim)), keepdims=True, initial=0)
    return HalfProducts(_ROUNDINGS, (_lost(x, 2.0**7), np.broadcast_to(largest, filter.shape)))


def matrix_errors(evaluation: Evaluation) -> HalfProducts | None:
    """Return the errors of products of matrices, which adj_a and adj_b say to be transposed."""
    call = evaluation.call
    if not matrices_in_halves(call):
        return None
    a, b = (np.abs(evaluation.input(k)) for k in range(2))
    return _of_matrices(call, a, b, -2 if call["adj_a"] else -1, -1 if call["adj_b"] else -2)


def dense_errors(evaluation: Evaluation) -> HalfProducts | None:
    """Return the errors of products of rows of x, of any shape, with a filter [O, I] that may be computed."""
    call = evaluation.call
    if constants_only(call) or not matrices_in_halves(call):
        return filter_errors(evaluation)
    x, filter = (np.abs(evaluation.input(k)) for k in range(2))
    found = _of_matrices(call, x.reshape(-1, filter.shape[1]), filter, -1, -1)
    return HalfProducts(found.roundings, (found.lost[0].reshape(x.shape), found.lost[1]))


def _of_matrices(call: Call, a: Array, b: Array, along_a: int, along_b: int) -> HalfProducts:
    """Return the errors of products of matrices that are scaled when they run. a, b: absolute values.

    along_a, along_b: the axes of their depth.
    """
    rows, columns = (
        np.maximum(sizes.max(axis=axis, keepdims=True, initial=0), _LEAST)
        for sizes, axis in ((a, along_a), (b, along_b))
    )
    rounded = sum(t.dtype is DType.FLOAT32 for t in (call.x, call.input(1)))
    return HalfProducts(_ROUNDINGS + rounded, (_lost(a, rows), np.broadcast_to(columns, b.shape)))


def _lost(x: Array, rows: Array | float) -> Array:
    """Return what products lose to subnormal numbers, for each unit of W. rows: X of each element."""
    return 2.0**-17 * x + (2.0**-21 + 2.0**-23) * rows


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
