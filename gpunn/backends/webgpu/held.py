"""Results that stay on the device from one program to the next, in buffers that are used again."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from gpunn.backends.base import Stats
from gpunn.backends.interrupt import holding
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.memory import padded
from gpunn.backends.webgpu.native import Copy, MappedRead, submit
from gpunn.backends.webgpu.resources import Resources
from gpunn.types import Array, Shape, TensorType


class Held:
    """A tensor on the device, as long as something refers to it. As an array it is read back."""

    __slots__ = ("__weakref__", "_read", "buffer", "type")

    def __init__(self, type: TensorType, buffer: Any, read: Callable[[Held], Array]) -> None:
        self.type, self.buffer = type, buffer
        self._read = read

    @property
    def shape(self) -> Shape:
        """Return the shape of the tensor."""
        return self.type.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self._read(self), dtype)


class Shelter:
    """A maker of Held for a program; the buffer of one that is gone serves another of the same size.

    So there are as many buffers as results are in use at a time: two of each in a loop. What a program has on
    the device is kept as long as its shelter, to which each Held refers.
    """

    def __init__(
        self,
        device: Device,
        resources: Resources,
        stats: Stats,
        errors: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Take `errors`, a context in which the device's errors become DeviceError."""
        self._device = device
        self._resources = resources
        self._stats = stats
        self._errors = errors
        self._free: dict[int, list[Any]] = {}
        self._lent: dict[weakref.ref[Held], Any] = {}
        self._returned: deque[weakref.ref[Held]] = deque()  # filled by a method in C, at any time

    def take(self, type: TensorType) -> Held:
        """Return a place for a tensor, without content. Raises DeviceError."""
        self._collect()
        size = padded(type.nbytes)
        free = self._free.setdefault(size, [])
        if free:
            buffer = free.pop()
        else:
            buffer = self._resources.shelter(size)
            self._stats.arena_bytes += size
        held = Held(type, buffer, self._read)
        self._lent[weakref.ref(held, self._returned.append)] = buffer
        return held

    def close(self) -> None:
        """Leave the buffers of results that are in use; they are freed when these are gone."""
        for lent, buffer in tuple(self._lent.items()):
            held = lent()
            if held is not None:
                self._resources.give_up(buffer)
                self._device.reclaimer.watch(held, partial(self._device.memory.free, buffer))
        self._lent.clear()

    def _collect(self) -> None:
        while self._returned:
            buffer = self._lent.pop(self._returned.popleft(), None)
            if buffer is not None:
                self._free[buffer.size].append(buffer)

    def _read(self, held: Held) -> Array:
        def copy(staging: Any) -> Copy:
            return Copy(held.buffer, 0, staging, 0, held.buffer.size)

        found = read_back(self._device, held.type, copy, self._errors)
        self._stats.bytes_read_back += held.type.nbytes
        return found


def read_back(
    device: Device,
    type: TensorType,
    copy: Callable[[Any], Copy],
    errors: Callable[[], AbstractContextManager[None]],
) -> Array:
    """Read a tensor from the device at once; `copy` gives the copy of its bytes to a buffer."""
    if device.forked:
        device.check_usable()
    staging = device.memory.staging(padded(type.nbytes))
    try:
        with errors():
            with holding(device.lock):
                number = submit(device.wgpu, (), [copy(staging)])
                mapping = MappedRead(device.wgpu, staging, number, device.turn)
            mapping.wait()
            device.check_usable()
            found = np.frombuffer(mapping.memory(), type.dtype.numpy, type.size).copy()
    finally:
        device.memory.free(staging)
    return found.reshape(type.shape)
