"""Index arithmetic of dense tensors: strides, merging of dimensions, and the numbers shaders need for it.

A space is a list of extents together with, for each tensor that is walked along, the distance in
elements between neighbours in each dimension. Merging neighbouring dimensions that every tensor walks
without a jump makes most spaces one- or two-dimensional.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpunn.kernel import Param, Unsupported, dims4, size_of
from gpunn.rows import Rows, Walk
from gpunn.types import Array, Shape

MAX_RANK = 8  # of a merged space: lib/coords.wgsl walks two times four dimensions


def dense(shape: Shape) -> Shape:
    """Return the strides of a dense row-major tensor."""
    return tuple(size_of(shape[d + 1 :]) for d in range(len(shape)))


def rows_along(shape: Shape, axis: int, start: int, count: int) -> Rows | None:
    """Return the place of `count` indices of an axis, from `start` on, in a dense tensor; None if empty."""
    step = dense(shape)[axis]
    if not count or not size_of(shape):
        return None
    if count == shape[axis]:  # all of it, which is one row
        return Rows(size_of(shape), size_of(shape), 0)
    return Rows(count * step, shape[axis] * step, start * step)


def rows_walked(sizes: Shape, walk: Shape, start: int) -> Rows | None:
    """Return the rows of a tensor that a walk of its elements goes along; None if it finds no such rows."""
    extents, steps = merge(sizes, walk)
    if steps[-1:] != (1,):  # each element is a row of its own
        extents, steps = (*extents, 1), (*steps, 1)
    if not size_of(sizes) or len(extents) > 2 or min(steps) < 1:
        return None
    return Rows(extents[-1], steps[0] if len(extents) == 2 else extents[-1], start)


def in_order(shape: Shape, perm: Shape) -> Walk | None:
    """Return the place of a dense tensor in its transposition; None for less than two elements."""
    steps = dense(tuple(shape[d] for d in perm))
    sizes, walk, _ = merge(shape, tuple(steps[perm.index(d)] for d in range(len(shape))), dense(shape))
    return Walk(sizes, walk) if sizes and size_of(shape) else None


def broadcasts(shape: Shape, target: Shape) -> bool:
    """Tell whether a tensor of `shape` broadcasts to `target`."""
    pairs = zip(shape[::-1], target[::-1], strict=False)
    return len(shape) <= len(target) and all(n in (1, m) for n, m in pairs)


def broadcast_strides(shape: Shape, target: Shape) -> Shape:
    """Return the strides that walk a dense tensor of `shape` along `target`, to which it broadcasts."""
    missing = len(target) - len(shape)
    steps = (0 if extent == 1 else step for extent, step in zip(shape, dense(shape), strict=True))
    return (0,) * missing + tuple(steps)


def merge(sizes: Shape, *strides: Shape) -> tuple[Shape, ...]:
    """Return sizes and strides of the same space with as few dimensions as possible; sizes come first.

    Dimensions of one element are removed. Two neighbours become one if, for every tensor, one step in the
    outer dimension equals a walk through the whole inner dimension.
    """
    columns = [c for c in zip(sizes, *strides, strict=True) if c[0] != 1]
    merged: list[tuple[int, ...]] = []
    for size, *steps in columns:
        if merged and all(a == b * size for a, b in zip(merged[-1][1:], steps, strict=True)):
            merged[-1] = (merged[-1][0] * size, *steps)
        else:
            merged.append((size, *steps))
    return tuple(zip(*merged, strict=True)) if merged else ((),) * (1 + len(strides))


def places_along(*axes: tuple[int, int]) -> Array:
    """Return the places in flat memory that axes of counts and steps lead to, the last axis soonest."""
    return all_sums(*((np.arange(count), step) for count, step in axes))


def all_sums(*axes: tuple[Array, int]) -> Array:
    """Return all sums of one number of each axis, times its step; numbers of the last axis change soonest."""
    total: Array = np.zeros(1, np.int64)
    for numbers, step in axes:
        total = np.add.outer(total, numbers * step).reshape(-1)
    return total


def walked_as(shape: Shape, sizes: Shape, strides: Shape) -> Shape | None:
    """Return the strides of a merged walk under another shape; None if it goes no even way through that."""
    levels, found = [*zip(sizes, strides, strict=True)], list[int]()
    for extent in reversed(shape):
        if extent == 1:
            found.append(0)
            continue
        size, step = levels.pop() if levels else (1, 0)
        if not extent or size % extent:
            return None
        found.append(step)
        if size > extent:
            levels.append((size // extent, step * extent))
    return None if levels else tuple(found[::-1])


def splat(strides: Shape) -> bool:
    """Tell whether a tensor stands still along the innermost dimension."""
    return bool(strides) and strides[-1] == 0


def aligned(sizes: Shape, *strides: Shape) -> bool:
    """Tell whether the innermost dimension can be walked by fours.

    That holds when it is a multiple of four long, and each tensor is either splat or steps by one there and
    by multiples of four elsewhere.
    """
    fours = bool(sizes) and sizes[-1] % 4 == 0
    return fours and all(splat(s) or (s[-1] == 1 and all(step % 4 == 0 for step in s[:-1])) for s in strides)


def by_fours(sizes: Shape, *strides: Shape) -> tuple[Shape, ...]:
    """Return the same aligned space counted in vectors of four; splat tensors still count in elements."""
    quarter = (*sizes[:-1], sizes[-1] // 4)
    return quarter, *(s if splat(s) else (*(step // 4 for step in s[:-1]), 1) for s in strides)


def space_params(sizes: Shape, tensors: Mapping[str, Shape]) -> dict[str, Param]:
    """Return the fields that lib/coords.wgsl reads: extents, and `<name>_stride` for each tensor.

    Each is a pair of four numbers, the innermost four and, under `<field>_hi`, the outer four.
    """
    if len(sizes) > MAX_RANK:
        raise Unsupported(f"{len(sizes)} dimensions that cannot be merged, the shaders walk {MAX_RANK}")
    params: dict[str, Param] = {"inner": size_of(sizes[-4:]), **halves("size", sizes, 1)}
    for name, strides in tensors.items():
        params.update(halves(f"{name}_stride", strides, 0))
    return params


def halves(name: str, values: Shape, fill: int) -> dict[str, Param]:
    """Return up to eight numbers as two fields of four, right-aligned, `fill` in front."""
    return {name: dims4(values[-4:], fill), f"{name}_hi": dims4(values[:-4], fill)}


def space_constants(sizes: Shape) -> dict[str, int]:
    """Return the constants for lib/coords.wgsl: how many dimensions there are."""
    return {"RANK": max(len(sizes), 1)}


def matrix_steps(shape: Shape, adjoint: bool) -> tuple[int, int]:
    """Return the strides along the rows and the columns of a matrix, adjoint if a product takes it so."""
    return (1, shape[-1]) if adjoint else (shape[-1], 1)


def stack_params(
    batch: Shape,
    shapes: Mapping[str, Shape],
    steps: Mapping[str, tuple[int, int]],
    lanes: Mapping[str, int],
) -> dict[str, Param]:
    """Return strides along stacks of matrices, and along rows and columns of these, for lib/walk.wgsl.

    batch: the stack of the result. steps: along rows and columns, in elements. lanes: of operands whose
    strides count vectors. Raises Unsupported for a stack with too many dimensions.
    """
    widths = {name: lanes.get(name, 1) for name in shapes}
    sizes, *walks = merge(batch, *(_walk(shape, batch, widths[name]) for name, shape in shapes.items()))
    if len(sizes) > 4:
        raise Unsupported(f"{len(sizes)} batch dimensions that cannot be merged, the shader walks 4")
    found: dict[str, Param] = {"batch": dims4(sizes, 1)}
    for (name, (down, across)), walk in zip(steps.items(), walks, strict=True):
        found[f"{name}_batch"] = dims4(walk, 0)
        found[f"{name}_step"] = (down // widths[name], across, 0, 0)
    return found


def _walk(shape: Shape, batch: Shape, lanes: int) -> Shape:
    """Return the strides that walk the matrices of a stack along the result's stack."""
    matrix = size_of(shape[-2:]) // lanes
    return tuple(step * matrix for step in broadcast_strides(shape[:-2], batch))
