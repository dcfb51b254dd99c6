"""Rows of a tensor: where they lie in a larger tensor, and how a kernel finds and loads them.

Nothing here needs a device.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple


class Rows(NamedTuple):
    """The place of a tensor within a larger one: rows of `length` elements, one every `pitch` elements.

    `first` is the element where the first row begins. Rows with a pitch of their length are a single one.
    """

    length: int
    pitch: int
    first: int

    def within(self, outer: Rows, size: int) -> Rows | None:
        """Return the place in a third tensor; `outer` is that of the larger one, which has `size` elements.

        None if the rows of both do not fit together.
        """
        if outer.length == size:
            return Rows(self.length, self.pitch, outer.first + self.first)
        row, column = divmod(self.first, outer.length)
        first = outer.first + row * outer.pitch + column
        if column + self.length <= outer.length and outer.length == self.pitch:
            return Rows(self.length, outer.pitch, first)
        if self.length < self.pitch:
            return None
        if column + self.length <= outer.length:  # one row, which is a part of one
            return Rows(self.length, self.length, first)
        whole = column == self.length % outer.length == 0
        return Rows(outer.length, outer.pitch, first) if whole else None

    @property
    def unit(self) -> int:
        """Return 4 if four elements from every fourth one on stay together, else 1."""
        return 1 if any(n % 4 for n in (self.length, self.pitch, self.first)) else 4

    @property
    def step(self) -> int:
        """Return the distance between two elements of a row."""
        return 1

    def levels(self) -> tuple[tuple[int, int], ...]:
        """Return the elements of a row and between two rows, as Walk.levels() does."""
        return () if self.pitch == self.length else ((self.length, self.pitch - self.length),)


@dataclass(frozen=True, slots=True)
class Walk:
    """The place of a tensor in one that has its elements in another order, and may be larger.

    `sizes` are the extents of the dense tensor, with as few dimensions as possible, one or more; `strides`
    the distances between neighbours in the other one, where `first` is the place of the first element.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    first: int = 0

    def within(self, outer: Rows, size: int) -> Walk | None:
        """Return the place in a third tensor; `outer` is that of the other one, which has `size` elements.

        None if a row of `outer` ends within a dimension.
        """
        length = outer.length
        if length == size:
            return replace(self, first=outer.first + self.first)
        dimensions = [*zip(self.sizes, self.strides, strict=True)]
        if any(stride % length and extent * stride > length for extent, stride in dimensions):
            return None
        apart = [stride if stride % length else stride // length * outer.pitch for _, stride in dimensions]
        return Walk(self.sizes, tuple(apart), outer.first + self.first)

    @property
    def unit(self) -> int:
        """Return 4 if four elements from every fourth one on stay together, else 1."""
        together = self.step == 1 and not any(n % 4 for n in (self.sizes[-1], *self.strides[:-1], self.first))
        return 4 if together else 1

    @property
    def step(self) -> int:
        """Return the distance between two neighbours in the last dimension."""
        return self.strides[-1]

    def levels(self) -> tuple[tuple[int, int], ...]:
        """Return lengths and gaps: element i lies at i * step + first, and further by a gap for each of the
        whole lengths before it.
        """
        found, length = [], 1
        dimensions = zip(self.sizes[::-1], self.strides[::-1], strict=True)
        for (extent, stride), (_, outer) in pairwise(dimensions):
            length *= extent
            found.append((length, outer - extent * stride))
        return tuple(found)


class RowLoads(NamedTuple):
    """A kernel's loads of a tensor by rows: the elements of a row, and how often it loads each of them."""

    length: int
    times: int


class Pitch(NamedTuple):
    """A kernel's parameters that say where rows of an operand begin: <name>_pitch and <name>_first.

    A row has `length` elements. Row m begins at place m * pitch + first; places count `unit` elements.
    """

    length: int
    unit: int = 1

    def params(self, name: str, pitch: int | None = None, first: int = 0) -> dict[str, int]:
        """Return the parameters, in elements: rows lie one behind the other if nothing else is stated."""
        apart = self.length if pitch is None else pitch
        return {f"{name}_pitch": apart // self.unit, f"{name}_first": first // self.unit}


class Start(NamedTuple):
    """A kernel's parameter that says where an operand begins: <name>_first. Places count `unit` elements."""

    unit: int = 1

    def params(self, name: str, first: int = 0) -> dict[str, int]:
        """Return the parameter; first: in elements."""
        return {f"{name}_first": first // self.unit}
