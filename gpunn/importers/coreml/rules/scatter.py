"""Rules of layers that write elements at indices, in seven modes, and of reversed sequences."""

from __future__ import annotations

import math

import numpy as np

from gpunn.importers.common.node import RefusedError
from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.rules.indexing import along_rows, from_rows, indices_into

# ScatterMode by number: how updates join what is there, and what is done to them before.
_MODES = (
    (None, None),
    ("sum", None),
    ("sum", "neg"),
    ("prod", None),
    ("prod", "inverse"),
    ("max", None),
    ("min", None),
)


def _scattered(node: Node, x: Value, indices: Value, updates: Value, window: range, axes: range) -> Value:
    """Return x with updates joined in at vectors of indices into these axes.

    `window` are the axes of the updates that are axes of x; the others are those of the indices.
    """
    if not 0 <= node.params.mode < len(_MODES):
        raise RefusedError(f"its mode number {node.params.mode} is not in the format's document")
    function, before = _MODES[node.params.mode]
    if before == "neg":
        updates = node.add("neg", updates)
    elif before == "inverse":
        updates = node.add("div", node.scalar(1), updates)
    return node.add(
        "scatter_slices",
        x,
        indices,
        updates,
        update_window_dims=tuple(window),
        inserted_window_dims=tuple(axes),
        scatter_dims_to_operand_dims=tuple(axes),
        index_vector_dim=len(node.shape(indices)) - 1,
        function=function,
    )


def scatter_nd(node: Node) -> Value:
    """Return the first input with the updates joined in where the vectors of the second one say."""
    x, indices, updates = (node.operand(k) for k in range(3))
    count = indices.type.shape[-1] if indices.type.rank else 0
    if not 1 <= count <= x.type.rank:
        node.corrupt(f"indices of shape {list(indices.type.shape)} for an input of {list(x.type.shape)}")
    found = indices_into(node, indices, x.type.shape[:count])
    window = range(indices.type.rank - 1, updates.type.rank)
    return _scattered(node, x, found, updates, window, range(count))


def scatter(node: Node) -> Value:
    """Return the first input with slices joined in along an axis, where the second one says."""
    x, indices, updates = (node.operand(k) for k in range(3))
    axis, rank = node.axis(node.params.axis, x.type.rank), indices.type.rank
    found = indices_into(node, indices, [x.type.shape[axis]])
    vectors = node.add("reshape", found, shape=(indices.type.size, 1))
    shape = (*x.type.shape[:axis], indices.type.size, *x.type.shape[axis + 1 :])
    if updates.type.rank != x.type.rank - 1 + rank or math.prod(shape) != updates.type.size:
        node.corrupt(f"updates of shape {list(updates.type.shape)} are not of the expected {list(shape)}")
    rows = node.add("transpose", node.add("reshape", updates, shape=shape), perm=_first(len(shape), axis))
    turned = node.add("transpose", x, perm=_first(len(shape), axis))
    joined = _scattered(node, turned, vectors, rows, range(1, len(shape)), range(1))
    order = _first(len(shape), axis)
    return node.add("transpose", joined, perm=tuple(order.index(k) for k in range(len(order))))


def _first(rank: int, axis: int) -> tuple[int, ...]:
    """Return the order of axes with one of them first."""
    return (axis, *(k for k in range(rank) if k != axis))


def scatter_along_axis(node: Node) -> Value:
    """Return the first input with each update joined in at its index of the axis, all else equal."""
    x, indices, updates = (node.operand(k) for k in range(3))
    axis = node.axis(node.params.axis, x.type.rank)
    if indices.type.shape != updates.type.shape:
        shapes = f"{list(indices.type.shape)} and {list(updates.type.shape)}"
        node.corrupt(f"indices and updates have other shapes: {shapes}")
    matrix = along_rows(node, x, axis)
    places = along_rows(node, indices_into(node, indices, [x.type.shape[axis]]), axis)
    rows, columns = node.shape(places)
    if rows != node.shape(matrix)[0]:
        node.corrupt(f"indices of shape {list(indices.type.shape)} for an input of {list(x.type.shape)}")
    numbers = node.add("broadcast_to", node.integers(np.arange(rows)[:, None]), shape=(rows, columns))
    pairs = (node.add("reshape", values, shape=(rows * columns, 1)) for values in (numbers, places))
    vectors = node.add("concat", *pairs, axis=1)
    values = node.add("reshape", along_rows(node, updates, axis), shape=(rows * columns,))
    joined = _scattered(node, matrix, vectors, values, range(0), range(2))
    return from_rows(node, joined, x.type.shape, axis)


def reverse_sequences(node: Node) -> Value:
    """Return x with its first elements along an axis reversed: how many, the second input says."""
    params, x = node.params, node.operand(0)
    rank = x.type.rank
    lengths = node.add("cast", node.operand(1), dtype="int32")
    axes = {"axis": node.axis(params.sequenceAxis, rank), "batch_axis": node.axis(params.batchAxis, rank)}
    return node.add("reverse_sequence", x, lengths, **axes)
