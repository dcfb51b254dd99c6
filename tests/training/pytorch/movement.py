"""Functions of PyTorch for ops that move elements, and that select and put them by indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.training.pytorch.tools import Function, Pairs, surrounded, torch


def strided_slice(
    x: Any,
    *,
    begin: Sequence[Any],
    end: Sequence[Any],
    strides: Sequence[int],
    shrink_axes: Sequence[int] = (),
) -> Any:
    """PyTorch has no steps below 0: indices are listed."""
    shape = x.shape
    for axis, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        whole = range(shape[axis])
        kept = [whole[first]] if axis in shrink_axes else whole[slice(first, last, step)]
        x = x.index_select(axis, torch.tensor([*kept], dtype=torch.int64))
    return x.squeeze(tuple(shrink_axes)) if shrink_axes else x


def mirror_pad(x: Any, *, paddings: Pairs, mode: str) -> Any:
    """PyTorch has no "symmetric", and "reflect" only along some axes: indices are listed."""
    for axis, pair in enumerate(paddings):
        places = np.pad(np.arange(x.shape[axis]), pair, mode)
        x = x.index_select(axis, torch.tensor(places))
    return x


def roll(x: Any, *, shifts: Sequence[int]) -> Any:
    return torch.roll(x, tuple(shifts), tuple(range(x.ndim)))


def depth_to_space(x: Any, *, block_size: int, data_format: str = "NHWC") -> Any:
    """The place in a block comes before the channels: pixel_shuffle has it behind them."""
    b, x = block_size, x if data_format == "NCHW" else x.movedim(3, 1)
    images, depth, height, width = x.shape
    swapped = x.reshape(images, b * b, depth // (b * b), height, width).swapaxes(1, 2)
    found = torch.nn.functional.pixel_shuffle(swapped.reshape(x.shape), b)
    return found if data_format == "NCHW" else found.movedim(1, 3)


def space_to_depth(x: Any, *, block_size: int, data_format: str = "NHWC") -> Any:
    b, x = block_size, x if data_format == "NCHW" else x.movedim(3, 1)
    found = torch.nn.functional.pixel_unshuffle(x, b)
    images, depth, height, width = found.shape
    swapped = found.reshape(images, depth // (b * b), b * b, height, width).swapaxes(1, 2)
    found = swapped.reshape(found.shape)
    return found if data_format == "NCHW" else found.movedim(1, 3)


def space_to_batch_nd(x: Any, *, block_shape: Sequence[int], paddings: Pairs, value: float = 0.0) -> Any:
    """Each place of the blocks is a slice with steps."""
    dims = len(block_shape)
    x = surrounded(x, [*paddings, *[(0, 0)] * (x.ndim - 1 - dims)], value)
    parts = [
        x[(slice(None), *(slice(p, None, b) for p, b in zip(place, block_shape, strict=True)))]
        for place in np.ndindex(*block_shape)
    ]
    return torch.cat(parts)


def batch_to_space_nd(x: Any, *, block_shape: Sequence[int], crops: Pairs) -> Any:
    parts = x.chunk(int(np.prod(block_shape)))
    space = [n * b for n, b in zip(x.shape[1:], block_shape, strict=False)]
    found = x.new_zeros(len(parts[0]), *space, *x.shape[1 + len(space) :])
    for part, place in zip(parts, np.ndindex(*block_shape), strict=True):
        found[(slice(None), *(slice(p, None, b) for p, b in zip(place, block_shape, strict=True)))] = part
    ends = [slice(b, n - a) for n, (b, a) in zip(space, crops, strict=True)]
    return found[(slice(None), *ends)]


def dilate(x: Any, fill: Any = None, *, steps: Sequence[int], paddings: Pairs | None = None) -> Any:
    """Cut what paddings below 0 take away, and put the rest among copies of the fill."""
    value = x.new_zeros(()) if fill is None else fill.reshape(())
    spread = [(n - 1) * s + 1 if n else 0 for n, s in zip(x.shape, steps, strict=True)]
    found = value.expand(spread).clone()
    found[tuple(slice(None, None, s) for s in steps)] = x
    pairs = paddings or [(0, 0)] * x.ndim
    found = found[tuple(slice(max(-b, 0), n - max(-a, 0)) for n, (b, a) in zip(spread, pairs, strict=True))]
    around = [(max(b, 0), max(a, 0)) for b, a in pairs]
    whole = value.expand([n + b + a for n, (b, a) in zip(found.shape, around, strict=True)]).clone()
    whole[tuple(slice(b, b + n) for n, (b, _) in zip(found.shape, around, strict=True))] = found
    return whole


def broadcast_in_dim(x: Any, *, shape: Sequence[int], dims: Sequence[int]) -> Any:
    extents = [1] * len(shape)
    for d, n in zip(dims, x.shape, strict=True):
        extents[d] = n
    return x.permute(*np.argsort(dims)).reshape(extents).expand(*shape)


def reverse_sequence(x: Any, lengths: Any, *, axis: int, batch_axis: int = 0) -> Any:
    """Turn the first part of each entry of the batch around."""
    axis = axis % x.ndim - (axis % x.ndim > batch_axis % x.ndim)
    parts = []
    for entry, length in zip(x.unbind(batch_axis), lengths.tolist(), strict=True):
        first, rest = entry.split([length, entry.shape[axis] - length], axis)
        parts.append(torch.cat([first.flip(axis), rest], axis))
    return torch.stack(parts, batch_axis)


MOVEMENT: Mapping[str, Function] = {
    "batch_to_space_nd": batch_to_space_nd,
    "broadcast_in_dim": broadcast_in_dim,
    "broadcast_to": lambda x, *, shape: torch.broadcast_to(x, tuple(shape)),
    "concat": lambda *xs, axis: torch.cat(xs, axis),
    "depth_to_space": depth_to_space,
    "dilate": dilate,
    "fill": lambda value, *, shape: value.reshape(()).expand(*shape),
    "matrix_diag": lambda diagonal: torch.diag_embed(diagonal),
    "matrix_set_diag": lambda x, diagonal: torch.diagonal_scatter(x, diagonal, 0, -2, -1),
    "mirror_pad": mirror_pad,
    "roll": roll,
    "pad": lambda x, *, paddings, value=0.0: surrounded(x, paddings, value),
    "reshape": lambda x, *, shape: x.reshape(shape),
    "reverse": lambda x, axes: x.flip(axes.tolist()),
    "reverse_sequence": reverse_sequence,
    "space_to_batch_nd": space_to_batch_nd,
    "space_to_depth": space_to_depth,
    "split": lambda x, *, sizes, axis: x.split(sizes, axis),
    "squeeze": lambda x, *, axes=(): x.squeeze(axes) if axes else x.squeeze(),
    "stack": lambda *xs, axis: torch.stack(xs, axis),
    "strided_slice": strided_slice,
    "tile": lambda x, *, multiples: x.tile(multiples),
    "transpose": lambda x, *, perm: x.permute(*perm),
    "unstack": lambda x, *, axis: x.unbind(axis),
}
