"""Reductions over any axes.

A line of TABLE is an op: its meaning in numpy, and as WGSL a start value, how an element joins the
accumulator, and what is done to the accumulator at the end; and its dtypes.
Shapes: the reduced axes go, or stay as 1 with keep_dims.
Quantised uint8, int8 and int16 stand for reals: their mean, sum and product are computed as TFLite's
kernels do (reduce_integer.py), their maximum and minimum are stored values as they are (where the result
is quantised as the input). Raises ModelError for other dtypes and for axes that are out of range. Axes may
be negative, repeated, all, or none (then every element is reduced by itself). Integer sums and products wrap
around; the mean of integers is that of their 64-bit sum, without its fraction, and 0 of nothing. Maximum and
minimum give NaN where there is one; those of nothing are the lowest and the highest value of the dtype,
infinities where it has them.
Meaning: TFLite schema, MEAN, SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN, REDUCE_ANY, REDUCE_ALL, all with
ReducerOptions; NNAPI 1.1 types.hal, OperationType::MEAN.
Accuracy: n eps mean(|x|) of float32 for n terms of a mean, n eps sum(|x|) of a sum, n eps relative of a
product, beside the general promise, since every term rounds; the shader's 64 partial results keep it far
below that for long reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gpunn.kernel import Kernels, Unsupported, keep_nan, size_of
from gpunn.ops.accuracy import PROMISE, SELECTION, Accuracy, sums
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import Axes, Space, each_axis, without
from gpunn.ops.call import Call
from gpunn.ops.check import (
    FLOATS,
    NUMBERS,
    QUANTIZED,
    SMALL,
    expect_axes,
    expect_bool,
    expect_dtype,
    expect_ints,
)
from gpunn.ops.fixed_point.affine import through_reals
from gpunn.ops.op import KernelFunction, Op, Prepare, Quantized, op
from gpunn.ops.reduction.gradients import REDUCTIONS
from gpunn.ops.reduction.host_sums import means_in_loop, prepare_sum
from gpunn.ops.reduction.reduce_integer import INTEGER, WHOLE_MEAN, Folding, reduced_axes
from gpunn.ops.reduction.reduce_kernel import reduction, spaces
from gpunn.ops.reduction.short_rows import extremes
from gpunn.types import Array, DType, TensorType

_untyped: Any = np  # whose stubs take keepdims only as a literal


def _mean(x: Array, *, axes: Sequence[int], keep_dims: bool = False) -> Array:
    axes = _axes(x, axes)
    count = size_of(tuple(x.shape[axis] for axis in axes))
    if x.dtype.kind == "i":
        whole = _untyped.sum(x, axis=axes, keepdims=keep_dims, dtype=np.int64)
        inexact = (whole < 0) & (whole % max(count, 1) != 0)
        return np.asarray(whole // max(count, 1) + inexact, x.dtype)
    total = _untyped.sum(x, axis=axes, keepdims=keep_dims, dtype=np.result_type(x, np.float32))
    with np.errstate(invalid="ignore"):  # the mean of nothing is NaN
        return np.asarray(total / total.dtype.type(count), x.dtype)


def _axes(x: Array, axes: Sequence[int]) -> tuple[int, ...]:
    """Return each axis once, for numpy."""
    return tuple({axis % x.ndim for axis in axes})


def _prepare_mean(call: Call) -> Callable[[Array], Any] | None:
    if call.x.dtype is not DType.FLOAT32:
        return None
    total, count = prepare_sum(call), np.float32(call.x.size // max(1, call.y.size))
    return means_in_loop(call, lambda x: np.divide(total(x), count))


def _reduce_sum(x: Array, *, axes: Sequence[int], keep_dims: bool = False) -> Array:
    dtype = np.result_type(x, np.float32) if x.dtype.kind == "f" else x.dtype
    return np.asarray(_untyped.sum(x, axis=_axes(x, axes), keepdims=keep_dims, dtype=dtype), x.dtype)


def _reduce_prod(x: Array, *, axes: Sequence[int], keep_dims: bool = False) -> Array:
    dtype = np.result_type(x, np.float32) if x.dtype.kind == "f" else x.dtype
    return np.asarray(_untyped.prod(x, axis=_axes(x, axes), keepdims=keep_dims, dtype=dtype), x.dtype)


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the lowest and the highest value of a dtype."""
    if dtype.kind == "f":
        return -np.inf, np.inf
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _reduce_max(x: Array, *, axes: Sequence[int], keep_dims: bool = False) -> Array:
    low, _ = _limits(x.dtype)
    return _extremes(np.maximum, x, axes, keep_dims, low)


def _reduce_min(x: Array, *, axes: Sequence[int], keep_dims: bool = False) -> Array:
    _, high = _limits(x.dtype)
    return _extremes(np.minimum, x, axes, keep_dims, high)


def _extremes(fold: np.ufunc, x: Array, axes: Sequence[int], keep_dims: bool, none: float) -> Array:
    """Return the maxima or minima along axes; `none` is that of nothing."""
    which = _axes(x, axes)
    found = extremes(fold, x) if which == (x.ndim - 1,) else None
    if found is None:
        return np.asarray(fold.reduce(x, axis=which, keepdims=keep_dims, initial=none), x.dtype)
    return found[..., None] if keep_dims else found


def _reduce_any(x: Array, *, axes: Sequence[int], keep_dims: bool = False) -> Array:
    return np.asarray(_untyped.any(x, axis=_axes(x, axes), keepdims=keep_dims))


def _reduce_all(x: Array, *, axes: Sequence[int], keep_dims: bool = False) -> Array:
    return np.asarray(_untyped.all(x, axis=_axes(x, axes), keepdims=keep_dims))


def _lowest(call: Call) -> float:
    return _limits(call.x.dtype.numpy)[0]


def _highest(call: Call) -> float:
    return _limits(call.x.dtype.numpy)[1]


class Reduction(NamedTuple):
    """One line: name, meaning, dtypes, start, and expressions in `acc` and `x`; `p.count` terms are joined.

    `initial` may depend on the call. `finish` may read `place`, the number of the result, counted in V.
    `int64`: the fold of int64. `nan`: the fold drops NaN, which has to be kept. `precise`, `accuracy`,
    `prepare`: as of Op.
    """

    name: str
    meaning: Callable[..., Any]
    dtypes: tuple[DType, ...]
    initial: float | Callable[[Call], float]
    fold: str
    int64: str = ""
    finish: str = "acc"
    nan: bool = False
    precise: bool = False
    accuracy: Accuracy = PROMISE
    prepare: Prepare | None = None


def _terms(call: Call) -> int:
    return max(call.x.size // max(call.y.size, 1), 1)


def _extreme(
    name: str, meaning: Callable[..., Any], initial: Callable[[Call], float], fold: str
) -> Reduction:
    return Reduction(
        name, meaning, (*NUMBERS, *SMALL), initial, fold, f"i64_{fold}", nan=True, accuracy=SELECTION
    )


_BOOL = (DType.BOOL,)
_SUM = ("acc + x", "i64_add(acc, x)")
TABLE = (
    Reduction(
        "mean",
        _mean,
        NUMBERS,
        0,
        *_SUM,
        "acc / T(p.count)",
        precise=True,
        accuracy=sums(_terms),
        prepare=_prepare_mean,
    ),
    Reduction(
        "reduce_sum",
        _reduce_sum,
        (*NUMBERS, *SMALL),
        0,
        *_SUM,
        precise=True,
        accuracy=sums(_terms),
        prepare=prepare_sum,
    ),
    Reduction(
        "reduce_prod",
        _reduce_prod,
        (*NUMBERS, *SMALL),
        1,
        "acc * x",
        "i64_multiply(acc, x)",
        accuracy=Accuracy(roundings=_terms),
    ),
    _extreme("reduce_max", _reduce_max, _lowest, "max(acc, x)"),
    _extreme("reduce_min", _reduce_min, _highest, "min(acc, x)"),
    Reduction("reduce_any", _reduce_any, _BOOL, 0, "acc | x"),
    Reduction("reduce_all", _reduce_all, _BOOL, 1, "acc & x"),
)


def _infer(line: Reduction) -> Callable[[Call], TensorType]:
    def infer(call: Call) -> TensorType:
        x = expect_dtype(call, 0, *line.dtypes)
        axes = expect_axes(call, expect_ints(call, "axes"), x.rank)
        if expect_bool(call, "keep_dims"):
            return x.with_shape(tuple(1 if d in axes else n for d, n in enumerate(x.shape)))
        return x.with_shape(tuple(n for d, n in enumerate(x.shape) if d not in axes))

    return infer


def _kernel(line: Reduction) -> KernelFunction:
    def kernel(call: Call) -> Kernels:
        if line.name == "mean" and call.x.dtype not in FLOATS:
            return reduction(call, WHOLE_MEAN[call.x.dtype])
        initial = line.initial(call) if callable(line.initial) else line.initial
        if call.x.dtype is DType.INT64:
            return reduction(call, Folding(initial, line.int64))
        fold = keep_nan(line.fold, "acc", "x") if line.nan and call.x.dtype in FLOATS else line.fold
        return reduction(call, Folding(initial, fold, line.finish))

    return kernel


def _as_integers(line: Reduction) -> Quantized:
    """Make the facet of an op with integer arithmetic; other calls go through real numbers."""
    integer = INTEGER[line.name]

    def prepare(call: Call) -> Callable[[Array], Array]:
        return partial(through_reals, call, line.meaning) if integer.why_not(call) else integer.prepare(call)

    def kernel(call: Call) -> Kernels:
        reason = integer.why_not(call)
        if reason:
            raise Unsupported(reason)
        lanes, _, _ = spaces(call)
        return reduction(call, integer.folding(call, lanes))

    return Quantized.prepared(prepare, kernel, dtypes=QUANTIZED)


def _as_stored(line: Reduction) -> Quantized:
    """Make the facet of an op that chooses among values, which compare as stored."""

    def reference(call: Call, x: Array) -> Array:
        if call.x.quantization != call.y.quantization:
            return through_reals(call, line.meaning, x)
        result: Array = line.meaning(x, **call.attrs)
        return result

    def kernel(call: Call) -> Kernels:
        if call.x.quantization != call.y.quantization:
            raise Unsupported("input and output are quantised differently")
        return _kernel(line)(call)

    return Quantized(reference, kernel, dtypes=QUANTIZED)


def _shared(call: Call) -> Space | None:
    """Return the axes that x and the result share; None if the order of the elements matters."""
    axes, rank = reduced_axes(call), call.x.rank
    if call.x.quantization is not None:
        return None
    return Space((each_axis(rank),), (each_axis(rank) if call["keep_dims"] else without(axes, rank),))


_FACETS = {
    **{line.name: _as_integers(line) for line in TABLE if line.name in INTEGER},
    **{line.name: _as_stored(line) for line in TABLE if line.name in ("reduce_max", "reduce_min")},
}

OPS: tuple[Op, ...] = tuple(
    op(
        _infer(line),
        _kernel(line),
        name=line.name,
        dtypes=line.dtypes,
        flops=lambda call: call.x.size,
        quantized=_FACETS.get(line.name),
        precise=line.precise,
        algebra=Algebra(axes=Axes(space=_shared, axes=("axes",))),
        accuracy=line.accuracy,
        prepare=line.prepare,
        gradient=REDUCTIONS.get(line.name),
    )(line.meaning)
    for line in TABLE
)
