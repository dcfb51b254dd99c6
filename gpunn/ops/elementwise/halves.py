"""Halves of a tensor along an axis."""

from __future__ import annotations

from gpunn.types import Shape


def halved(shape: Shape, x: Shape, axis: int) -> Shape:
    """Return the shape of a tensor broadcast to x, with the axis of x divided into two halves.

    A tensor that has half of the extent there, or one element, has one for both. axis: not negative.
    """
    place = axis - len(x) + len(shape)
    if place < 0:
        return shape
    halves = (2, x[axis] // 2) if shape[place] == x[axis] else (1, shape[place])
    return (*shape[:place], *halves, *shape[place + 1 :])
