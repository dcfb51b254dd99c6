"""The pipelines of a device, by what their shaders are generated from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

from gpunn.backends.webgpu.shader import ShaderKey

MOST = 64  # pipelines that stay, those of some networks; lavapipe holds up to 4 MiB for each


class Pipelines:
    """Finds all pipelines that something refers to, and keeps those that were asked for last.

    One thread at a time calls its methods. made: how many there have been.
    """

    def __init__(self) -> None:
        self.made = 0
        self._living: WeakValueDictionary[ShaderKey, Any] = WeakValueDictionary()
        self._kept: dict[ShaderKey, Any] = {}  # the last one that was asked for at the end

    def __contains__(self, key: ShaderKey) -> bool:
        return key in self._living

    def __iter__(self) -> Iterator[ShaderKey]:
        return iter([*self._living])

    def get(self, key: ShaderKey) -> Any | None:
        """Return the pipeline of a key, if there is one."""
        found = self._living.get(key)
        if found is not None:
            self._kept.pop(key, None)
            self._kept[key] = found
        return found

    def add(self, key: ShaderKey, pipeline: Any) -> None:
        """Keep a new pipeline."""
        self.made += 1
        self._living[key] = self._kept[key] = pipeline

    def trim(self) -> None:
        """Keep the last MOST; others that nothing refers to are freed. For the end of a compilation."""
        for key in [*self._kept][:-MOST]:
            del self._kept[key]
