"""Choosing between two tensors, element by element."""

from __future__ import annotations

from gpunn.kernel import Function, Kernel, Read, Write, ceil_div, flat_threads, size_of
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import PAIRWISE
from gpunn.ops.call import Call, broadcast_shapes
from gpunn.ops.check import expect_unquantised
from gpunn.ops.elementwise import gradients
from gpunn.ops.elementwise.choice import chosen
from gpunn.ops.kernels.each import lanes_of
from gpunn.ops.kernels.strides import (
    aligned,
    broadcast_strides,
    by_fours,
    merge,
    space_constants,
    space_params,
    splat,
)
from gpunn.ops.op import Op, op
from gpunn.pointwise import Pointwise, Repeat
from gpunn.types import Array, DType, Shape, TensorType


def _infer_select(call: Call) -> TensorType:
    condition = expect_unquantised(call, 0, DType.BOOL)
    a, b = call.input(1), call.input(2)
    if a.dtype is not b.dtype or a.quantization != b.quantization:
        call.fail(f"both choices must have one dtype and quantisation, got {a} and {b}")
    return a.with_shape(broadcast_shapes(call, condition.shape, a.shape, b.shape))


def _space(call: Call) -> tuple[int, tuple[Shape, ...]]:
    """Return lanes; then the result's sizes and the strides of the three inputs, merged, counted in lanes.

    A single dimension may be rounded up to words of four (see lanes_of()).
    """
    walks = (broadcast_strides(call.input(k).shape, call.y.shape) for k in range(3))
    sizes, *strides = merge(call.y.shape, *walks)
    if len(sizes) == 1 and lanes_of(call.y) == 4:
        sizes = (4 * ceil_div(sizes[0], 4),)
    if aligned(sizes, *strides):
        return 4, by_fours(sizes, *strides)
    return 1, (sizes, *strides)


def _pointwise(call: Call) -> Pointwise | None:
    """Return the result element by element; None if an input does not repeat regularly."""
    walks = (broadcast_strides(call.input(k).shape, call.y.shape) for k in range(3))
    sizes, *strides = merge(call.y.shape, *walks)
    found = {name: Repeat.along(sizes, s) for name, s in zip("cab", strides, strict=True)}
    operands = {name: repeat for name, repeat in found.items() if repeat is not None}
    return Pointwise("choose(c, a, b)", operands) if len(operands) == len(found) else None


def _select_kernel(call: Call) -> Kernel:
    lanes, (sizes, *strides) = _space(call)
    tensors = dict(zip("cab", strides, strict=True))
    count = size_of(sizes)
    reads = (Read(name, k, width=1 if splat(s) else lanes) for k, (name, s) in enumerate(tensors.items()))
    splats = {f"{name.upper()}_SPLAT": int(splat(s)) for name, s in tensors.items()}
    return Kernel(
        body="select",
        threads=flat_threads(count),
        reads=tuple(reads),
        writes=(Write(width=lanes),),
        params={"count": count, **space_params(sizes, tensors)},
        constants={**splats, **space_constants(sizes)},
        functions={"choose": Function(("c", "a", "b"), "select(b, a, c != 0)", ("c", "", ""))},
        lanes=lanes,
        rounded_up=count * lanes > call.y.size,
        pointwise=_pointwise(call),
        reason="element by element",
    )


@op(
    _infer_select,
    _select_kernel,
    raw=True,
    strings=True,
    algebra=Algebra(axes=PAIRWISE),
    gradient=gradients.SELECT,
)
def select(condition: Array, a: Array, b: Array) -> Array:
    """Choose the elements of `a` where the condition is true, and those of `b` elsewhere.

    condition bool; a and b of any dtype, the same with the same quantisation, which the result has too. The
    three broadcast as in numpy. Raises ModelError for other dtypes and for shapes that do not broadcast.
    TFLite schema, SELECT and SELECT_V2.
    """
    return chosen(condition, a, b)


OPS: tuple[Op, ...] = (select,)
