"""Running sums."""

from __future__ import annotations

import numpy as np

from gpunn.kernel import Function, Kernel, Read, flat_threads, size_of
from gpunn.ops.accuracy import row_length, sums
from gpunn.ops.call import Call
from gpunn.ops.check import NUMBERS, expect_bool, expect_dtype, expect_int
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, TensorType


def _infer(call: Call) -> TensorType:
    x = expect_dtype(call, 0, *NUMBERS)
    call.axis(expect_int(call, "axis", call["axis"]), x.rank)
    expect_bool(call, "exclusive")
    expect_bool(call, "reverse")
    return x


def _kernel(call: Call) -> Kernel:
    shape = call.x.shape
    axis = call.axis(call["axis"], len(shape))
    rows = call.x.size // max(shape[axis], 1)
    plus = "i64_add(a, b)" if call.x.dtype is DType.INT64 else "a + b"
    return Kernel(
        body="cumsum",
        threads=flat_threads(rows),
        workgroup=(64, 1, 1),
        reads=(Read("x", 0),),
        params={"count": rows, "length": shape[axis], "inner": size_of(shape[axis + 1 :])},
        constants={"EXCLUSIVE": int(call["exclusive"]), "REVERSE": int(call["reverse"])},
        functions={"plus": Function(("a", "b"), plus)},
        loop_iterations=shape[axis],
        reason="one invocation per row",
    )


@op(_infer, _kernel, accuracy=sums(row_length))
def cumsum(x: Array, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
    """Add up the elements along `axis`, which may be negative, up to each element.

    `exclusive` leaves the element itself out, `reverse` adds from the end. Shapes: any of rank 1 or more; the
    result has x's shape. dtype: float32, float16, int32, int64 (sums wrap around) and, through real numbers
    on the host, quantised uint8, int8 and int16. Raises ModelError for other dtypes and for an axis out of
    range. Accuracy: n eps sum(|x|) of float32 for n terms, plus the general promise, because every term
    rounds. TFLite schema, CumsumOptions.
    """
    turned = np.flip(x, axis) if reverse else x
    sums = np.cumsum(turned, axis=axis, dtype=x.dtype)
    if exclusive:
        sums = np.roll(sums, 1, axis)
        np.moveaxis(sums, axis, 0)[:1] = 0
    return np.ascontiguousarray(np.flip(sums, axis) if reverse else sums)


OPS: tuple[Op, ...] = (cumsum,)
