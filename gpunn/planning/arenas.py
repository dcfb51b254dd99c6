"""Arenas: tensors of one run share a few buffers; tensors that are alive at the same step never overlap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpunn.planning.liveness import Interval, peak_bytes

GROUPS = 3  # of tensors in different buffers: what a dispatch writes, what it reads, and what is read later


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
    """Place tensors in arenas, largest first, each at the lowest offset that is free during its whole life.

    Tensors that are alive at the same step never overlap, and those of different groups never share an arena.
    All offsets are multiples of `alignment` bytes, and no arena grows beyond `capacity` bytes unless a single
    tensor does. A group has a second arena only when its first one is full.
    """
    groups = groups or [0] * len(intervals)
    slots: dict[int, Slot] = {}
    sizes: list[int] = []
    of_group: list[int] = []  # of each arena
    for index in sorted(range(len(intervals)), key=lambda i: (-intervals[i].nbytes, intervals[i].first)):
        arenas = (k for k, group in enumerate(of_group) if group == groups[index])
        found = (Slot(k, _lowest_fit(index, k, intervals, slots, alignment)) for k in arenas)
        nbytes = intervals[index].nbytes
        slot = next((s for s in found if s.offset == 0 or s.offset + nbytes <= capacity), None)
        if slot is None:
            slot = Slot(len(sizes), 0)
            sizes.append(0)
            of_group.append(groups[index])
        sizes[slot.arena] = max(sizes[slot.arena], slot.offset + nbytes)
        slots[index] = slot
    return Arenas(tuple(slots[i] for i in range(len(intervals))), tuple(sizes), peak_bytes(intervals))


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
