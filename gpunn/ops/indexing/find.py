"""Search for elements: where, unique. The number of results depends on the values."""

from __future__ import annotations

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.check import INDICES
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, TensorType

_HOST_REASON = "how large the result is follows from values"


def _infer_where(call: Call) -> TensorType:
    found = call.value(0, TensorType(DType.INT64, (1, call.x.rank)))
    return TensorType(DType.INT64, (int(np.count_nonzero(found)), call.x.rank))


@op(_infer_where, host_reason=_HOST_REASON, raw=True)
def where(condition: Array) -> Array:
    """List the places where a condition holds: int64 [count, rank], in the order of the elements.

    condition: of any dtype but string; it holds where an element, as stored, is not 0. Raises ModelError for
    strings. TFLite schema, WhereOptions.
    """
    return np.argwhere(condition != 0).astype(np.int64)


def _infer_unique(call: Call) -> tuple[TensorType, ...]:
    x = call.x
    if x.rank != 1:
        call.fail(f"takes a list of numbers, got {x}")
    if call["dtype"] not in [d.value for d in INDICES]:
        call.fail(f"dtype must be {' or '.join(d.value for d in INDICES)}, got {call['dtype']!r}")
    places = TensorType(DType(call["dtype"]), x.shape)
    found = call.value(0, x.with_shape((1,)), places)
    return x.with_shape((len(np.unique(found, equal_nan=False)),)), places


@op(_infer_unique, host_reason=_HOST_REASON, raw=True)
def unique(x: Array, *, dtype: str = "int32") -> tuple[Array, Array]:
    """List the different values as they first appear, and for each element the place of its value there.

    x [n] of any dtype but string; no NaN is the same as another. The places are of `dtype`, int32 or int64,
    [n]. Raises ModelError for other ranks and dtypes. TFLite schema, UniqueOptions.
    """
    values, first, places = np.unique(x, return_index=True, return_inverse=True, equal_nan=False)
    order = np.argsort(first)
    return values[order], np.argsort(order)[places].astype(dtype)


OPS: tuple[Op, ...] = (where, unique)
