"""Axes: how an op behaves when the axes of its operands come in another order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpunn.ops.call import Call
from gpunn.types import Shape

# For each shared axis of an operation the axes of an operand that lie there, in order; mostly one.
Places = tuple[tuple[int, ...], ...]
# Shared axes in another order. None is a new axis of extent 1; an axis of extent 1 may be left out.
Order = Sequence[int | None]


class Space(NamedTuple):
    """The axes that the operands of an operation share: for each operand, where they are among its own."""

    inputs: tuple[Places, ...]
    outputs: tuple[Places, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """The statement that an op computes the same on operands whose axes come in another order.

    * space: the axes that the operands of a call share; None for a call that needs their order.
    * axis, axes: attributes that name one shared axis, and several.
    * each: attributes with an entry for each shared axis, with the entry for a new axis of extent 1.
    * shape: the attribute that is the shape of the result.
    * broadcast: an input without a shared axis is repeated along it. Otherwise it has nothing to do with it.
    * fixed: inputs, by number, that keep their axes as they are.
    """

    space: Callable[[Call], Space | None]
    axis: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()
    each: Mapping[str, Any] = field(default_factory=dict)
    shape: str = ""
    broadcast: bool = False
    fixed: tuple[int, ...] = ()

    @property
    def by_types(self) -> bool:
        """Tell whether everything follows from the types of a call: no attribute names axes."""
        return not (self.axis or self.axes or self.each or self.shape)

    def named(self, call: Call, count: int) -> set[int]:
        """Return which of `count` shared axes the attributes name."""
        single = [call[name] for name in self.axis]
        return {a % count for a in (*single, *(a for name in self.axes for a in call[name]))}

    def attributes(self, attrs: Mapping[str, Any], order: Order, count: int, shape: Shape) -> dict[str, Any]:
        """Return the attributes for another order of `count` shared axes, where the result has a shape."""
        places = {axis: place for place, axis in enumerate(order)}
        changed = dict(attrs)
        for name in self.axis:
            changed[name] = places[attrs[name] % count]
        for name in self.axes:
            changed[name] = tuple(sorted({places[a % count] for a in attrs[name]}))
        for name, neutral in self.each.items():
            if attrs[name] is not None:
                changed[name] = tuple(neutral if a is None else attrs[name][a] for a in order)
        if self.shape:
            changed[self.shape] = shape
        return changed


def each_axis(rank: int) -> Places:
    """Return the places of an operand that has all shared axes, in order."""
    return tuple((axis,) for axis in range(rank))


def without(axes: Sequence[int], rank: int) -> Places:
    """Return the places of an operand that has all shared axes except some."""
    left = iter(range(rank))
    return tuple(() if axis in axes else (next(left),) for axis in range(rank))


def alike(call: Call) -> Space:
    """Return the space of a call whose operands all have the same axes."""
    places = each_axis(call.x.rank)
    return Space((places,) * len(call.inputs), (places,) * len(call.outputs))


def aligned_right(call: Call) -> Space:
    """Return the space of a call whose inputs are broadcast to the result as numpy does it."""
    rank = call.y.rank

    def places(own: int) -> Places:
        missing = rank - own
        return (((),) * missing) + tuple((axis,) for axis in range(own))

    return Space(tuple(places(call.input(k).rank) for k in range(len(call.inputs))), (each_axis(rank),))


def blocks(call: Call) -> Space | None:
    """Return the space of a call that gives the elements of x another shape: axes that are split or merged.

    Each shared axis stands for the fewest neighbouring axes of x that become neighbouring axes of the result.
    Axes of extent 1 belong to none. None if there are no elements.
    """
    before, after = (iter(_long(shape)) for shape in (call.x.shape, call.y.shape))
    if not call.x.size:
        return None
    ours: list[tuple[int, ...]] = []
    theirs: list[tuple[int, ...]] = []
    for axis, extent in before:
        mine, others, left, right = [axis], [], extent, 1
        while left != right:
            if left < right:
                axis, extent = next(before)
                mine.append(axis)
                left *= extent
            else:
                axis, extent = next(after)
                others.append(axis)
                right *= extent
        ours.append(tuple(mine))
        theirs.append(tuple(others))
    return Space((tuple(ours),), (tuple(theirs),))


def _long(shape: Shape) -> list[tuple[int, int]]:
    """Return the axes whose extent is not 1, with their extents."""
    return [(axis, extent) for axis, extent in enumerate(shape) if extent != 1]


ELEMENTWISE = Axes(space=alike)
PAIRWISE = Axes(space=aligned_right, broadcast=True)
ALONG_AXIS = Axes(space=alike, axis=("axis",))
