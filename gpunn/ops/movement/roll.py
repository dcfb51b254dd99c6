"""roll: a tensor whose elements move around along their axes, as windows of a Swin Transformer do.

dtype: any; the result has x's, including quantisation, and elements move as stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpunn.kernel import Kernel, vec_width
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import Axes, alike
from gpunn.ops.call import Call
from gpunn.ops.check import expect_ints
from gpunn.ops.kernels.copies import bordered
from gpunn.ops.movement import gradients
from gpunn.ops.op import Op, op
from gpunn.types import Array, TensorType


def _infer(call: Call) -> TensorType:
    expect_ints(call, "shifts", call.x.rank)
    return call.x


def _space(call: Call) -> list[tuple[int, int, int]]:
    """Return for each dimension its size, twice, and the elements that come to its front; merged if possible.

    What lies inside of a dimension and does not move is a part of it.
    """
    merged: list[tuple[int, int, int]] = []
    for n, shift in zip(call.x.shape, call["shifts"], strict=True):
        before = shift % max(n, 1)
        if merged and not before:
            size, _, outer = merged[-1]
            merged[-1] = (size * n, size * n, outer * n)
        elif merged and merged[-1][0] == 1:
            merged[-1] = (n, n, before)
        else:
            merged.append((n, n, before))
    return merged


def _stays(call: Call) -> bool:
    return not any(before for *_, before in _space(call))


def _kernel(call: Call) -> Kernel:
    space = _space(call)
    lanes = vec_width(space[-1][0], space[-1][2]) if space else 1
    return bordered(call.y, space, lanes, "roll", {}, "each element of the result is one of x's")


@op(
    _infer,
    _kernel,
    raw=True,
    strings=True,
    algebra=Algebra(identity=_stays, axes=Axes(space=alike, each={"shifts": 0})),
    gradient=gradients.ROLL,
)
def roll(x: Array, *, shifts: Sequence[int]) -> Array:
    """Move each element shifts[d] places along dimension d; what leaves it at one end comes in at the other.

    Raises ModelError unless there is one number for each dimension. TFLite schema: for each axis two results
    of SLICE or STRIDED_SLICE, and their CONCATENATION the other way round (gpunn/passes/rejoin.py).
    """
    return np.roll(x, tuple(shifts), tuple(range(x.ndim))) if x.ndim else x


OPS: tuple[Op, ...] = (roll,)
