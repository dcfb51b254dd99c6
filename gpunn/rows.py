"""Rows of a tensor: where they lie in a larger tensor, and how a kernel finds and loads them.

Nothing here needs a device.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rows:
    """The place of a tensor within a larger one: rows of `length` elements, one every `pitch` elements.

    `first` is the element where the first row begins.
    """

    length: int
    pitch: int
    first: int

    def within(self, outer: Rows, size: int) -> Rows | None:
        """Return the place in a third tensor; `outer` is that of the larger one, which has `size` elements.

        None if the rows of both do not fit together.
        """
        if outer.length in (self.pitch, size):
            pitch = outer.pitch if outer.length == self.pitch else self.pitch
            return Rows(self.length, pitch, outer.first + self.first)
        return None

    @property
    def unit(self) -> int:
        """Return 4 if four elements from every fourth one on stay together, else 1."""
        return 1 if any(n % 4 for n in (self.length, self.pitch, self.first)) else 4


@dataclass(frozen=True, slots=True)
class RowLoads:
    """A kernel's loads of a tensor by rows: the elements of a row, and how often it loads each of them."""

    length: int
    times: int


@dataclass(frozen=True, slots=True)
class Pitch:
    """A kernel's parameters that say where rows of an operand begin: <name>_pitch and <name>_first.

    A row has `length` elements. Row m begins at place m * pitch + first; places count `unit` elements.
    """

    length: int
    unit: int = 1

    def params(self, name: str, pitch: int | None = None, first: int = 0) -> dict[str, int]:
        """Return the parameters, in elements: rows lie one behind the other if nothing else is stated."""
        apart = self.length if pitch is None else pitch
        return {f"{name}_pitch": apart // self.unit, f"{name}_first": first // self.unit}
