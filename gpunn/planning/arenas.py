"""Arenas: tensors of one run share a few buffers; tensors that are alive at the same step never overlap."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpunn.planning.liveness import Interval, peak_bytes


class Slot(NamedTuple):
    """The place of a tensor: the number of its arena and the offset there, in bytes."""

    arena: int
    offset: int


class Arenas(NamedTuple):
    """The result of assign(): slots of the tensors, sizes of the arenas, and a lower bound of their sum."""

    slots: tuple[Slot, ...]
    sizes: tuple[int, ...]
    peak_live_bytes: int


def assign(intervals: Sequence[Interval], alignment: int, capacity: int) -> Arenas:
    """Place tensors in arenas, largest first, each at the lowest offset that is free during its whole life.

    Tensors that are alive at the same step never overlap. All offsets are multiples of `alignment` bytes, and
    no arena grows beyond `capacity` bytes unless a single tensor does. A second arena appears only when the
    first one is full.
    """
    slots: dict[int, Slot] = {}
    sizes: list[int] = []
    for index in sorted(range(len(intervals)), key=lambda i: (-intervals[i].nbytes, intervals[i].first)):
        slot = _place(index, intervals, slots, alignment, capacity)
        end = slot.offset + intervals[index].nbytes
        if slot.arena == len(sizes):
            sizes.append(0)
        sizes[slot.arena] = max(sizes[slot.arena], end)
        slots[index] = slot
    return Arenas(tuple(slots[i] for i in range(len(intervals))), tuple(sizes), peak_bytes(intervals))


def _place(
    index: int, intervals: Sequence[Interval], slots: Mapping[int, Slot], alignment: int, capacity: int
) -> Slot:
    """Find the first arena with room for a tensor, and the offset in it; a new arena always has room."""
    for arena in itertools.count():
        offset = _lowest_fit(index, arena, intervals, slots, alignment)
        if offset == 0 or offset + intervals[index].nbytes <= capacity:
            return Slot(arena, offset)
    raise AssertionError("unreachable")


def _lowest_fit(
    index: int, arena: int, intervals: Sequence[Interval], slots: Mapping[int, Slot], alignment: int
) -> int:
    """Find the lowest aligned offset in an arena that is free during the tensor's whole life."""
    mine = intervals[index]
    taken = sorted(
        (slot.offset, slot.offset + intervals[other].nbytes)
        for other, slot in slots.items()
        if slot.arena == arena and intervals[other].overlaps(mine)
    )
    offset = 0
    for start, end in taken:
        if offset + mine.nbytes <= start:
            break
        offset = max(offset, -(-end // alignment) * alignment)
    return offset
