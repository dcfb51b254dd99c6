"""Results that stay on the device from one program to the next, in buffers that are used again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from gpunn.backends.base import Stats
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.memory import padded
from gpunn.types import Array, Shape, TensorType


class Held:
    """A tensor on the device, as long as something refers to it. As an array it is read back."""

    __slots__ = ("_give_back", "_read", "buffer", "type")

    def __init__(
        self,
        type: TensorType,
        buffer: Any,
        read: Callable[[Held], Array],
        give_back: Callable[[Held], None],
    ) -> None:
        self.type, self.buffer = type, buffer
        self._read, self._give_back = read, give_back

    @property
    def shape(self) -> Shape:
        """Return the shape of the tensor."""
        return self.type.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self._read(self), dtype)

    def __del__(self) -> None:
        self._give_back(self)


class Shelter:
    """A maker of Held for a program; the buffer of one that is gone serves another of the same size.

    So there are as many buffers as results are in use at a time: two of each in a loop.
    """

    def __init__(
        self, device: Device, stats: Stats, errors: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Take `errors`, a context in which the device's errors become DeviceError."""
        self._device = device
        self._stats = stats
        self._errors = errors
        self._free: dict[int, list[Any]] = {}
        self._made: list[Any] = []  # all: what only a Held refers to may be garbage before that gives it back
        self._closed = False

    def take(self, type: TensorType) -> Held:
        """Return a place for a tensor, without content."""
        size = padded(type.nbytes)
        free = self._free.setdefault(size, [])
        try:
            buffer = free.pop()
        except IndexError:
            buffer = self._device.memory.arena(size)
            self._made.append(buffer)
            self._stats.buffers += 1
            self._stats.arena_bytes += size
        return Held(type, buffer, self._read, self._give_back)

    def close(self) -> None:
        """Free all buffers, those in use when they are given back."""
        self._closed = True
        for buffers in self._free.values():
            while buffers:
                buffers.pop().destroy()

    def _give_back(self, held: Held) -> None:
        if self._device.forked:
            return
        if self._closed:
            held.buffer.destroy()
        else:
            self._free[padded(held.type.nbytes)].append(held.buffer)

    def _read(self, held: Held) -> Array:
        type = held.type
        if self._device.forked:
            self._device.check_usable()
        with self._device.lock, self._errors():
            memory = self._device.wgpu.queue.read_buffer(held.buffer)
        self._stats.bytes_read_back += type.nbytes
        found: Array = np.frombuffer(memory, type.dtype.numpy, type.size).reshape(type.shape).copy()
        return found
