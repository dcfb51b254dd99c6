"""Recordings: stages of the next runs, recorded while the device computes; only submitting them is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.native import discard
from gpunn.backends.webgpu.stage import Stage

_LEFT = 64  # submitted command buffers; wgpu has taken what was in them
# Command buffers of a device that were never submitted: wgpu-native frees nothing of them, on lavapipe 0.12
# MiB (docs/reliability.md). After so many there is only one recording at a time.
_MOST_LOST = 128


@dataclass(slots=True)
class _Made:
    """The command buffers of one stage and staging buffer that have not been submitted.

    count: how many were made at once, the last time. seconds: the CPU time that each of these took.
    """

    commands: list[Any] = field(default_factory=list)
    count: int = 0
    seconds: float = 0.0


class Recordings:
    """Command buffers by stage and staging buffer. Each can be submitted once only: a second time aborts.

    So take() forgets one before it is submitted; KeyboardInterrupt in between loses it, and nothing else.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._made: dict[tuple[int, int], _Made] = {}
        self._submitted: list[Any] = []

    def has(self, stage: Stage, staging: Any) -> bool:
        """Tell whether a stage is recorded with copies to a staging buffer, or None."""
        made = self._made.get((id(stage), id(staging)))
        return made is not None and bool(made.commands)

    def fill(self, stage: Stage, staging: Any, record: Callable[[], Any], most: int) -> None:
        """Record a stage once the first time, and then twice as often as the time before, up to `most` times.

        Nobody knows how many runs are to come, and this way at most one more is made in vain than is used.
        """
        began = time.thread_time()
        made = self._made.setdefault((id(stage), id(staging)), _Made())
        made.count = min(2 * made.count or 1, most if self._device.lost_recordings < _MOST_LOST else 1)
        for _ in range(made.count):
            made.commands.append(record())
        made.seconds = (time.thread_time() - began) / made.count

    def take(self, stage: Stage, staging: Any) -> tuple[Any, float]:
        """Give one of what has been recorded to the caller, who submits it; None if there is nothing.

        With it comes the CPU time that recording it has taken, in seconds.
        """
        made = self._made.get((id(stage), id(staging)))
        if made is None or not made.commands:
            return None, 0.0
        return made.commands.pop(), made.seconds

    def leave(self, commands: Any) -> None:
        """Take what the caller has submitted, to discard it later: several at once, while caches are warm."""
        self._submitted.append(commands)
        if len(self._submitted) >= _LEFT:
            _discard_all(self._submitted)

    def forget(self, staging: Any) -> None:
        """Discard what copies to a staging buffer."""
        for key in [k for k in tuple(self._made) if k[1] == id(staging)]:
            self._discard(key)

    def clear(self) -> None:
        """Discard everything."""
        _discard_all(self._submitted)
        for key in tuple(self._made):
            self._discard(key)

    def _discard(self, key: tuple[int, int]) -> None:
        made = self._made[key].commands
        self._device.lost_recordings += len(made)
        _discard_all(made)
        self._made.pop(key, None)


def _discard_all(commands: list[Any]) -> None:
    while commands:
        discard(commands.pop())
