"""The gradients of ops that select slices by indices: they are added where the slices came from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.gradient import Backward, Gradient, Symbol, by_operand, every_operand, formula
from gpunn.ops.movement.gradients import along
from gpunn.types import Array, DType


def _added(g: Symbol, indices: Symbol, axis: int, extent: int) -> Symbol:
    """Add slices, which lie along the axes that stand for `axis` in g, to zeros at indices along it."""
    many = len(indices.shape)
    selected = [*range(axis, axis + many)]
    others = [d for d in range(len(g.shape)) if d not in selected]
    rows = g.of("transpose", perm=(*selected, *others)) if axis else g
    shape = (extent, *(g.shape[d] for d in others))
    found = indices.reshaped((*indices.shape, 1)).of("scatter_nd", rows, shape=shape)
    if not axis:
        return found
    return found.of("transpose", perm=(*range(1, axis + 1), 0, *range(axis + 1, len(shape))))


def _gather(back: Backward) -> Symbol:
    """Add slices along the axis; those of batches at places counted through all of them."""
    x, indices, g = back.x, _wide(back.input(1)), back.g
    axis, batch = back["axis"] % len(x.shape), back["batch_dims"]
    batch += len(indices.shape) if batch < 0 else 0
    if batch == 0:
        return _added(g, indices, axis, x.shape[axis])
    return _batched(g, indices, x.shape, axis, batch)


def _batched(g: Symbol, indices: Symbol, shape: tuple[int, ...], axis: int, batch: int) -> Symbol:
    """Move the axis behind the batch, and add slices of all batches at once, with batch numbers."""
    picks = len(indices.shape) - batch
    g_axes = [
        *range(batch),
        *range(axis, axis + picks),
        *range(batch, axis),
        *range(axis + picks, len(g.shape)),
    ]
    rows = g.of("transpose", perm=tuple(g_axes))
    places = indices.reshaped((*indices.shape, 1))
    for d in reversed(range(batch)):
        places = _with_numbers(places, d, shape[d])
    others = [n for d, n in enumerate(shape) if d >= batch and d != axis]
    found = places.of("scatter_nd", rows, shape=(*shape[:batch], shape[axis], *others))
    back_again = [*range(batch), *range(batch + 1, axis + 1), batch, *range(axis + 1, len(shape))]
    return found.of("transpose", perm=tuple(back_again))


def _with_numbers(places: Symbol, axis: int, extent: int) -> Symbol:
    """Put the number along an axis in front of each index."""
    shape = [1] * len(places.shape)
    shape[axis] = extent
    numbers = places.constant([*range(extent)]).reshaped(shape)
    return numbers.expanded((*places.shape[:-1], 1)).of("concat", places, axis=-1)


def _gather_nd(back: Backward) -> Symbol:
    return _wide(back.input(1)).of("scatter_nd", back.g, shape=back.x.shape)


def _wide(indices: Symbol) -> Symbol:
    """Return indices of a type that scatter_nd takes."""
    narrow = indices.type.dtype is DType.INT16
    return indices.of("cast", dtype=DType.INT32.value) if narrow else indices


def _updates(back: Backward) -> Symbol:
    return back.g.of("gather_nd", back.x)


def _of_choices(back: Backward) -> Symbol:
    """Return the gradients of the values of a table, and behind them that of the default."""
    queries, keys = back.x, back.input(1)
    (count,) = keys.shape
    numbers, nothing = (Symbol(queries.to, queries.to.constant(n)) for n in (_count(count), _count(1, count)))
    places = queries.of("table_lookup", keys, numbers, nothing)
    return _added(back.g, places, 0, count + 1)


def _count(many: int, first: int = 0) -> Array:
    return np.arange(first, first + many, dtype=np.int32)


def _table_values(back: Backward) -> Symbol:
    return along(_of_choices(back), 0, 0, back.input(1).shape[0])


def _table_default(back: Backward) -> Symbol:
    """Return the gradient of the first element: the others do not count."""
    count, default = back.input(1).shape[0], back.input(3)
    found, others = along(_of_choices(back), 0, count, count + 1), default.type.size - 1
    found = found.of("concat", _zeros(found, [others]), axis=0) if others else found
    return found.reshaped(default.shape)


def _looked_up(back: Backward) -> Symbol:
    return _added(back.g, back.x, 0, back.input(1).shape[0])


def _nothing(back: Backward) -> None:
    """Return no gradient: integers have none."""


def _again(op: str) -> Gradient:
    """Make the gradient of an op that undoes itself with the same second operand."""
    return by_operand(lambda back: back.g.of(op, back.input(1), **back.call.attrs))


def _of_rows(table: Symbol, back: Backward) -> Symbol:
    """Return for each slice of the data what a table has for its segment; zeros for slices that drop out."""
    ids = back.input(1)
    if not back["drops"]:
        return table.of("gather", ids, axis=0)
    found = table.of("gather", ids.of("maximum", 0), axis=0)
    kept = ids.of("greater_equal", 0).reshaped((*ids.shape, *[1] * (len(found.shape) - len(ids.shape))))
    return kept.of("select", found, found.symbol(0.0))


def _numbers(truths: Symbol, like: Symbol) -> Symbol:
    return truths.of("cast", dtype=like.type.dtype.value)


def _segments(back: Backward, data: Symbol, op: str) -> Symbol:
    return data.of(op, back.input(1), segments=back["segments"], drops=back["drops"])


def _segment_sum(back: Backward) -> Symbol:
    return _of_rows(back.g, back)


def _segment_extreme(back: Backward) -> Symbol:
    """Divide the gradient among the elements that are equal to the result."""
    hits = _numbers(back.x.of("equal", _of_rows(back.y, back)), back.x)
    count = _segments(back, hits, "segment_sum").of("maximum", 1.0)
    return hits * _of_rows(back.g / count, back)


def _segment_product(back: Backward) -> Symbol:
    """Return g times the product of the other elements, also where an element is 0."""
    zeros = back.x.of("equal", 0.0)
    others = zeros.of("select", back.x.symbol(1.0), back.x)
    product, count = (
        _of_rows(_segments(back, data, op), back)
        for data, op in ((others, "segment_prod"), (_numbers(zeros, back.x), "segment_sum"))
    )
    only = zeros.of("select", product * _numbers(count.of("equal", 1.0), back.x), back.x.symbol(0.0))
    return _of_rows(back.g, back) * count.of("equal", 0.0).of("select", product / others, only)


SEGMENTS: Mapping[str, Gradient] = {
    "segment_sum": by_operand(_segment_sum),
    "segment_prod": by_operand(_segment_product),
    "segment_max": by_operand(_segment_extreme),
    "segment_min": by_operand(_segment_extreme),
}


def _zeros(x: Symbol, shape: Sequence[int]) -> Symbol:
    return x.constant(np.zeros(tuple(shape)))


def _slice_starts(back: Backward) -> Symbol:
    """Return the start of the slice along each dimension."""
    starts, shape = back.input(1), back.x.shape
    axes = [*range(len(shape))] if back["axes"] is None else [*back["axes"]]
    places = [
        next((k for k, a in enumerate(axes) if a is not None and a % len(shape) == d), -1)
        for d in range(len(shape))
    ]
    wide = starts.of("concat", starts.constant([0]), axis=0)
    ordered = wide.of("gather", _integers(starts, places, len(axes)), axis=0)
    if not back["negative"]:
        return ordered
    extents = starts.constant(shape)
    return ordered.of("less", 0).of("select", ordered + extents, ordered)


def _integers(like: Symbol, places: Sequence[int], nothing: int) -> Symbol:
    """Return places as numbers of entries, `nothing` for -1."""
    return Symbol(like.to, like.to.constant(np.array([nothing if p < 0 else p for p in places], np.int32)))


def _sliced(back: Backward) -> Symbol:
    zeros = _zeros(back.g, back.x.shape)
    return zeros.of("dynamic_update_slice", back.g, _slice_starts(back), clip=back["clip"])


def _replaced(back: Backward) -> Symbol:
    zeros = _zeros(back.g, back.input(1).shape)
    return back.g.of("dynamic_update_slice", zeros, back.input(2), clip=back["clip"])


def _put(back: Backward) -> Symbol:
    return back.g.of("dynamic_slice", back.input(2), sizes=back.input(1).shape, clip=back["clip"])


def _last_values(back: Backward) -> tuple[Symbol, Symbol]:
    """Return the places of values in a dense tensor, and for each value whether it is the last one there."""
    shape = tuple(back["shape"])
    count = back.x.shape[0] if back.x.shape else 1
    places = back.x.reshaped((count, len(shape)))
    numbers = places.constant(np.arange(1, count + 1))
    nothing = places.constant(0)
    there = places.of("sparse_to_dense", numbers, nothing, shape=shape)
    return places, there.of("gather_nd", places).of("equal", numbers)


def _sparse_values(back: Backward) -> Symbol:
    places, last = _last_values(back)
    found = last.of("select", back.g.of("gather_nd", places), back.g.symbol(0.0))
    values = back.input(1)
    return (found.summed([0]) if values.type.size == 1 else found).reshaped(values.shape)


def _sparse_default(back: Backward) -> Symbol:
    """Return the sum of the gradients where no value is."""
    count = back.x.shape[0] if back.x.shape else 1
    places = back.x.reshaped((count, len(back["shape"])))
    one, zero = places.constant(1), places.constant(0)
    there = places.of("sparse_to_dense", one, zero, shape=tuple(back["shape"]))
    rest = there.of("equal", 0).of("select", back.g, back.g.symbol(0.0))
    return rest.summed(range(len(rest.shape))).reshaped(back.input(2).shape)


def _from_table(back: Backward, index: int) -> Symbol | None:
    """Return the gradient of a table whose rows stand side by side in parts of the result."""
    if index == 0:
        return None
    columns, tables = back["columns"], [t.shape for t in back.call.inputs[1:] if t is not None]
    first = sum(columns[: index - 1])
    begin = sum(c * width for c, (_, width) in zip(columns[: index - 1], tables, strict=False))
    rows, width = tables[index - 1]
    count = columns[index - 1]
    leading = back.g.shape[:-1]
    g = along(back.g, len(leading), begin, begin + count * width).reshaped((*leading, count, width))
    return _added(g, along(back.x, len(leading), first, first + count), 0, rows)


def _weighted_rows(call: Call, ids: Symbol, indices: Symbol, weights: Symbol, values: Symbol) -> Symbol:
    """Write embedding_lookup_sparse: rows are looked up, weighted, and added up by segments."""
    shape, item = tuple(call["shape"][:-1]), values.shape[1:]
    count = math.prod(shape)
    steps = [math.prod(shape[d + 1 :]) for d in range(len(shape))] + [0]
    segments = (indices * indices.constant(steps)).summed([1])

    def total(data: Symbol) -> Symbol:
        return data.of("segment_sum", segments, segments=count)

    def beside(x: Symbol) -> Symbol:
        return x.reshaped((*x.shape, *[1] * len(item)))

    found = total(values.of("gather", ids, axis=0) * beside(weights))
    if call["combiner"] != "sum":
        mean = call["combiner"] == "mean"
        divisor = total(weights if mean else weights * weights)
        there = total(weights * 0.0 + 1.0).of("greater", 0.0)
        divisor = there.of("select", divisor, divisor.symbol(1.0))
        found = found / beside(divisor if mean else divisor.of("sqrt"))
    return found.of("reshape", shape=(*shape, *item))


DYNAMIC_SLICE = by_operand(_sliced)
DYNAMIC_UPDATE_SLICE = by_operand(_replaced, _put)
SPARSE_TO_DENSE = by_operand(_nothing, _sparse_values, _sparse_default)
CONCAT_EMBEDDINGS = every_operand(_from_table)
EMBEDDING_LOOKUP_SPARSE = formula(_weighted_rows)
TABLE_LOOKUP = by_operand(_nothing, _nothing, _table_values, _table_default)
GATHER = by_operand(_gather)
GATHER_ND = by_operand(_gather_nd)
SCATTER_ND = by_operand(_nothing, _updates)
EMBEDDING_LOOKUP = by_operand(_nothing, _looked_up)
REVERSE = _again("reverse")
REVERSE_SEQUENCE = _again("reverse_sequence")
