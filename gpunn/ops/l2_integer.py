"""l2_normalization of 8-bit tensors in 32-bit fixed point, as TFLite's kernels compute it.

A row is counted from its zero point; the reciprocal of the root of its sum of squares, by Newton's
iteration, is a multiplier and a shift, which bring its elements to steps of 1/128. Formulas: TFLite,
l2normalization.h, and in common.h GetInvSqrtQuantizedMultiplierExp; a number with three integer bits counts
in 2^-28.
"""

from __future__ import annotations

import numpy as np

from gpunn.kernel import Param
from gpunn.ops.affine import LIMITS, divide_by_power, high_multiply, rescale, scale_of, store
from gpunn.ops.op import Call
from gpunn.ops.rows import IntegerRows
from gpunn.types import Array, DType

ONE = 2**31 - 1
SQRT_HALF = round(2**-0.5 * 2**31)
SQUARE = 255**2  # the largest


def _why_not(call: Call) -> str:
    if scale_of(call, call.y) != (1 / 128, LIMITS[call.y.dtype][0] + 128):
        return "integer l2_normalization yields steps of 1/128, another output quantisation is declared"
    if call.x.shape[call["axis"]] * SQUARE > ONE:
        return "a sum of squares may not fit 32 bits"
    return ""


def inverse_root(total: Array) -> tuple[Array, Array]:
    """(m, down) with 1 / sqrt(total) = m / 2^31 / 2^down; 0 counts as 1."""
    few = total <= 1
    x = np.maximum(total, 2)
    large = x >= 2**29
    x = np.where(large, x >> 2, x)
    pairs = (31 - np.frexp(x.astype(np.float64))[1].astype(np.int64)) // 2 - 1
    half = divide_by_power((x << 2 * pairs) >> 1, 1)
    root = np.full(x.shape, 2**28, np.int64)
    for _ in range(5):
        cube = _with_three(high_multiply(high_multiply(root, root), root), 6)
        root = _with_three(high_multiply(root, 3 << 27) - high_multiply(half, cube), 3)
    down = 11 + large - pairs
    m = high_multiply(root, SQRT_HALF) << np.maximum(-down, 0)
    return np.where(few, ONE, m), np.where(few, 0, np.maximum(down, 0))


def _with_three(x: Array, more: int) -> Array:
    """A number with so many more integer bits than three, with three."""
    return np.asarray(np.clip(x << more, -(2**31), ONE))


def _left(call: Call) -> tuple[int, int]:
    """By how many bits elements and multiplier are shifted to the left: seven, for steps of 1/128."""
    return (0, 7) if call.x.dtype is DType.INT8 else (7, 0)


def _reference(call: Call, x: Array) -> Array:
    if not x.size:
        return x
    centred = x.astype(np.int64) - scale_of(call, call.x)[1]
    m, down = inverse_root(np.sum(centred * centred, axis=call["axis"], keepdims=True))
    first, then = _left(call)
    _, zero = scale_of(call, call.y)
    return store(rescale(centred << first, m, then - down) + zero, call.y, LIMITS[call.y.dtype])


def _functions(call: Call) -> dict[str, str]:
    low, high = LIMITS[call.y.dtype]
    first, then = _left(call)
    result = f"by_inverse_root(r << {first}u, sum, {then}) + {low + 128}"
    return {
        "lowest": "T(0)",
        "measure": "T(0)",
        "relative": "x - p.zero.x",
        "term": "r * r",
        "finish": f"clamp({result}, {low}, {high})",
    }


def _params(call: Call) -> dict[str, Param]:
    return {"zero": (scale_of(call, call.x)[1], 0, 0, 0)}


INTEGER = IntegerRows(_why_not, _reference, _functions, ("inverse_root",), params=_params)
