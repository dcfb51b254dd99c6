"""Rules of STABLEHLO_GATHER and STABLEHLO_SCATTER, whose indices name places of whole slices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpunn.importers.common.answers import Result, Step, Steps, Value, constant
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.node import Node, Options
from gpunn.importers.tflite.rules.value import expect_few
from gpunn.importers.tflite.rules.window import chain, cut, function
from gpunn.ops.reduction.window import joining
from gpunn.types import Array, DType

SEGMENTS = {"add": "segment_sum", "maximum": "segment_max", "minimum": "segment_min", "mul": "segment_prod"}


def gather(node: Node) -> Steps:
    """STABLEHLO_GATHER: slices of one size from where indices say, as far inside as it takes to fit.

    Along the axes that indices name, each element of a slice gets an index of its own.
    """
    x, options = node.operand(0), node.options("StablehloGatherOptions")
    names = ("OffsetDims", "CollapsedSliceDims", "StartIndexMap", "SliceSizes")
    offsets, collapsed, named, sizes = (options.ints(name) for name in names)
    layers: list[Step] = []
    batch, vectors = _index_vectors(node, layers, options.get("IndexVectorDim"), len(named))
    order = (*named, *(d for d in range(x.type.rank) if d not in named))
    kept = [d for d in order if d not in collapsed]
    others = sorted({*range(len(batch) + len(kept))} - {*offsets})
    if {len(order), len(sizes), len({*order} & {*range(x.type.rank)})} != {x.type.rank}:
        node.corrupt(f"takes slices of {list(sizes)} along {list(named)} of {x.type}")
    if any(not 0 <= size <= n for size, n in zip(sizes, x.type.shape, strict=True)):
        node.corrupt(f"slices of {list(sizes)} do not fit {x.type}")
    if (
        len(kept) != len(offsets)
        or len(others) != len(batch)
        or any(sizes[d] != 1 for d in {*order} - {*kept})
    ):
        node.corrupt(f"slices of {list(sizes)} less {list(collapsed)} do not make dimensions {list(offsets)}")
    places = _places(node, layers, batch, vectors, {d: sizes[d] for d in named})
    ends = [n if d in named else sizes[d] for d, n in enumerate(x.type.shape)]
    source = chain(layers, x, cut((0,) * len(ends), ends), ("transpose", {"perm": order}))
    layers.append(Step("gather_nd", (source, places)))
    where = {p: len(batch) + kept.index(d) for p, d in zip(offsets, sorted(kept), strict=True)}
    where.update(zip(others, range(len(batch)), strict=True))
    shape = (*batch, *(sizes[d] for d in kept))
    found = Result(len(layers) - 1)
    chain(
        layers,
        found,
        ("reshape", {"shape": shape}),
        ("transpose", {"perm": [where[p] for p in sorted(where)]}),
    )
    return Steps(layers, (Result(len(layers) - 1),))


def _index_vectors(node: Node, layers: list[Step], axis: int, length: int) -> tuple[list[int], Value]:
    """The indices' other dimensions than `axis`, and the indices with that one last; it may be implied."""
    indices = node.operand(1)
    if indices.type.dtype not in (DType.INT32, DType.INT64):
        raise RefusedError(f"its indices are {indices.type}, only int32 and int64 are supported")
    rank = indices.type.rank
    extent = 1 if axis == rank else indices.type.shape[axis] if 0 <= axis < rank else -1
    if extent != length:
        node.corrupt(f"has no vectors of {length} indices along dimension {axis} of {indices.type}")
    others = [d for d in range(rank) if d != axis]
    batch = [indices.type.shape[d] for d in others]
    last = ("transpose", {"perm": [*others, axis][:rank]}), ("reshape", {"shape": (*batch, length)})
    return batch, chain(layers, indices, *last)


def _places(
    node: Node, layers: list[Step], batch: Sequence[int], vectors: Value, slices: Mapping[int, int]
) -> Value:
    """An index for each element of slices of these sizes along axes, of which the vectors tell the first.

    These move as far inside as it takes for the slice to fit.
    """
    shape = node.operand(0).type.shape
    room = np.array([shape[d] - size for d, size in slices.items()], np.int64)
    inside = _with(node, layers, "maximum", vectors, room * 0)
    return _spread(node, layers, batch, _with(node, layers, "minimum", inside, room), slices)


def _spread(
    node: Node, layers: list[Step], batch: Sequence[int], vectors: Value, slices: Mapping[int, int]
) -> Value:
    """Indices [*batch, *sizes, axes] of the elements of slices that begin at vectors [*batch, axes]."""
    expect_few("indices", (*batch, *slices.values(), len(slices)))
    grid = np.moveaxis(np.indices(tuple(slices.values())), 0, -1)
    apart = ("reshape", {"shape": (*batch, *(1 for _ in slices), len(slices))})
    return _with(node, layers, "add", chain(layers, vectors, apart), grid)


def _with(node: Node, layers: list[Step], op: str, value: Value, known: Array) -> Value:
    """What an op makes of a value and a constant, which gets the indices' type."""
    dtype = node.operand(1).type.dtype.numpy
    return _joined(layers, op, value, constant(f"{node.origin}: {op}", known.astype(dtype)))


def _joined(layers: list[Step], op: str, *values: Value, **attrs: Any) -> Value:
    """What an op, which is appended to the layers, makes of values."""
    layers.append(Step(op, values, attrs))
    return Result(len(layers) - 1)


def scatter(node: Node) -> Steps:
    """STABLEHLO_SCATTER: updates go where indices say, by a body of one operator or none; outside, nowhere.

    Every element of the updates gets the number of the element that it goes to; these are segments. Where a
    body just takes the update, the last one counts.
    """
    x, updates, options = node.operand(0), node.operand(2), node.options("StablehloScatterOptions")
    if len(node.inputs) != 3:
        raise RefusedError(f"it scatters into {len(node.inputs) // 3} tensors together")
    expect_few("updates", updates.type.shape)
    body = options.get("UpdateComputationSubgraphIndex")
    graph = node.subgraph(body)
    takes = not graph.operators and graph.outputs == graph.inputs[1:] and len(graph.inputs) == 2
    how = None if takes else joining(function(node, body), x.type.dtype is DType.BOOL)
    if how is not None and how.join not in SEGMENTS:
        raise RefusedError(f"updates are joined by {how.join}, only {', '.join(SEGMENTS)} are supported")
    layers: list[Step] = []
    ids, data = _numbers(node, layers, options)
    flat = chain(layers, x, ("reshape", {"shape": (x.type.size,)}))
    segments = {"segments": x.type.size, "drops": True}
    order = constant(f"{node.origin}: order", np.arange(updates.type.size, dtype=np.int32))
    last = _joined(layers, "segment_max", order, ids, **segments)
    none = constant(f"{node.origin}: none", np.zeros(1, np.int32))
    if how is None:
        found = _joined(layers, "gather", data, _joined(layers, "maximum", last, none), axis=0)
    else:
        total = _joined(layers, SEGMENTS[how.join], data, ids, **segments)
        found = _joined(layers, how.join, flat, total)
    found = _joined(layers, "select", _joined(layers, "greater_equal", last, none), found, flat)
    chain(layers, found, ("reshape", {"shape": x.type.shape}))
    return Steps(layers, (Result(len(layers) - 1),))


def _numbers(node: Node, layers: list[Step], options: Options) -> tuple[Value, Value]:
    """Which element of the first input each of the updates goes to, and the updates in the same order."""
    x, updates = node.operand(0).type, node.operand(2).type
    names = ("UpdateWindowDims", "InsertedWindowDims", "ScatterDimsToOperandDims")
    window, inserted, named = (options.ints(name) for name in names)
    batch, vectors = _index_vectors(node, layers, options.get("IndexVectorDim"), len(named))
    kept = [d for d in range(x.rank) if d not in inserted]
    others = [p for p in range(updates.rank) if p not in window]
    rest = [d for d in range(x.rank) if d not in named]
    where = dict(zip(kept, window, strict=False))
    if (
        len(kept) != len(window)
        or len(others) + len(window) != updates.rank
        or len(named) + len(rest) != x.rank
    ):
        node.corrupt(f"{updates} do not go into {x} along {list(named)} by windows {list(window)}")
    sizes = [updates.shape[where[d]] if d in where else 1 for d in range(x.rank)]
    if [updates.shape[p] for p in others] != batch or any(sizes[d] > x.shape[d] for d in rest):
        node.corrupt(f"{updates} do not go into {x} from {node.operand(1).type} on")
    places = _spread(node, layers, batch, vectors, {d: sizes[d] for d in named})
    first = _element(node, layers, places, {d: x.shape[d] for d in named})
    apart = (*batch, *(sizes[d] for d in named), *(1 for _ in rest))
    cells = [np.arange(sizes[d]) * math.prod(x.shape[d + 1 :]) for d in rest]
    grid = sum(np.meshgrid(*cells, indexing="ij"), np.zeros((1,) * len(rest), np.int64))
    numbers = _with(node, layers, "add", chain(layers, first, ("reshape", {"shape": apart})), grid)
    perm = [*others, *(where[d] for d in (*named, *rest) if d in where)]
    flat = ("reshape", {"shape": (updates.size,)})
    turned = chain(layers, node.operand(2), ("transpose", {"perm": perm}), flat)
    return chain(layers, numbers, flat), turned


def _element(node: Node, layers: list[Step], places: Value, extents: Mapping[int, int]) -> Value:
    """The numbers of elements at places [..., axes] of the first input; below all for places outside."""
    shape = node.operand(0).type.shape
    limits = np.array(list(extents.values()), np.int64)
    steps = np.array([math.prod(shape[d + 1 :]) for d in extents], np.int64)
    above = _with(node, layers, "greater_equal", places, limits * 0)
    inside = _joined(layers, "logical_and", above, _with(node, layers, "less", places, limits))
    inside = _joined(layers, "reduce_all", inside, axes=(-1,))
    first = _joined(layers, "reduce_sum", _with(node, layers, "mul", places, steps), axes=(-1,))
    nowhere = np.array([-math.prod(shape) - 1], node.operand(1).type.dtype.numpy)
    return _joined(layers, "select", inside, first, constant(f"{node.origin}: nowhere", nowhere))
