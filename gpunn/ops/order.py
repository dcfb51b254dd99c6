"""Where values stand among others: arg_max, arg_min, top_k, bucketize.

dtype of x: float32, float16, int32, int64, uint8, int8 or int16, quantised ones compared as stored, for
arg_max and arg_min bool as well.
Ties go to the lowest index, -0 equals +0, and NaN counts as more extreme than any number: the first NaN is
the maximum as well as the minimum, as in numpy (TFLite leaves it open).
On the GPU values are compared as integers of the same order (shaders/lib/order.wgsl).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpunn.kernel import Function, Kernel, Read, Unsupported, Write, ceil_div, flat_threads, size_of
from gpunn.ops.check import (
    FLOATS,
    NUMBERS,
    SMALL,
    expect_dtype,
    expect_entries,
    expect_int,
    expect_unquantised,
)
from gpunn.ops.op import Call, Op, op
from gpunn.ops.team import teams
from gpunn.types import Array, DType, TensorType

MAX_RANKED = 4096  # length of a row up to which top_k may compare all pairs on the GPU
_STEPS = 65_000  # of an invocation: after 65,535 times around loops lavapipe stops them without a word
_WALKED = 16  # how many times as long as k a row must be, so that k walks are faster (measured on lavapipe)
_INDICES = {d.value: d for d in (DType.INT32, DType.INT64)}


def _infer_arg(call: Call) -> TensorType:
    x = expect_dtype(call, 0, *NUMBERS, *SMALL, DType.BOOL)
    axis = call.axis(expect_int(call, "axis", call["axis"]), x.rank)
    if x.shape[axis] < 1:
        call.fail(f"axis {axis} must not be empty, got shape {list(x.shape)}")
    if call["dtype"] not in _INDICES:
        call.fail(f"dtype must be {' or '.join(_INDICES)}, got {call['dtype']!r}")
    return TensorType(_INDICES[call["dtype"]], (*x.shape[:axis], *x.shape[axis + 1 :]))


def _arg_kernel(call: Call, descending: int) -> Kernel:
    return _extremes(call, call.axis(call["axis"], call.x.rank), 1, descending)


def _extremes(
    call: Call, axis: int, k: int, descending: int, picked: str = "index", output: int = 0
) -> Kernel:
    """The kernel that finds the first k along an axis, of which y has the `picked`: "value" or "index"."""
    shape = call.x.shape
    rows = call.x.size // shape[axis]
    threads, workgroup, reason = teams(rows, shape[axis])
    steps = k * (1 + ceil_div(shape[axis], workgroup[0]) + workgroup[0].bit_length())
    if steps > _STEPS:
        raise Unsupported(f"{steps} steps of one invocation are over {_STEPS}, which every driver does")
    return Kernel(
        body="extremes",
        threads=threads,
        workgroup=workgroup,
        reads=(Read("x", 0),),
        writes=(Write(output=output),),
        params={"rows": rows, "length": shape[axis], "inner": size_of(shape[axis + 1 :]), "k": k},
        functions=_pick(picked),
        **_order(call, descending),
        reason=f"rows of {shape[axis]}: {reason}",
    )


def _pick(picked: str) -> dict[str, Function]:
    """What a kernel stores of a value and its index."""
    return {"pick": Function(("value", "index"), picked, ("x", ""))}


def _order(call: Call, descending: int) -> dict[str, Any]:
    """lib/order.wgsl, or lib/wide_order.wgsl, and what these expect, as fields of a Kernel."""
    constants = {"REAL": int(call.x.dtype in FLOATS), "DESCENDING": descending}
    return {"libraries": ("wide_order" if call.x.dtype is DType.INT64 else "order",), "constants": constants}


@op(_infer_arg, lambda call: _arg_kernel(call, 1), raw=True)
def arg_max(x: Array, *, axis: int, dtype: str = "int32") -> Array:
    """The index of the maximum along `axis`, which may be negative and goes.

    `dtype` of the result: "int32" or "int64". Raises ModelError for other dtypes and for an axis that is
    out of range or empty. TFLite schema, ArgMaxOptions.
    """
    return np.asarray(np.argmax(x, axis=axis), dtype)


@op(_infer_arg, lambda call: _arg_kernel(call, 0), raw=True)
def arg_min(x: Array, *, axis: int, dtype: str = "int32") -> Array:
    """The index of the minimum along `axis`, which may be negative and goes; see arg_max.

    TFLite schema, ArgMinOptions.
    """
    return np.asarray(np.argmin(x, axis=axis), dtype)


def _infer_top(call: Call) -> tuple[TensorType, TensorType]:
    x = expect_dtype(call, 0, *NUMBERS, *SMALL)
    k = expect_int(call, "k", call["k"])
    if x.rank < 1:
        call.fail("input 0 must have rank 1 or more, got a scalar")
    if not 0 <= k <= x.shape[-1]:
        call.fail(f"k must be in 0 ... {x.shape[-1]}, got {k}")
    shape = (*x.shape[:-1], k)
    return x.with_shape(shape), TensorType(DType.INT32, shape)


def _top_kernels(call: Call) -> list[Kernel]:
    length, k = call.x.shape[-1], call["k"]
    kernel = _extreme_top if length > MAX_RANKED or length > _WALKED * k else _ranked_top
    return [kernel(call, output, picked) for output, picked in enumerate(("value", "index")) if k]


def _extreme_top(call: Call, output: int, picked: str) -> Kernel:
    return _extremes(call, call.x.rank - 1, call["k"], 1, picked, output)


def _ranked_top(call: Call, output: int, picked: str) -> Kernel:
    return Kernel(
        body="top_k",
        threads=flat_threads(call.x.size),
        workgroup=(64, 1, 1),
        reads=(Read("x", 0),),
        writes=(Write(output=output),),
        params={"count": call.x.size, "length": call.x.shape[-1], "k": call["k"]},
        functions=_pick(picked),
        **_order(call, 1),
        reason="every value counts those before it",
    )


@op(_infer_top, _top_kernels, raw=True)
def top_k(x: Array, *, k: int) -> tuple[Array, Array]:
    """The k greatest values of each row (the last dimension), in descending order, and their indices.

    values have x's type, indices are int32. Rows of over 4096 values are on the GPU up to k times their
    length of 4 million. Raises ModelError for other dtypes, a scalar, and unless k is within the row.
    TFLite schema, TOPK_V2.
    """
    number = ~np.isnan(x)
    descending = np.where(number, -x, 0) if x.dtype.kind == "f" else ~x
    indices = np.lexsort((descending, number), axis=-1)[..., :k]
    return np.take_along_axis(x, indices, -1), indices.astype(np.int32)


def _infer_bucketize(call: Call) -> TensorType:
    expect_unquantised(call, 0, *NUMBERS)
    boundaries = expect_entries(call, "boundaries")
    if not all(a <= b for a, b in itertools.pairwise(boundaries)):
        call.fail(f"boundaries must be in ascending order, got {list(boundaries)}")
    return TensorType(DType.INT32, call.x.shape)


_REALS = {DType.INT32: "wide_to_real(wide(x))", DType.INT64: "wide_to_real(x)"}  # f32(x) may round either way


def _bucketize_kernel(call: Call) -> Kernel:
    bounds = np.asarray(call["boundaries"], np.float32)
    return Kernel(
        body="bucketize",
        threads=flat_threads(call.x.size),
        workgroup=(64, 1, 1),
        reads=(Read("x", 0), Read("bound", None, value=bounds)),
        params={"count": call.x.size, "bounds": bounds.size},
        functions={"real": Function(("x",), _REALS.get(call.x.dtype, "x"), ("x",), "bound")},
        libraries=("wide",) if call.x.dtype in _REALS else (),
        reason=f"a search among {bounds.size} boundaries",
    )


@op(_infer_bucketize, _bucketize_kernel)
def bucketize(x: Array, *, boundaries: Sequence[float]) -> Array:
    """For each number how many of the ascending boundaries are not above it: int32, x's shape.

    x float32, int32, float16 or int64, compared as float32; NaN is above all. Raises ModelError for other
    dtypes and for boundaries that do not ascend. TFLite schema, BucketizeOptions.
    """
    reals = x.astype(np.float32) if x.dtype.kind == "i" else x
    return np.searchsorted(np.asarray(boundaries, np.float32), reals, side="right").astype(np.int32)


OPS: tuple[Op, ...] = (arg_max, arg_min, top_k, bucketize)
