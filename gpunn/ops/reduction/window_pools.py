"""Maxima of windows along any axes, as max pools of images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.kernels.window import MAX_PADDED, Pair
from gpunn.ops.movement.dilate import Pairs
from gpunn.types import Shape


class Along(NamedTuple):
    """The windows along an axis; elements that pad it do not count."""

    size: int
    stride: int
    padding: Pair = (0, 0)


ALONE = Along(1, 1)
_TIMES = math.isqrt(MAX_PADDED[0])  # what one axis of two may be longer with its padding


def padded(
    windows: Mapping[int, Along], shape: Shape, steps: Sequence[int], paddings: Pairs
) -> tuple[Mapping[int, Along], Pairs]:
    """Return windows of a tensor of `shape` that pad by themselves, and the paddings that are left over.

    steps: where they are over 1, there is room between elements, which only a padding makes.
    """
    found, left = dict(windows), list(paddings)
    for axis, along in windows.items():
        before, after = paddings[axis]
        few = shape[axis] + before + after <= _TIMES * shape[axis]
        if steps[axis] == 1 and min(before, after) >= 0 and max(before, after) < along.size and few:
            found[axis], left[axis] = along._replace(padding=(before, after)), (0, 0)
    return found, left


def maxima(to: Expansion, x: Tensor, windows: Mapping[int, Along]) -> Tensor:
    """Return the maxima of windows along some axes of x: of two axes next to each other, or one, at a time.

    These are height and width of images, all axes behind them the channels. Where channels come second, as
    before height and width, they are moved behind these: so converters write windows, among transposes that
    are the inverse.
    """
    order = list(range(x.type.rank))
    if order[-1] in windows and len(order) > 2 and 1 not in windows:
        order.append(order.pop(1))
    moved = to.add("transpose", x, perm=tuple(order))
    left = [place for place, axis in enumerate(order) if axis in windows]
    while left:
        place = left.pop()
        down, across = windows[order[place]], ALONE
        if left and left[-1] == place - 1:
            place = left.pop()
            down, across = windows[order[place]], down
        moved = _pool(to, moved, place, (down, across))
    return to.add("transpose", moved, perm=tuple(map(int, np.argsort(order))))


def _pool(to: Expansion, x: Tensor, place: int, windows: tuple[Along, Along]) -> Tensor:
    """Return the maxima of windows along an axis and, unless the second windows are ALONE, the next one."""
    shape, (down, across) = x.type.shape, windows
    behind = place + (1 if across == ALONE else 2)
    height, width = shape[place], math.prod(shape[place + 1 : behind])
    images = to.add("reshape", x, shape=(math.prod(shape[:place]), height, width, math.prod(shape[behind:])))
    found = to.add(
        "max_pool2d",
        images,
        size=(down.size, across.size),
        stride=(down.stride, across.stride),
        padding=(down.padding, across.padding),
    )
    along = found.type.shape[1 : 1 + behind - place]
    return to.add("reshape", found, shape=(*shape[:place], *along, *shape[behind:]))
