"""l2_normalization of 8-bit tensors in 32-bit fixed point, as in TFLite's kernels.

Elements are relative to the zero point. The inverse root of a row's sum of squares, by Newton's iteration, is
a multiplier and a shift, which convert the elements to steps of 1/128. Formulas: TFLite, l2normalization.h.
Sums of long rows, which TFLite's kernel does not take, have 64 bits.
"""

from __future__ import annotations

import numpy as np

from gpunn.kernel import Param
from gpunn.ops.call import Call
from gpunn.ops.fixed_point.affine import LIMITS, inverse_root, rescale, scale_of, store
from gpunn.ops.normalization.rows import IntegerRows
from gpunn.types import Array, DType

MOST = (2**31 - 1) // 255**2  # elements of a row whose sum of squares cannot overflow 32 bits


def _why_not(call: Call) -> str:
    if scale_of(call, call.y) != (1 / 128, LIMITS[call.y.dtype][0] + 128):
        return "integer l2_normalization yields steps of 1/128, another output quantisation is declared"
    return ""


def _left(call: Call) -> tuple[int, int]:
    """Return the left shifts of elements and multiplier: together seven bits, for steps of 1/128."""
    return (0, 7) if call.x.dtype is DType.INT8 else (7, 0)


def _reference(call: Call, x: Array) -> Array:
    if not x.size:
        return x
    centred = x.astype(np.int64) - scale_of(call, call.x)[1]
    m, shift = inverse_root(np.sum(centred * centred, axis=call["axis"], keepdims=True))
    first, then = _left(call)
    _, zero = scale_of(call, call.y)
    return store(rescale(centred << first, m, then + shift) + zero, call.y, LIMITS[call.y.dtype])


def _functions(call: Call) -> dict[str, str]:
    low, high = LIMITS[call.y.dtype]
    first, then = _left(call)
    by = "by_wide_root({}, sum, upper, {})" if INTEGER.wide(call) else "by_inverse_root({}, sum, {})"
    result = f"{by.format(f'r << {first}u', then)} + {low + 128}"
    return {
        "lowest": "T(0)",
        "measure": "T(0)",
        "relative": "x - p.zero.x",
        "term": "r * r",
        "finish": f"clamp({result}, {low}, {high})",
    }


def _params(call: Call) -> dict[str, Param]:
    return {"zero": (scale_of(call, call.x)[1], 0, 0, 0)}


INTEGER = IntegerRows(
    _why_not, _reference, _functions, ("inverse_root",), MOST, params=_params, wide_libraries=("wide_root",)
)
