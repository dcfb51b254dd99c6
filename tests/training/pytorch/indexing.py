"""Functions of PyTorch for ops that select and put elements by indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tests.training.pytorch.tools import Function, named, torch


def gather(x: Any, indices: Any, *, axis: int = 0, batch_dims: int = 0) -> Any:
    """Batches are taken one after the other."""
    axis = axis % x.ndim
    if batch_dims % max(indices.ndim, 1) or (batch_dims and batch_dims == indices.ndim):
        left = batch_dims + (indices.ndim if batch_dims < 0 else 0) - 1
        return torch.stack(
            [gather(a, b, axis=axis - 1, batch_dims=left) for a, b in zip(x, indices, strict=True)]
        )
    found = x.index_select(axis, indices.reshape(-1))
    return found.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def named_slice(x: Any, starts: Sequence[int], sizes: Sequence[int], clip: bool = True) -> tuple[slice, ...]:
    """Return a slice of x, moved inside as far as it takes to fit."""
    room = [n - size for n, size in zip(x.shape, sizes, strict=True)]
    firsts = [min(max(a, 0), r) for a, r in zip(starts, room, strict=True)] if clip else starts
    return tuple(slice(a, a + size) for a, size in zip(firsts, sizes, strict=True))


def dynamic_slice(
    x: Any, starts: Any, *, sizes: Any, axes: Any = None, clip: bool = True, negative: bool = False
) -> Any:
    firsts = [0] * x.ndim
    for axis, start in zip(range(x.ndim) if axes is None else axes, starts.tolist(), strict=True):
        if axis is not None:
            firsts[axis] = start + (x.shape[axis] if negative and start < 0 else 0)
    return x[named_slice(x, firsts, sizes, clip)]


def dynamic_update_slice(x: Any, update: Any, starts: Any, *, clip: bool = True) -> Any:
    found = x.clone()
    found[named_slice(x, starts.tolist(), update.shape, clip)] = update
    return found


def sparse_to_dense(indices: Any, values: Any, default: Any, *, shape: Sequence[int]) -> Any:
    """Put values one after the other, so the last one for a place remains."""
    places = indices.reshape(-1, len(shape))
    found = default.reshape(()).expand(*shape).clone()
    for place, value in zip(places, values.reshape(-1).expand(len(places)), strict=True):
        found = found.index_put(tuple(place), value)
    return found


def scatter_nd(indices: Any, updates: Any, *, shape: Sequence[int]) -> Any:
    return updates.new_zeros(tuple(shape)).index_put(tuple(indices.unbind(-1)), updates, accumulate=True)


def segmented(how: str, empty: float) -> Function:
    """Make a reduction of segments; `empty` is the value of a segment without slices."""

    def function(data: Any, ids: Any, *, segments: int, drops: bool = False) -> Any:
        item, ids = data.shape[ids.ndim :], ids.reshape(-1)
        data = data.reshape(len(ids), -1)
        if drops:
            data, ids = data[ids >= 0], ids[ids >= 0]
        start = data.new_full((segments, data.shape[1]), empty)
        found = start.scatter_reduce(0, ids[:, None].expand(data.shape), data, how, include_self=False)
        return found.reshape(segments, *item)

    return function


def embedding_lookup_sparse(
    ids: Any, indices: Any, weights: Any, values: Any, *, shape: Sequence[int], combiner: str = "sum"
) -> Any:
    """Bags of rows: torch.nn.functional.embedding_bag weighs them only for sums."""
    count = int(np.prod(shape[:-1]))
    rows = indices[:, :-1] @ torch.tensor([int(np.prod(shape[d + 1 : -1])) for d in range(len(shape) - 1)])
    order = rows.argsort(stable=True)
    offsets = torch.searchsorted(rows[order], torch.arange(count))
    table = values.reshape(len(values), -1)
    total = torch.nn.functional.embedding_bag(
        ids[order], table, offsets, mode="sum", per_sample_weights=weights[order]
    )
    if combiner != "sum":
        parts = weights if combiner == "mean" else weights.square()
        divisor = weights.new_zeros(count).index_add(0, rows, parts)
        divisor = torch.where(torch.bincount(rows, minlength=count) > 0, divisor, 1.0)
        total = total / (divisor if combiner == "mean" else divisor.sqrt())[:, None]
    return total.reshape(*shape[:-1], *values.shape[1:])


def concat_embeddings(ids: Any, *tables: Any, columns: Sequence[int]) -> Any:
    chosen = [table for table, count in zip(tables, columns, strict=True) for _ in range(count)]
    pairs = zip(ids.unbind(-1), chosen, strict=True)
    return torch.cat([torch.nn.functional.embedding(column, table) for column, table in pairs], -1)


def vectors(indices: Any, axis: int) -> Any:
    """Return starts [*batch, length]."""
    return indices[..., None] if axis == indices.ndim else indices.movedim(axis, -1)


def gather_slices(
    x: Any,
    indices: Any,
    *,
    offset_dims: Sequence[int],
    collapsed_slice_dims: Sequence[int],
    start_index_map: Sequence[int],
    index_vector_dim: int,
    slice_sizes: Sequence[int],
) -> Any:
    """Take one slice after the other."""
    starts, found = vectors(indices, index_vector_dim), []
    for start in starts.reshape(-1, starts.shape[-1]).tolist():
        firsts = [0] * x.ndim
        for axis, first in zip(start_index_map, start, strict=True):
            firsts[axis] = first
        found.append(x[named_slice(x, firsts, slice_sizes)].squeeze(tuple(collapsed_slice_dims)))
    batch = starts.shape[:-1]
    stacked = torch.stack(found).reshape(*batch, *found[0].shape)
    return stacked.movedim(tuple(range(len(batch), stacked.ndim)), tuple(offset_dims))


def scatter_slices(
    x: Any,
    indices: Any,
    updates: Any,
    *,
    update_window_dims: Sequence[int],
    inserted_window_dims: Sequence[int],
    scatter_dims_to_operand_dims: Sequence[int],
    index_vector_dim: int,
    function: str | None = None,
) -> Any:
    """Put or join one element after the other."""
    starts = vectors(indices, index_vector_dim)
    kept = [d for d in range(x.ndim) if d not in inserted_window_dims]
    others = [p for p in range(updates.ndim) if p not in update_window_dims]
    names = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
    join = (lambda old, new: new) if function is None else named(names[function])

    def places(at: tuple[int, ...]) -> Iterator[int]:
        first = dict(
            zip(scatter_dims_to_operand_dims, starts[tuple(at[p] for p in others)].tolist(), strict=True)
        )
        inside = dict(zip(kept, (at[p] for p in update_window_dims), strict=True))
        return (first.get(d, 0) + inside.get(d, 0) for d in range(x.ndim))

    found = x
    for at in np.ndindex(*updates.shape):
        place = tuple(places(at))
        if all(0 <= p < n for p, n in zip(place, x.shape, strict=True)):
            found = found.index_put(tuple(map(torch.tensor, place)), join(found[place], updates[at]))
    return found


def table_lookup(queries: Any, keys: Any, values: Any, default: Any) -> Any:
    """The first of equal keys counts."""
    hits = queries.reshape(-1, 1) == keys
    found = values[hits.to(torch.uint8).argmax(1)] if len(keys) else default.reshape(-1)[:1]
    return torch.where(hits.any(1), found, default.reshape(-1)[0]).reshape(queries.shape)


LIMIT = float(np.finfo(np.float32).max)
INDEXING: Mapping[str, Function] = {
    "concat_embeddings": concat_embeddings,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "embedding_lookup": lambda indices, values: torch.nn.functional.embedding(indices, values),
    "embedding_lookup_sparse": embedding_lookup_sparse,
    "gather": gather,
    "gather_nd": lambda x, indices: x[tuple(indices.unbind(-1))],
    "gather_slices": gather_slices,
    "scatter_nd": scatter_nd,
    "scatter_slices": scatter_slices,
    "segment_max": segmented("amax", -LIMIT),
    "segment_min": segmented("amin", LIMIT),
    "segment_prod": segmented("prod", 1.0),
    "segment_sum": segmented("sum", 0.0),
    "table_lookup": table_lookup,
    "sparse_to_dense": sparse_to_dense,
}
