"""Recordings: stages of the next runs, recorded while the device computes; only submitting them is left."""

from __future__ import annotations

from typing import Any

from gpunn.backends.webgpu.native import discard
from gpunn.backends.webgpu.stage import Stage


class Recordings:
    """Command buffers by stage and staging buffer. Each can be submitted once only: a second time aborts.

    So take() forgets one before it is submitted; KeyboardInterrupt in between loses it, and nothing else.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[int, int], Any] = {}

    def has(self, stage: Stage, staging: Any) -> bool:
        """Tell whether a stage is recorded with copies to a staging buffer, or None."""
        return (id(stage), id(staging)) in self._made

    def put(self, stage: Stage, staging: Any, commands: Any) -> None:
        """Keep what has been recorded."""
        self._made[id(stage), id(staging)] = commands

    def take(self, stage: Stage, staging: Any) -> Any:
        """Give what has been recorded to the caller, who submits or discards it; None if there is nothing."""
        return self._made.pop((id(stage), id(staging)), None)

    def forget(self, staging: Any) -> None:
        """Discard what copies to a staging buffer."""
        for key in [k for k in tuple(self._made) if k[1] == id(staging)]:
            self._discard(key)

    def clear(self) -> None:
        """Discard everything."""
        for key in tuple(self._made):
            self._discard(key)

    def _discard(self, key: tuple[int, int]) -> None:
        commands = self._made.pop(key, None)
        if commands is not None:
            discard(commands)
