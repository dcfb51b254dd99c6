"""Kernels of element-wise functions of two tensors, by the way these broadcast."""

from __future__ import annotations

from dataclasses import replace

from gpunn.kernel import Kernel, Read, Write, ceil_div, flat_threads, vec_width
from gpunn.ops.call import Call
from gpunn.ops.elementwise.combine import Combine
from gpunn.ops.kernels.each import lanes_of
from gpunn.ops.kernels.strides import (
    aligned,
    broadcast_strides,
    by_fours,
    dense,
    merge,
    space_constants,
    space_params,
    splat,
)
from gpunn.pointwise import Pointwise, Repeat
from gpunn.types import Shape

DENSE, REPEAT, SPLAT = range(3)  # how binary_flat.wgsl finds an operand's element


def pairwise(call: Call, combine: Combine) -> Kernel:
    """Make the kernel that applies `combine` to the elements of both operands."""
    walks = (broadcast_strides(call.input(k).shape, call.y.shape) for k in range(2))
    sizes, a, b = merge(call.y.shape, *walks)
    modes = _mode(sizes, a), _mode(sizes, b)
    if modes[0] is None or modes[1] is None:
        kernel = _strided(call, combine, sizes, a, b)
    else:
        kernel = _flat(call, combine, (modes[0], modes[1]), sizes)
    return replace(kernel, pointwise=_pointwise(combine, sizes, a, b))


def _pointwise(combine: Combine, sizes: Shape, a: Shape, b: Shape) -> Pointwise | None:
    """Return the result element by element; None if an operand does not repeat regularly."""
    first, second = (Repeat.along(sizes, strides) for strides in (a, b))
    if first is None or second is None:
        return None
    activated = "apply(combine(a, b))" if "apply" in combine.functions else "combine(a, b)"
    return Pointwise(activated, {"a": first, "b": second}, combine.signs)


def _flat(call: Call, combine: Combine, modes: tuple[int, int], sizes: Shape) -> Kernel:
    """Make the kernel for operands that are dense, one element, or repeat over the last merged dimension."""
    repeats = REPEAT in modes
    period = sizes[-1] if repeats else call.y.size
    lanes = vec_width(call.y.size, period) if repeats else lanes_of(call.y)
    count = ceil_div(call.y.size, lanes)
    a, b = (Read("ab"[k], k, width=1 if modes[k] == SPLAT else lanes) for k in range(2))
    return Kernel(
        body="binary_flat",
        threads=flat_threads(count),
        reads=(a, b, *combine.tables),
        writes=(Write(width=lanes),),
        params={"count": count, "period": max(period // lanes, 1), **combine.params},
        constants={"A_MODE": modes[0], "B_MODE": modes[1]},
        functions=combine.functions,
        libraries=combine.libraries,
        lanes=lanes,
        rounded_up=call.y.size % lanes > 0,
        reason="element by element",
    )


def _strided(call: Call, combine: Combine, sizes: Shape, a: Shape, b: Shape) -> Kernel:
    """Make the kernel for any broadcast: coordinates of the result, dotted with each operand's strides."""
    lanes = 4 if aligned(sizes, a, b) else 1
    if lanes == 4:
        sizes, a, b = by_fours(sizes, a, b)
    count = call.y.size // lanes
    return Kernel(
        body="binary_strided",
        threads=flat_threads(count),
        reads=(
            Read("a", 0, width=1 if splat(a) else lanes),
            Read("b", 1, width=1 if splat(b) else lanes),
            *combine.tables,
        ),
        writes=(Write(width=lanes),),
        params={"count": count, **space_params(sizes, {"a": a, "b": b}), **combine.params},
        constants={"A_SPLAT": int(splat(a)), "B_SPLAT": int(splat(b)), **space_constants(sizes)},
        functions=combine.functions,
        libraries=combine.libraries,
        lanes=lanes,
        reason="operands broadcast over inner dimensions",
    )


def _mode(sizes: Shape, strides: Shape) -> int | None:
    """Return how a tensor lies in a merged space; None if it needs the general walk."""
    if strides == dense(sizes):
        return DENSE
    if not any(strides):
        return SPLAT
    return REPEAT if strides == (0, 1) else None
