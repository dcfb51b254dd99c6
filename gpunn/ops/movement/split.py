"""Splitting a tensor and joining tensors: split, unstack, stack.

dtype: any; results have the first input's type, including quantisation, and elements move as stored. On the
GPU every piece is one copy (gpunn/ops/movement/basic.py, strided_copy).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpunn.kernel import Kernel, Read, Unsupported, size_of
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import ALONG_AXIS, Axes, Space, each_axis, without
from gpunn.ops.call import Call
from gpunn.ops.check import expect_int, expect_ints
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.kernels.copies import strided_copy
from gpunn.ops.kernels.strides import dense, rows_along, rows_walked
from gpunn.ops.movement import gradients
from gpunn.ops.movement.turn import turned
from gpunn.ops.op import Op, op
from gpunn.rows import Rows
from gpunn.types import Array, Shape, TensorType

_REASON = "each piece is copied to its place"


def _axis(call: Call, rank: int) -> int:
    return call.axis(expect_int(call, "axis", call["axis"]), rank)


def _infer_split(call: Call) -> tuple[TensorType, ...]:
    shape = call.x.shape
    axis, sizes = _axis(call, len(shape)), expect_ints(call, "sizes")
    if not sizes or min(sizes) < 0 or sum(sizes) != shape[axis]:
        call.fail(f"sizes must be >= 0 and add up to {shape[axis]}, got {list(sizes)}")
    return tuple(call.x.with_shape((*shape[:axis], n, *shape[axis + 1 :])) for n in sizes)


class _Pieces(NamedTuple):
    """Results that are pieces of x: how they are walked there, and the element that each begins with."""

    walk: Shape
    starts: tuple[int, ...]

    def kernels(self, call: Call) -> list[Kernel]:
        """Make the kernels that copy each result; none for empty ones."""
        return [
            strided_copy(
                Read("x", 0), y.shape, self.walk, dense(y.shape), x_start=start, output=k, reason=_REASON
            )
            for k, (y, start) in enumerate(zip(call.outputs, self.starts, strict=True))
            if y.size
        ]

    def sources(self, call: Call) -> list[Rows | None]:
        """Return the rows of x that each result is."""
        pieces = zip(call.outputs, self.starts, strict=True)
        return [rows_walked(y.shape, self.walk, start) for y, start in pieces]


def _split_pieces(call: Call) -> _Pieces:
    axis, steps = call.axis(call["axis"], call.x.rank), dense(call.x.shape)
    ends = itertools.accumulate(piece.shape[axis] for piece in call.outputs)
    starts = (end - piece.shape[axis] for end, piece in zip(ends, call.outputs, strict=True))
    return _Pieces(steps, tuple(start * steps[axis] for start in starts))


def _prepare_split(call: Call) -> Callable[[Array], Array | tuple[Array, ...]]:
    if len(call.outputs) == 1:
        return lambda x: x
    before = (slice(None),) * call.axis(call["axis"], call.x.rank)
    ends = tuple(itertools.accumulate(call["sizes"]))
    pieces = [(*before, slice(end - size, end)) for size, end in zip(call["sizes"], ends, strict=True)]
    if size_of(call.x.shape[: len(before)]) == 1:
        return lambda x: tuple([x[piece] for piece in pieces])
    return lambda x: tuple([np.ascontiguousarray(x[piece]) for piece in pieces])


@op(
    _infer_split,
    lambda call: _split_pieces(call).kernels(call),
    raw=True,
    strings=True,
    sources=lambda call: _split_pieces(call).sources(call),
    algebra=Algebra(axes=ALONG_AXIS),
    prepare=_prepare_split,
    gradient=gradients.joined("concat"),
)
def split(x: Array, *, sizes: Sequence[int], axis: int) -> tuple[Array, ...]:
    """Cut x along `axis`, which may be negative, into pieces of `sizes`, one result each.

    Raises ModelError for an axis out of range and unless the sizes are >= 0 and add up to x's extent. TFLite
    schema, SplitOptions and SplitVOptions.
    """
    before, ends = (slice(None),) * (axis % x.ndim), tuple(itertools.accumulate(sizes))
    return tuple(x[(*before, slice(end - size, end))] for size, end in zip(sizes, ends, strict=True))


def _as_reshape(call: Call, to: Expansion, x: Tensor, *others: Tensor) -> Tensor:
    """Write a stack of one tensor, or the only slice of one, as what copies nothing."""
    if others or len(call.outputs) > 1:
        raise Unsupported("several tensors")
    return to.add("reshape", x, shape=call.y.shape)


def _infer_unstack(call: Call) -> tuple[TensorType, ...]:
    shape = call.x.shape
    axis = _axis(call, len(shape))
    if shape[axis] < 1:
        call.fail(f"axis {axis} must not be empty, got shape {list(shape)}")
    return (call.x.with_shape((*shape[:axis], *shape[axis + 1 :])),) * shape[axis]


def _unstack_pieces(call: Call) -> _Pieces:
    axis, steps = call.axis(call["axis"], call.x.rank), dense(call.x.shape)
    starts = tuple(number * steps[axis] for number in range(len(call.outputs)))
    return _Pieces((*steps[:axis], *steps[axis + 1 :]), starts)


def _prepare_unstack(call: Call) -> Callable[[Array], Any]:
    axis, several = call.axis(call["axis"], call.x.rank), len(call.outputs) > 1

    def compute(x: Array) -> Any:
        slices = turned(x, np.moveaxis(x, axis, 0)) if axis else x
        return tuple(slices) if several else slices[0]

    return compute


def _unstacked(call: Call) -> Space:
    rank = call.x.rank
    return Space((each_axis(rank),), (without([_axis(call, rank)], rank),) * len(call.outputs))


@op(
    _infer_unstack,
    lambda call: _unstack_pieces(call).kernels(call),
    raw=True,
    strings=True,
    sources=lambda call: _unstack_pieces(call).sources(call),
    rewrite=_as_reshape,
    algebra=Algebra(axes=Axes(space=_unstacked, axis=("axis",))),
    prepare=_prepare_unstack,
    gradient=gradients.joined("stack"),
)
def unstack(x: Array, *, axis: int) -> tuple[Array, ...]:
    """Cut x into its slices along `axis`, which may be negative and is removed: one result for each index.

    Raises ModelError for an axis that is out of range or empty. TFLite schema, UnpackOptions.
    """
    return tuple(np.moveaxis(x, axis, 0))


def _infer_stack(call: Call) -> TensorType:
    first = call.x
    axis = _axis(call, first.rank + 1)
    for k in range(1, len(call.inputs)):
        other = call.input(k)
        if other != first:
            call.fail(f"inputs must have one type and quantisation, got {first} and {other} (input {k})")
    return first.with_shape((*first.shape[:axis], len(call.inputs), *first.shape[axis:]))


def _stack_kernels(call: Call) -> list[Kernel]:
    shape, steps = call.x.shape, dense(call.y.shape)
    axis = call.axis(call["axis"], call.y.rank)
    walk = (*steps[:axis], *steps[axis + 1 :])
    return [
        strided_copy(Read("x", k), shape, dense(shape), walk, y_start=k * steps[axis], reason=_REASON)
        for k in range(len(call.inputs) if size_of(shape) else 0)
    ]


def _stack_places(call: Call) -> list[Rows | None]:
    axis = call.axis(call["axis"], call.y.rank)
    return [rows_along(call.y.shape, axis, k, 1) for k in range(len(call.inputs))]


def _stacked(call: Call) -> Space:
    rank = call.y.rank
    return Space((without([_axis(call, rank)], rank),) * len(call.inputs), (each_axis(rank),))


@op(
    _infer_stack,
    _stack_kernels,
    raw=True,
    strings=True,
    places=_stack_places,
    rewrite=_as_reshape,
    algebra=Algebra(axes=Axes(space=_stacked, axis=("axis",))),
    gradient=gradients.STACK,
)
def stack(*xs: Array, axis: int) -> Array:
    """Join the inputs along a new dimension `axis` of the result; a negative axis counts in the result.

    Raises ModelError unless all inputs have one type and quantisation, and for an axis out of range. TFLite
    schema, PackOptions.
    """
    return np.stack(xs, axis=axis)


OPS: tuple[Op, ...] = (split, unstack, stack)
