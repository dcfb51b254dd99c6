"""Slices of one size at computed places, along any axes: gather_slices, scatter_slices.

Indices are int32 or int64. The attributes are those of StableHLO's gather and scatter, by the same names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpunn.kernel import Unsupported, size_of
from gpunn.ops.call import Call
from gpunn.ops.check import INDICES, NUMBERS, expect_int, expect_ints, expect_unquantised
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.kernels.strides import dense
from gpunn.ops.op import Op, op
from gpunn.types import Array, Shape, TensorType

MAX_ELEMENTS = 1 << 22  # of slices, each of which gets an index of its own on the GPU
# How updates join what is there: the op that joins segments, that which joins two tensors, and numpy's.
FUNCTIONS: Mapping[str, tuple[str, str, Any]] = {
    "sum": ("segment_sum", "add", np.add),
    "prod": ("segment_prod", "mul", np.multiply),
    "max": ("segment_max", "maximum", np.maximum),
    "min": ("segment_min", "minimum", np.minimum),
}
_HOST_REASON = f"slices of more than {MAX_ELEMENTS} elements in all"


def _batch(call: Call, length: int) -> Shape:
    """Return the extents of the indices without that of their vectors; a length of 1 may be implied."""
    indices = expect_unquantised(call, 1, *INDICES)
    axis, rank = expect_int(call, "index_vector_dim", call["index_vector_dim"]), indices.rank
    extent = 1 if axis == rank else indices.shape[axis] if 0 <= axis < rank else -1
    if extent != length:
        call.fail(f"has no vectors of {length} indices along dimension {axis} of {indices}")
    return tuple(n for d, n in enumerate(indices.shape) if d != axis)


def _vectors(indices: Array, axis: int) -> Array:
    """Return the indices as [*batch, length]."""
    return indices[..., None] if axis == indices.ndim else np.moveaxis(indices, axis, -1)


def _few(extents: Sequence[int]) -> None:
    """Raise Unsupported if there would be many indices, even of slices of which there are none."""
    if math.prod(max(n, 1) for n in extents) > MAX_ELEMENTS:
        raise Unsupported("too many indices")


def _places(starts: Array, sizes: Sequence[int], named: Sequence[int]) -> list[Array]:
    """Return for each dimension of x the indices of the elements of slices that begin at starts [*batch,
    named].

    They broadcast to [*batch, *sizes].
    """
    rank, batch = len(sizes), starts.shape[:-1]
    found = []
    for d, size in enumerate(sizes):
        along = np.arange(size).reshape(*(1,) * len(batch), *(-1 if k == d else 1 for k in range(rank)))
        if d in named:
            along = starts[..., list(named).index(d)].reshape(*batch, *(1,) * rank) + along
        found.append(along)
    return found


def _infer_gather(call: Call) -> TensorType:
    x, names = call.x, ("offset_dims", "collapsed_slice_dims", "start_index_map", "slice_sizes")
    offsets, collapsed, named, sizes = (expect_ints(call, name) for name in names)
    batch = _batch(call, len(named))
    order = (*named, *(d for d in range(x.rank) if d not in named))
    kept = [d for d in order if d not in collapsed]
    total = len(batch) + len(kept)
    if {len(order), len(sizes), len({*order} & {*range(x.rank)})} != {x.rank}:
        call.fail(f"takes slices of {list(sizes)} along {list(named)} of {x}")
    if any(not 0 <= size <= n for size, n in zip(sizes, x.shape, strict=True)):
        call.fail(f"slices of {list(sizes)} do not fit {x}")
    wrong = len(kept) != len(offsets) or len({*range(total)} - {*offsets}) != len(batch)
    if wrong or any(sizes[d] != 1 for d in {*order} - {*kept}):
        call.fail(f"slices of {list(sizes)} less {list(collapsed)} do not make dimensions {list(offsets)}")
    extents = dict(zip(offsets, (sizes[d] for d in sorted(kept)), strict=True))
    others = iter(batch)
    return x.with_shape(tuple(extents[p] if p in extents else next(others) for p in range(total)))


def _expand_gather(call: Call, to: Expansion, x: Tensor, indices: Tensor) -> Tensor:
    """Write the op as a gather: along the named axes, each element of a slice gets an index of its own."""
    named, sizes = expect_ints(call, "start_index_map"), expect_ints(call, "slice_sizes")
    collapsed, offsets = expect_ints(call, "collapsed_slice_dims"), expect_ints(call, "offset_dims")
    shape, batch = call.x.shape, _batch(call, len(named))
    order = (*named, *(d for d in range(call.x.rank) if d not in named))
    kept = [d for d in order if d not in collapsed]
    room = np.array([shape[d] - sizes[d] for d in named], np.int64)
    starts = _vectors_of(call, to, indices, batch)
    inside = _with(to, "minimum", _with(to, "maximum", starts, room * 0), room)
    places = _spread(to, inside, batch, [sizes[d] for d in named])
    ends = tuple(n if d in named else sizes[d] for d, n in enumerate(shape))
    whole = to.add("strided_slice", x, begin=(0,) * len(ends), end=ends, strides=(1,) * len(ends))
    found = to.add("gather_nd", to.add("transpose", whole, perm=order), places)
    found = to.add("reshape", found, shape=(*batch, *(sizes[d] for d in kept)))
    where = {p: len(batch) + kept.index(d) for p, d in zip(offsets, sorted(kept), strict=True)}
    others = sorted({*range(len(batch) + len(kept))} - {*offsets})
    where.update(zip(others, range(len(batch)), strict=True))
    return to.add("transpose", found, perm=tuple(where[p] for p in sorted(where)))


def _vectors_of(call: Call, to: Expansion, indices: Tensor, batch: Shape) -> Tensor:
    """Return the indices as [*batch, length]."""
    axis, rank = call["index_vector_dim"], indices.type.rank
    perm = [*(d for d in range(rank) if d != axis), axis][:rank]
    length = indices.type.shape[axis] if axis < rank else 1
    return to.add("reshape", to.add("transpose", indices, perm=tuple(perm)), shape=(*batch, length))


def _spread(to: Expansion, vectors: Tensor, batch: Shape, sizes: Sequence[int]) -> Tensor:
    """Return the indices [*batch, *sizes, axes] of the elements of slices at vectors [*batch, axes]."""
    _few((*batch, *sizes, len(sizes)))
    grid = np.moveaxis(np.indices(tuple(sizes)), 0, -1)
    apart = to.add("reshape", vectors, shape=(*batch, *(1 for _ in sizes), len(sizes)))
    return _with(to, "add", apart, grid)


def _with(to: Expansion, op: str, x: Tensor, known: Array) -> Tensor:
    """Apply an op to indices and a constant, which gets their type."""
    return to.add(op, x, to.constant(known.astype(x.type.dtype.numpy)))


@op(_infer_gather, expand=_expand_gather, host_reason=_HOST_REASON, raw=True)
def gather_slices(
    x: Array,
    indices: Array,
    *,
    offset_dims: Sequence[int],
    collapsed_slice_dims: Sequence[int],
    start_index_map: Sequence[int],
    index_vector_dim: int,
    slice_sizes: Sequence[int],
) -> Array:
    """Take slices of x, all of `slice_sizes`, from where indices say, moved inside as far as it takes to fit.

    x [...] of any dtype. indices [...] hold vectors along dimension index_vector_dim, or are vectors of one
    index where there is no such dimension; entry k of a vector is the start along start_index_map[k], other
    starts are 0. The result has the indices' other dimensions, in order, and those of a slice without
    collapsed_slice_dims, of 1, in the places offset_dims. Raises ModelError for other dtypes, and for
    attributes that do not fit them or one another. TFLite schema, StablehloGatherOptions; StableHLO, gather.
    """
    starts = _vectors(indices, index_vector_dim).astype(np.int64)
    room = [x.shape[d] - slice_sizes[d] for d in start_index_map]
    found = x[tuple(_places(np.clip(starts, 0, room), slice_sizes, start_index_map))]
    kept = [d for d in range(x.ndim) if d not in collapsed_slice_dims]
    batch = starts.shape[:-1]
    shape = (*batch, *(slice_sizes[d] for d in kept))
    found = np.broadcast_to(found, (*batch, *slice_sizes)).reshape(shape)
    return np.moveaxis(found, range(len(batch), found.ndim), tuple(offset_dims))


def _slices(call: Call) -> tuple[list[int], list[int]]:
    """Return the extent of a slice for each dimension of x, and the updates' dimensions in this order.

    The order begins with the batch. Raises ModelError if slices do not fit into x.
    """
    x, updates = call.x, call.input(2)
    names = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims")
    window, inserted, named = (expect_ints(call, name) for name in names)
    batch = _batch(call, len(named))
    kept = [d for d in range(x.rank) if d not in inserted]
    others = [p for p in range(updates.rank) if p not in window]
    rest = [d for d in range(x.rank) if d not in named]
    where = dict(zip(kept, window, strict=False))
    apart = len(others) + len(window) == updates.rank
    if len(kept) != len(window) or not apart or len(named) + len(rest) != x.rank:
        call.fail(f"{updates} do not go into {x} along {list(named)} by windows {list(window)}")
    sizes = [updates.shape[where[d]] if d in where else 1 for d in range(x.rank)]
    if tuple(updates.shape[p] for p in others) != batch or any(sizes[d] > x.shape[d] for d in rest):
        call.fail(f"{updates} do not go into {x} from {call.input(1)} on")
    return sizes, [*others, *(where[d] for d in kept)]


def _infer_scatter(call: Call) -> TensorType:
    x, updates = call.x, call.input(2)
    if call["function"] is not None:
        if call["function"] not in FUNCTIONS:
            call.fail(f"function must be None or {' or '.join(FUNCTIONS)}, got {call['function']!r}")
        expect_unquantised(call, 0, *NUMBERS)
    if (updates.dtype, updates.quantization) != (x.dtype, x.quantization):
        call.fail(f"updates must have the type of {x}, got {updates}")
    _slices(call)
    return x


def _expand_scatter(call: Call, to: Expansion, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Write the op with segments: every element of the updates gets the number of its place in x."""
    if not call.x.size:
        return to.add("reshape", x, shape=call.x.shape)  # there is no place to go to
    sizes, order = _slices(call)
    named = expect_ints(call, "scatter_dims_to_operand_dims")
    if named and call.input(1).size == len(named) and all(sizes[d] == 1 for d in named):
        return _put_slice(call, to, x, indices, to.add("transpose", updates, perm=tuple(order)), sizes)
    _few(call.input(2).shape)
    count, function = call.x.size, call["function"]
    ids = _numbers(call, to, indices, sizes)
    data = to.add("reshape", to.add("transpose", updates, perm=tuple(order)), shape=(updates.type.size,))
    flat = to.add("reshape", x, shape=(count,))
    segments: dict[str, Any] = {"segments": count, "drops": True}
    places = to.constant(np.arange(updates.type.size, dtype=np.int32))
    last = to.add(
        "segment_max", places, ids, **segments
    )  # of the updates for an element; below 0: there is none
    none = to.constant(np.zeros(1, np.int32))
    if function is None:
        found = to.add("gather", data, to.add("maximum", last, none), axis=0)
    else:
        join, pair, _ = FUNCTIONS[function]
        found = to.add(pair, flat, to.add(join, data, ids, **segments, infinite=True))
    found = to.add("select", to.add("greater_equal", last, none), found, flat)
    return to.add("reshape", found, shape=call.x.shape)


def _put_slice(
    call: Call, to: Expansion, x: Tensor, indices: Tensor, update: Tensor, sizes: Sequence[int]
) -> Tensor:
    """Write the op for one slice, of 1 element along the named axes: it is put where it is not outside.

    Lists of converters get a row so in each round of a loop.
    """
    named = expect_ints(call, "scatter_dims_to_operand_dims")
    vector = to.add("reshape", indices, shape=(len(named),))
    above = _with(to, "greater_equal", vector, np.zeros(1))
    below = _with(to, "less", vector, np.array([call.x.shape[d] for d in named]))
    inside = to.add("reduce_all", to.add("logical_and", above, below), axes=(0,), keep_dims=True)
    first = to.constant(np.zeros(1, indices.type.dtype.numpy))
    parts = [
        to.add("strided_slice", vector, begin=(k,), end=(k + 1,), strides=(1,)) for k in range(len(named))
    ]
    starts = [parts[named.index(d)] if d in named else first for d in range(call.x.rank)]
    place = to.add("concat", *starts, axis=0)
    old = to.add("dynamic_slice", x, place, sizes=tuple(sizes))
    new = to.add("reshape", update, shape=tuple(sizes))
    if call["function"] is not None:
        new = to.add(FUNCTIONS[call["function"]][1], old, new)
    return to.add("dynamic_update_slice", x, to.add("select", inside, new, old), place)


def _numbers(call: Call, to: Expansion, indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the number of each update's place in x, in order; below 0 for a place outside."""
    shape, named = call.x.shape, expect_ints(call, "scatter_dims_to_operand_dims")
    batch = _batch(call, len(named))
    places = _spread(to, _vectors_of(call, to, indices, batch), batch, [sizes[d] for d in named])
    limits, steps = (np.array([v[d] for d in named], np.int64) for v in (shape, dense(shape)))
    above = _with(to, "greater_equal", places, limits * 0)
    inside = to.add("logical_and", above, _with(to, "less", places, limits))
    first = to.add("reduce_sum", _with(to, "mul", places, steps), axes=(-1,))
    nowhere = to.constant(np.array([-size_of(shape) - 1], indices.type.dtype.numpy))
    first = to.add("select", to.add("reduce_all", inside, axes=(-1,)), first, nowhere)
    # [*batch, *sizes of the named axes in their order] to [*batch, *sizes], other axes being stepped along.
    ordered = sorted(named)
    perm = (*range(len(batch)), *(len(batch) + list(named).index(d) for d in ordered))
    apart = (*batch, *(n if d in named else 1 for d, n in enumerate(sizes)))
    first = to.add("reshape", to.add("transpose", first, perm=perm), shape=apart)
    cells = [
        np.arange(1 if d in named else n) * s
        for d, (n, s) in enumerate(zip(sizes, dense(shape), strict=True))
    ]
    grid = sum(np.meshgrid(*cells, indexing="ij"), np.zeros((1,) * len(cells), np.int64))
    return to.add("reshape", _with(to, "add", first, grid), shape=(call.input(2).size,))


@op(
    _infer_scatter,
    expand=_expand_scatter,
    host_reason=_HOST_REASON,
    raw=True,
    flops=lambda call: 0 if call["function"] is None else call.input(2).size,
)
def scatter_slices(
    x: Array,
    indices: Array,
    updates: Array,
    *,
    update_window_dims: Sequence[int],
    inserted_window_dims: Sequence[int],
    scatter_dims_to_operand_dims: Sequence[int],
    index_vector_dim: int,
    function: str | None = None,
) -> Array:
    """Put slices of the updates into x where indices say, or join them with what is there by a function.

    What would go outside of x goes nowhere.

    x [...] and updates [...] of one dtype: any without a function, else float32, float16, int32 or int64.
    indices [...] hold vectors along dimension index_vector_dim, or are vectors of one index where there is no
    such dimension; entry k of a vector is the start along scatter_dims_to_operand_dims[k], other starts are
    0. The dimensions update_window_dims of the updates are those of a slice, without inserted_window_dims, in
    which it has 1 element; the others are the indices'. function: "sum", "prod", "max" or "min" of what is
    there and all that goes there; without it the last update counts. Raises ModelError for other dtypes, and
    for attributes that do not fit them or one another. TFLite schema, StablehloScatterOptions; StableHLO,
    scatter.
    """
    kept = [d for d in range(x.ndim) if d not in inserted_window_dims]
    sizes = [1] * x.ndim
    for d, p in zip(kept, update_window_dims, strict=True):
        sizes[d] = updates.shape[p]
    starts = _vectors(indices, index_vector_dim).astype(np.int64)
    places = _places(starts, sizes, scatter_dims_to_operand_dims)
    inside, numbers = np.ones((), bool), np.zeros((*starts.shape[:-1], *sizes), np.int64)
    for at, extent, step in zip(places, x.shape, dense(x.shape), strict=True):
        inside = inside & (at >= 0) & (at < extent)
        numbers += at * step
    inside = np.broadcast_to(inside, numbers.shape)
    others = [p for p in range(updates.ndim) if p not in update_window_dims]
    turned = updates.transpose(*others, *update_window_dims).reshape(numbers.shape)
    result = x.reshape(-1).copy()
    if function is None:
        result[numbers[inside]] = turned[inside]
    else:
        FUNCTIONS[function][2].at(result, numbers[inside], turned[inside])
    return result.reshape(x.shape)


OPS: tuple[Op, ...] = (gather_slices, scatter_slices)
