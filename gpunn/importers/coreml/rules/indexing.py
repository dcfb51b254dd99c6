"""Rules of layers that choose elements by index, or give indices, which are float32 like everything else."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.rules.arithmetic import as_number, truth
from gpunn.types import Shape


def indices_into(node: Node, x: Value, extents: Sequence[int]) -> Value:
    """Return numbers as indices into `extents`, along the last axis if these are many; negative ones wrap."""
    found = node.add("cast", x, dtype="int32")
    limits = node.integers(extents[0] if len(extents) == 1 else extents)
    negative = node.add("less", found, node.integers(0))
    return node.add("select", negative, node.add("add", found, limits), found)


def gather(node: Node) -> Value:
    """Return the parts of the first input along an axis that the second one names."""
    x, indices = node.operand(0), node.operand(1)
    axis = node.axis(node.params.axis, x.type.rank)
    return node.add("gather", x, indices_into(node, indices, [x.type.shape[axis]]), axis=axis)


def gather_nd(node: Node) -> Value:
    """Return the parts of the first input that the vectors in the second one name."""
    x, indices = node.operand(0), node.operand(1)
    count = indices.type.shape[-1] if indices.type.rank else 0
    if not 1 <= count <= x.type.rank:
        node.corrupt(f"indices of shape {list(indices.type.shape)} for an input of {list(x.type.shape)}")
    return node.add("gather_nd", x, indices_into(node, indices, x.type.shape[:count]))


def gather_along_axis(node: Node) -> Value:
    """Return for each index the element of the first input at this index of the axis, all else equal."""
    x, indices = node.operand(0), node.operand(1)
    axis, rank = node.axis(node.params.axis, x.type.rank), x.type.rank
    others = [n for k, n in enumerate(x.type.shape) if k != axis]
    if others != [n for k, n in enumerate(indices.type.shape) if k != axis] or indices.type.rank != rank:
        node.corrupt(f"indices of shape {list(indices.type.shape)} for an input of {list(x.type.shape)}")
    rows = [along_rows(node, value, axis) for value in (x, indices_into(node, indices, [x.type.shape[axis]]))]
    found = node.add("gather", *rows, axis=1, batch_dims=1)
    return from_rows(node, found, indices.type.shape, axis)


def along_rows(node: Node, x: Value, axis: int) -> Value:
    """Return x as a matrix with rows along an axis."""
    shape = node.shape(x)
    if axis != len(shape) - 1:
        x = node.add("transpose", x, perm=_moved(len(shape), axis))
    return node.add("reshape", x, shape=(math.prod(shape) // max(1, shape[axis]), shape[axis]))


def from_rows(node: Node, rows: Value, shape: Shape, axis: int) -> Value:
    """Return a matrix with rows along an axis as a tensor of `shape`, but for the length of rows."""
    order = _moved(len(shape), axis)
    extents = [shape[k] for k in order[:-1]]
    y = node.add("reshape", rows, shape=(*extents, node.shape(rows)[1]))
    if axis == len(shape) - 1:
        return y
    return node.add("transpose", y, perm=tuple(order.index(k) for k in range(len(shape))))


def _moved(rank: int, axis: int) -> tuple[int, ...]:
    """Return the order of axes with one of them last."""
    return (*(k for k in range(rank) if k != axis), axis)


def cumulative_sum(node: Node) -> Value:
    """Return running sums along an axis; a second input overrides the axis."""
    params, x = node.params, node.operand(0)
    how = {"exclusive": params.excludeFinalSum, "reverse": params.reverse}
    if len(node.inputs) > 1 and node.operand(1).value is None:
        return node.add("cumsum", x, node.add("cast", node.operand(1), dtype="int32"), **how)
    stated = node.number(1, "axis") if len(node.inputs) > 1 else params.axis
    return node.add("cumsum", x, axis=node.axis(stated, x.type.rank), **how)


def one_hot(node: Node) -> Value:
    """Return for each index a vector that is `onValue` there and `offValue` elsewhere."""
    params, x = node.params, node.operand(0)
    depth = int(node.number(1, "depth") if len(node.inputs) > 1 else params.oneHotVectorSize)
    indices = node.add("cast", x, dtype="int32")
    values = node.scalar(params.onValue), node.scalar(params.offValue)
    return node.add("one_hot", indices, *values, depth=depth, axis=node.axis(params.axis, x.type.rank + 1))


def top_k(node: Node) -> Sequence[Value]:
    """Return the greatest or least elements along an axis, and their indices."""
    params, x = node.params, node.operand(0)
    axis = node.axis(params.axis, x.type.rank)
    count = int(node.number(1, "number of elements") if len(node.inputs) > 1 else params.K)
    rows = along_rows(node, x, axis)
    if params.useBottomK:
        rows = node.add("neg", rows)
    best = node.add("top_k", rows, k=count)
    values: Value = node.add("neg", best) if params.useBottomK else best
    indices = as_number(node, best.beside(1))
    return [from_rows(node, found, x.type.shape, axis) for found in (values, indices)]


def arg_sort(node: Node) -> Value:
    """Return the indices that sort x along an axis, upwards unless stated; equal elements stay in order."""
    params, x = node.params, node.only()
    axis = node.axis(params.axis, x.type.rank)
    rows = along_rows(node, x, axis)
    best = node.add("top_k", rows if params.descending else node.add("neg", rows), k=node.shape(rows)[1])
    return from_rows(node, as_number(node, best.beside(1)), x.type.shape, axis)


def sliding_windows(node: Node) -> Value:
    """Return windows along an axis, which becomes two: the number of the window, and the place in it."""
    params, x = node.params, node.only()
    axis = node.axis(params.axis, x.type.rank)
    size, step, extent = int(params.windowSize), int(params.step), x.type.shape[axis]
    if not 1 <= size <= extent or step < 1:
        node.corrupt(f"windows of {size} elements, {step} apart, do not fit {extent}")
    step = min(step, extent)  # numbers in the file may be of any size
    count = (extent - size) // step + 1
    starts, places = node.integers(np.arange(count)[:, None] * step), node.integers(np.arange(size))
    return node.add("gather", x, node.add("add", starts, places), axis=axis)


def _masked(node: Node, *bounds: tuple[str, int]) -> Value:
    """Return the matrices in the last two axes of x, with 0 where column less row breaks one of the bounds.

    A bound is a comparison and a number.
    """
    x = node.only()
    shape = x.type.shape
    if len(shape) < 2:
        node.corrupt(f"expected matrices, got shape {list(shape)}")
    columns, rows = node.integers(np.arange(shape[-1])), node.integers(np.arange(shape[-2])[:, None])
    diagonal = node.add("sub", columns, rows)
    y: Value = x
    for op, bound in bounds:
        within = max(min(bound, shape[-1]), -shape[-2])  # numbers in the file may be of any size
        kept = node.add("broadcast_to", node.add(op, diagonal, node.integers(within)), shape=shape)
        y = node.add("select", kept, y, node.add("zeros_like", x))
    return y


def band_part(node: Node) -> Value:
    """Return matrices with 0 outside of a band around the diagonal; a negative width keeps the whole side."""
    below, above = node.params.numLower, node.params.numUpper
    bounds = (("greater_equal", -below, below), ("less_equal", above, above))
    return _masked(node, *((op, bound) for op, bound, width in bounds if width >= 0))


def lower_triangular(node: Node) -> Value:
    """Return matrices with 0 above the k-th diagonal."""
    return _masked(node, ("less_equal", node.params.k))


def upper_triangular(node: Node) -> Value:
    """Return matrices with 0 below the k-th diagonal."""
    return _masked(node, ("greater_equal", node.params.k))


def where_nonzero(node: Node) -> Value:
    """Return the indices of all elements that are not 0, a row each."""
    return as_number(node, node.add("where", truth(node, node.only())))
