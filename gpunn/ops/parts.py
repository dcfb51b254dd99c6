"""Parts of a call: how an op computes a range of its result's rows, for tensors too large for one binding.

Rows lie along the first axis of more than one element, so that a range of rows is a range of bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gpunn.ops.axes import Axes
from gpunn.ops.call import Call
from gpunn.types import Shape, TensorType


@dataclass(frozen=True, slots=True)
class Part:
    """The call that computes a range of rows, and the first row that it reads of each operand.

    None for an operand that it reads as a whole.
    """

    call: Call
    firsts: tuple[int | None, ...]


# From a call and a range of rows of its only result to that part; None if the op cannot compute it alone.
Divide = Callable[[Call, int, int], Part | None]


def row_axis(shape: Shape) -> int:
    """Return the axis along which the rows of a tensor lie."""
    return next((axis for axis, extent in enumerate(shape) if extent > 1), 0)


def with_rows(type: TensorType, count: int) -> TensorType:
    """Return the type of a number of rows of a tensor."""
    axis = row_axis(type.shape)
    return type.with_shape(tuple(count if d == axis else n for d, n in enumerate(type.shape)))


def part(call: Call, first: int, end: int, firsts: tuple[int | None, ...], **attrs: Any) -> Part:
    """Make the part of rows first ... end - 1, which reads as many rows of the operands with a first one."""
    inputs = tuple(
        t if t is None or at is None else with_rows(t, end - first)
        for t, at in zip(call.inputs, firsts, strict=True)
    )
    outputs = (with_rows(call.y, end - first),)
    return Part(replace(call, inputs=inputs, outputs=outputs, attrs={**call.attrs, **attrs}), firsts)


def by_axes(axes: Axes) -> Divide:
    """Divide along an axis that operands and result share, and that no attribute names."""

    def divide(call: Call, first: int, end: int) -> Part | None:
        space, axis = axes.space(call), row_axis(call.y.shape)
        if space is None or axes.each or axes.shape or len(call.outputs) > 1:
            return None
        places = [*space.outputs[0]]
        shared = places.index((axis,)) if (axis,) in places else None
        if shared is None or shared in axes.named(call, len(places)):
            return None
        firsts: list[int | None] = []
        for number, type in enumerate(call.inputs):
            own = () if type is None or number in axes.fixed else space.inputs[number][shared]
            if type is None or not own or (axes.broadcast and type.shape[own[0]] == 1):
                firsts.append(None)
            elif own == (row_axis(type.shape),) and type.shape[own[0]] == call.y.shape[axis]:
                firsts.append(first)
            else:
                return None
        return part(call, first, end, tuple(firsts))

    return divide


def by_batch(call: Call, first: int, end: int) -> Part | None:
    """Divide along the first axis, the batch of the first operand; all others are read as a whole."""
    batch = call.y.shape[0] if call.y.rank else 0
    if len(call.outputs) > 1 or row_axis(call.y.shape) != 0 or call.x.shape[:1] != (batch,):
        return None
    return part(call, first, end, (first, *[None] * (len(call.inputs) - 1)))
