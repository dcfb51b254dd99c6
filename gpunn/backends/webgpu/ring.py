"""Ring: the staging buffers of runs in flight. A slot of the ring has one owner, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from gpunn.backends.webgpu.native import Copy, MappedRead


class Owner(Protocol):
    """A run that may have a slot."""

    @property
    def number(self) -> int:
        """Return the place in the order of the runs."""

    @property
    def launched(self) -> bool:
        """Tell whether a stage has been submitted whose results have not been taken."""


class Slot:
    """A staging buffer and its owner. `mapping` is None unless the results lie there, or will.

    `copies`: those to the buffer after the dispatches of a stage, by the stage's id; see Executor.
    """

    __slots__ = ("buffer", "copies", "mapping", "owner")

    def __init__(self) -> None:
        self.buffer: Any = None
        self.copies: dict[int, tuple[Copy, ...]] = {}
        self.mapping: MappedRead | None = None
        self.owner: Owner | None = None


class Ring:
    """Slots for as many runs as may be in flight.

    Each step is an assignment, and an interrupted step is found by its traces: an owner that has launched
    nothing, or one without a mapping. A buffer in doubt is not used again, but dropped.
    """

    def __init__(self, count: int, make: Callable[[], Any], free: Callable[[Any], None]) -> None:
        """Make the buffers with `make`; `free` frees one in any state."""
        self._slots = tuple(Slot() for _ in range(count))
        self._make = make
        self._free = free
        for slot in self._slots:
            slot.buffer = make()

    @property
    def has_room(self) -> bool:
        """Tell whether a slot is free."""
        return any(slot.owner is None for slot in self._slots)

    def owners(self) -> Iterator[Owner]:
        """Yield the runs in flight."""
        return (owner for slot in self._slots if (owner := slot.owner) is not None)

    def take(self, owner: Owner) -> Slot:
        """Give a run a free slot. Raises DeviceError if it needs a new buffer and memory runs out."""
        slot = next(slot for slot in self._slots if slot.owner is None)
        slot.owner = owner
        if slot.buffer is None:
            slot.buffer = self._make()
        return slot

    def give_back(self, slot: Slot) -> None:
        """Take a slot back once its results have been read, or cannot be."""
        mapping = slot.mapping
        slot.mapping = None
        if mapping is None or not mapping.readable:  # or an earlier call was interrupted
            self._drop(slot)
        else:
            mapping.unmap()
        slot.owner = None

    def reclaim(self) -> None:
        """Take back the slots of runs whose launch was interrupted; none is launched meanwhile."""
        for slot in self._slots:
            owner = slot.owner
            if owner is not None and not owner.launched:
                slot.mapping = None
                self._drop(slot)
                slot.owner = None

    def _drop(self, slot: Slot) -> None:
        buffer = slot.buffer
        slot.copies.clear()
        slot.buffer = None
        if buffer is not None:
            self._free(buffer)
