"""The gradients of ops that select slices by indices: they are added where the slices came from."""

from __future__ import annotations

from gpunn.ops.gradient import Backward, Gradient, Symbol, by_operand


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
    x, indices, g = back.x, back.input(1), back.g
    axis, batch = back["axis"] % len(x.shape), back["batch_dims"] % max(len(indices.shape), 1)
    if back["batch_dims"] == 0:
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
    return back.input(1).of("scatter_nd", back.g, shape=back.x.shape)


def _updates(back: Backward) -> Symbol:
    return back.g.of("gather_nd", back.x)


def _looked_up(back: Backward) -> Symbol:
    return _added(back.g, back.x, 0, back.input(1).shape[0])


def _nothing(back: Backward) -> None:
    """Return no gradient: integers have none."""


def _again(op: str) -> Gradient:
    """Make the gradient of an op that undoes itself with the same second operand."""
    return by_operand(lambda back: back.g.of(op, back.input(1), **back.call.attrs))


GATHER = by_operand(_gather)
GATHER_ND = by_operand(_gather_nd)
SCATTER_ND = by_operand(_nothing, _updates)
EMBEDDING_LOOKUP = by_operand(_nothing, _looked_up)
REVERSE = _again("reverse")
REVERSE_SEQUENCE = _again("reverse_sequence")
