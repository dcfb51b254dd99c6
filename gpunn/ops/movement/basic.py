"""Ops that move elements without computing: reshape, squeeze, transpose, padding, concatenation.

dtype: any; the result has the first input's, quantisation included. Kernels: gpunn/ops/kernels/copies.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpunn.kernel import Function, Kernel, Param, Read, size_of, vec_width
from gpunn.ops.algebra import Algebra, same_shape
from gpunn.ops.axes import ALONG_AXIS, Axes, alike, blocks
from gpunn.ops.call import Call
from gpunn.ops.check import QUANTIZED, expect_int, expect_ints, expect_pairs, expect_value
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.fixed_point.affine import activation_bounds, ratio, round_half_away, scale_of, store
from gpunn.ops.fixed_point.tables import entry, every_value, read_table
from gpunn.ops.kernels.copies import bordered, number_param, strided_copy
from gpunn.ops.kernels.strides import dense, in_order, rows_along
from gpunn.ops.memory import empty, together
from gpunn.ops.movement import gradients
from gpunn.ops.movement.host_rows import prepare_concat
from gpunn.ops.movement.turn import turned
from gpunn.ops.op import Op, Quantized, op
from gpunn.pointwise import Pointwise, Repeat
from gpunn.rows import Rows, Walk
from gpunn.types import Array, DType, TensorType


def _infer_reshape(call: Call) -> TensorType:
    shape = expect_ints(call, "shape")
    if any(d < -1 for d in shape) or shape.count(-1) > 1:
        call.fail(f"shape must have entries >= 0 and at most one -1, got {list(shape)}")
    known = size_of(tuple(d for d in shape if d != -1))
    if -1 in shape and known and call.x.size % known == 0:
        shape = tuple(call.x.size // known if d == -1 else d for d in shape)
    if -1 in shape or size_of(shape) != call.x.size:
        call.fail(f"{call.x} with {call.x.size} elements cannot take shape {list(call['shape'])}")
    return call.x.with_shape(shape)


def _prepare_reshape(call: Call) -> Callable[[Array], Array]:
    shape = call.y.shape
    return lambda x: of_loops(x.reshape(shape))


@op(
    _infer_reshape,
    alias=True,
    strings=True,
    algebra=Algebra(identity=same_shape, permutes=True, axes=Axes(space=blocks, shape="shape")),
    prepare=_prepare_reshape,
    gradient=gradients.RESHAPE,
)
def reshape(x: Array, *, shape: Sequence[int]) -> Array:
    """Return the same elements under another shape; one entry of `shape` may be -1 and is computed.

    Raises ModelError if the numbers of elements differ. NeuralNetworks.h, ANEURALNETWORKS_RESHAPE; TFLite
    schema, ReshapeOptions.
    """
    return x.reshape(tuple(shape))


def _infer_squeeze(call: Call) -> TensorType:
    shape = call.x.shape
    axes: Sequence[int] = [call.axis(axis, len(shape)) for axis in expect_ints(call, "axes")]
    for axis in axes:
        if shape[axis] != 1:
            call.fail(f"dimension {axis} must be 1 to be squeezed, got shape {list(shape)}")
    axes = axes or [d for d, n in enumerate(shape) if n == 1]
    return call.x.with_shape(tuple(n for d, n in enumerate(shape) if d not in axes))


@op(
    _infer_squeeze,
    alias=True,
    strings=True,
    algebra=Algebra(identity=same_shape, permutes=True),
    prepare=_prepare_reshape,
    gradient=gradients.RESHAPE,
)
def squeeze(x: Array, *, axes: Sequence[int] = ()) -> Array:
    """Remove the dimensions `axes`, which must be 1; without axes, every dimension of 1.

    Axes may be negative. Raises ModelError for a dimension that is not 1. NNAPI 1.1 types.hal,
    OperationType::SQUEEZE; TFLite schema, SqueezeOptions.
    """
    chosen = {axis % x.ndim for axis in axes} or {d for d, n in enumerate(x.shape) if n == 1}
    return x.reshape(tuple(n for d, n in enumerate(x.shape) if d not in chosen))


def _infer_transpose(call: Call) -> TensorType:
    rank = call.x.rank
    perm = expect_ints(call, "perm", rank)
    if sorted(perm) != list(range(rank)):
        call.fail(f"perm must name each of {list(range(rank))} once, got {list(perm)}")
    return call.x.with_shape(tuple(call.x.shape[d] for d in perm))


def _transpose_kernel(call: Call) -> Kernel:
    steps = dense(call.x.shape)
    walk = tuple(steps[d] for d in call["perm"])
    return strided_copy(Read("x", 0), call.y.shape, walk, dense(call.y.shape), reason="in the result's order")


def _transpose_places(call: Call) -> list[Walk | None]:
    return [in_order(call.x.shape, tuple(call["perm"]))]


def _in_order(call: Call) -> bool:
    return tuple(call["perm"]) == tuple(range(call.x.rank))


def _prepare_transpose(call: Call) -> Callable[[Array], Array]:
    perm = tuple(call["perm"])
    return lambda x: turned(x, x.transpose(perm))


@op(
    _infer_transpose,
    _transpose_kernel,
    raw=True,
    strings=True,
    places=_transpose_places,
    algebra=Algebra(identity=_in_order, permutes=True),
    prepare=_prepare_transpose,
    gradient=gradients.TRANSPOSE,
)
def transpose(x: Array, *, perm: Sequence[int]) -> Array:
    """Permute dimensions: dimension i of the result is dimension perm[i] of x.

    Raises ModelError when `perm` is no permutation of x's dimensions. NNAPI 1.1 types.hal,
    OperationType::TRANSPOSE; TFLite schema, TRANSPOSE.
    """
    return x.transpose(tuple(perm))


def _infer_pad(call: Call) -> TensorType:
    expect_value(call)
    pairs = expect_pairs(call, "paddings", call.x.rank)
    return call.x.with_shape(tuple(n + sum(pair) for n, pair in zip(call.x.shape, pairs, strict=True)))


def _pad_kernel(call: Call) -> Kernel:
    merged: list[tuple[int, int, int]] = []  # size in y, size in x, elements before
    paddings = expect_pairs(call, "paddings", call.x.rank)
    for n, out, (front, _) in zip(call.x.shape, call.y.shape, paddings, strict=True):
        if merged and n == out:
            merged[-1] = (merged[-1][0] * n, merged[-1][1] * n, merged[-1][2] * n)
        else:
            merged.append((out, n, front))
    lanes = vec_width(*merged[-1]) if merged else 1
    reason = "each element of the result is either inside or padding"
    value = number_param(call.x.dtype, call["value"])
    kernel = bordered(call.y, merged, lanes, "pad", {"value": value}, reason)
    return replace(kernel, pointwise=_longer_rows(merged, value))


def _longer_rows(space: list[tuple[int, int, int]], value: Param) -> Pointwise | None:
    """Return a padded tensor element by element; None if more than rows of its merged space become longer."""
    *others, (row, period, before) = space or [(1, 1, 0)]
    if not period or any(size != inside for size, inside, _ in others) or not isinstance(value, int | float):
        return None
    return Pointwise("x", {"x": Repeat(period, row=row, before=before, fill=value)})


def _prepare_pad(call: Call) -> Callable[[Array], Array] | None:
    if not call.x.size or not call.x.rank:
        return None
    pairs = list(zip(call.x.shape, expect_pairs(call, "paddings", call.x.rank), strict=True))
    inside = tuple(slice(before, before + n) for n, (before, _) in pairs)
    shape, dtype = call.y.shape, call.x.dtype.numpy
    value = dtype.type(call["value"])
    row = together(dtype, call.x.shape[-1])

    def compute(x: Array) -> Array:
        padded: Array = empty(shape, dtype)
        padded.fill(value)
        padded[inside].view(row)[...] = x.view(row)
        return padded

    return compute


@op(
    _infer_pad,
    _pad_kernel,
    raw=True,
    prepare=_prepare_pad,
    algebra=Algebra(identity=same_shape, axes=Axes(space=alike, each={"paddings": (0, 0)})),
    gradient=gradients.PAD,
)
def pad(x: Array, *, paddings: Sequence[tuple[int, int]], value: float = 0.0) -> Array:
    """Add `value` around x: (before, after) for each dimension.

    Raises ModelError for negative paddings and unless there is one pair for each dimension. NeuralNetworks.h,
    ANEURALNETWORKS_PAD; TFLite schema, PadOptions and PadV2Options.
    """
    if x.ndim == 0:
        return x
    pairs = list(zip(x.shape, paddings, strict=True))
    padded = empty([before + n + after for n, (before, after) in pairs], x.dtype)
    padded[...] = x.dtype.type(value)  # several times quicker than numpy.pad()
    padded[tuple(slice(before, before + n) for n, (before, _) in pairs)] = x
    return padded


def _infer_concat(call: Call) -> TensorType:
    types = [call.input(k) for k in range(len(call.inputs))]
    first = types[0]
    axis = call.axis(expect_int(call, "axis", call["axis"]), first.rank)
    for k, other in enumerate(types):
        if other.dtype is not first.dtype or (other.quantization is None) != (first.quantization is None):
            call.fail(
                f"inputs must have one dtype and quantisation or none, got {first} and {other} (input {k})"
            )
        rest = (*other.shape[:axis], *other.shape[axis + 1 :])
        if other.rank != first.rank or rest != (*first.shape[:axis], *first.shape[axis + 1 :]):
            call.fail(f"inputs must differ along axis {axis} only, got {first} and {other} (input {k})")
    total = sum(t.shape[axis] for t in types)
    return first.with_shape((*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _unchanged(call: Call, index: int) -> bool:
    """Tell whether input `index` of a concat is stored in the result as it is."""
    return call.input(index).quantization == call.y.quantization and call["activation"] is None


def _entered(call: Call, index: int) -> Array | None:
    """Return input `index` of a quantised concat as stored in the result, as a table; None if unchanged.

    Rescaled in float32 as by TFLite's ConcatenationWithScaling, and clamped to the fused activation.
    """
    if _unchanged(call, index):
        return None
    x, y = call.input(index), call.y
    (scale, zero), (to_scale, to_zero) = scale_of(call, x), scale_of(call, y)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        factor = np.float32(scale) * np.float32(ratio(1, to_scale))
        scaled = every_value(x).astype(np.float32) * factor + np.float32(-zero) * factor
    steps = round_half_away(np.nan_to_num(scaled.astype(np.float64)))
    return store(steps + to_zero, y, activation_bounds(call, y))


def _prepare_integer_concat(call: Call) -> Callable[..., Array]:
    tables, join = [_entered(call, k) for k in range(len(call.inputs))], prepare_concat(call)
    if all(table is None for table in tables):
        return join
    return lambda *xs: join(*[x if t is None else read_table(x, t) for x, t in zip(xs, tables, strict=True)])


def _integer_concat_kernels(call: Call) -> list[Kernel]:
    return _placed(call, [_entered(call, k) for k in range(len(call.inputs))])


def _concat_kernels(call: Call) -> list[Kernel]:
    return _placed(call, [None] * len(call.inputs), activation_function(call))


def _placed(
    call: Call, tables: Sequence[Array | None], functions: Mapping[str, Function] | None = None
) -> list[Kernel]:
    """Make a copy for each input, through its table if it has one."""
    through = {"apply": Function(("x",), entry("table", "x", call.x.dtype))}
    steps = dense(call.y.shape)
    axis = call.axis(call["axis"], call.y.rank)
    kernels, start = [], 0
    for k, table in enumerate(tables):
        shape = call.input(k).shape
        if size_of(shape):
            kernels.append(
                strided_copy(
                    Read("x", k),
                    shape,
                    dense(shape),
                    steps,
                    y_start=start * steps[axis],
                    functions=functions if table is None else through,
                    tables=() if table is None else (Read("table", None, value=table),),
                    reason="each input is copied to its place",
                )
            )
        start += shape[axis]
    return kernels


def _concat_places(call: Call) -> list[Rows | None]:
    axis = call.axis(call["axis"], call.y.rank)
    counts = [call.input(k).shape[axis] for k in range(len(call.inputs))]
    starts = itertools.accumulate(counts, initial=0)
    return [
        rows_along(call.y.shape, axis, start, count) if _unchanged(call, k) else None
        for k, (start, count) in enumerate(zip(starts, counts, strict=False))
    ]


@op(
    _infer_concat,
    _concat_kernels,
    fusible=True,
    places=_concat_places,
    quantized=Quantized.prepared(_prepare_integer_concat, _integer_concat_kernels, dtypes=QUANTIZED),
    strings=True,
    dtypes=(*QUANTIZED, DType.FLOAT16),
    algebra=Algebra(identity=lambda call: len(call.inputs) == 1, axes=ALONG_AXIS),
    prepare=prepare_concat,
    gradient=gradients.CONCAT,
)
def concat(*xs: Array, axis: int) -> Array:
    """Join the inputs along `axis`, which may be negative.

    All other dimensions must be equal. Quantised inputs are rescaled to the result's quantisation. Raises
    ModelError for other shapes and mixed dtypes. NeuralNetworks.h, ANEURALNETWORKS_CONCATENATION; TFLite
    schema, ConcatenationOptions.
    """
    return np.concatenate(xs, axis=axis)


OPS: tuple[Op, ...] = (reshape, squeeze, transpose, pad, concat)
