"""Arenas: tensors of one run share a few buffers; tensors that are alive at the same step never overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpunn.planning.liveness import Interval, peak_bytes
from gpunn.types import Array

GROUPS = 3  # of tensors in different buffers: what a dispatch writes, what it reads, and what is read later


_Order = Callable[[Interval], tuple[int, ...]]
_ORDERS: tuple[_Order, ...] = (
    lambda i: (-i.nbytes, i.first),
    lambda i: (-i.nbytes * (i.last - i.first + 1), i.first),
)


class Slot(NamedTuple):
    """The place of a tensor: the number of its arena and the offset there, in bytes."""

    arena: int
    offset: int


class Arenas(NamedTuple):
    """The result of assign(): slots of the tensors, sizes of the arenas, and a lower bound of their sum."""

    slots: tuple[Slot, ...]
    sizes: tuple[int, ...]
    peak_live_bytes: int


def grouped(count: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Give tensors 0 to count - 1 the numbers of groups, those of a pair different ones.

    So a dispatch that reads one tensor of a pair and writes the other one finds them in different buffers. In
    the order of the tensors each gets the lowest number that none of its partners has. There are GROUPS of
    them; one whose partners have all of these shares the first.
    """
    partners: list[set[int]] = [set() for _ in range(count)]
    for one, other in pairs:
        partners[max(one, other)].add(min(one, other))
    groups: list[int] = []
    for earlier in partners:
        taken = {groups[k] for k in earlier}
        groups.append(next((g for g in range(GROUPS) if g not in taken), 0))
    return groups


def assign(
    intervals: Sequence[Interval], alignment: int, capacity: int, groups: Sequence[int] | None = None
) -> Arenas:
    """Place tensors in arenas, one after the other, each at the lowest offset that is free during its life.

    Tensors that are alive at the same step never overlap, and those of different groups never share an arena.
    All offsets are multiples of `alignment` bytes, and no arena grows beyond `capacity` bytes unless a single
    tensor does. A group has a second arena only when its first one is full. The largest tensors come first;
    if that leaves gaps, those with the most bytes times steps, where that takes less.
    """
    groups, peak = groups or [0] * len(intervals), peak_bytes(intervals)
    made = (Arenas(*_placed(intervals, alignment, capacity, groups, order), peak) for order in _ORDERS)
    found = next(made)
    return found if sum(found.sizes) <= peak else min(found, *made, key=lambda arenas: sum(arenas.sizes))


def _placed(
    intervals: Sequence[Interval],
    alignment: int,
    capacity: int,
    groups: Sequence[int],
    order: _Order,
) -> tuple[tuple[Slot, ...], tuple[int, ...]]:
    """Return the slots of tensors that are placed in an order, and the sizes of their arenas."""
    members, slots = Counter(groups), dict[int, Slot]()
    arenas: list[_Arena] = []
    for index in sorted(range(len(intervals)), key=lambda i: order(intervals[i])):
        interval, group = intervals[index], groups[index]
        numbers = (k for k, arena in enumerate(arenas) if arena.group == group)
        found = (Slot(k, arenas[k].lowest_fit(interval, alignment)) for k in numbers)
        slot = next((s for s in found if s.offset == 0 or s.offset + interval.nbytes <= capacity), None)
        if slot is None:
            slot = Slot(len(arenas), 0)
            arenas.append(_Arena(group, np.empty((4, members[group]), np.int64)))
        arenas[slot.arena].place(interval, slot.offset)
        slots[index] = slot
    return tuple(slots[i] for i in range(len(intervals))), tuple(arena.nbytes for arena in arenas)


@dataclass(slots=True)
class _Arena:
    """An arena of a group with its tensors.

    The columns of `table` are the beginning and the end of each tensor in the arena, and the first and last
    step that need it, in the order of the beginnings. `count` of them are filled.
    """

    group: int
    table: Array
    count: int = 0
    nbytes: int = 0

    def lowest_fit(self, mine: Interval, alignment: int) -> int:
        """Find the lowest aligned offset that is free during a tensor's whole life."""
        begins, ends, first, last = self.table[:, : self.count]
        alive = (first <= mine.last) & (last >= mine.first)
        above = np.zeros(np.count_nonzero(alive) + 1, np.int64)  # the offsets above so many of those alive
        np.maximum.accumulate(-(-ends[alive] // alignment) * alignment, out=above[1:])
        fits = above[:-1] + mine.nbytes <= begins[alive]
        return int(above[fits.argmax() if fits.any() else -1])

    def place(self, interval: Interval, offset: int) -> None:
        """Add a tensor."""
        place, end = self.table[0, : self.count].searchsorted(offset), offset + interval.nbytes
        self.table[:, place + 1 : self.count + 1] = self.table[:, place : self.count]
        self.table[:, place] = offset, end, interval.first, interval.last
        self.count += 1
        self.nbytes = max(self.nbytes, end)
