"""GPU memory: constants uploaded once, arenas for intermediates, staging buffers for read-back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import wgpu

from gpunn.kernel import Pack, ceil_div
from gpunn.types import Array

if TYPE_CHECKING:
    from gpunn.backends.webgpu.device import Device

_CONSTANT = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_DST
_ARENA = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.COPY_SRC
_STAGING = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
_UNIFORM = wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST


def padded(nbytes: int) -> int:
    """Bytes of a tensor on the device: a multiple of 16, at least 16."""
    return max(16, ceil_div(nbytes, 16) * 16)


@dataclass(slots=True)
class Constant:
    """A constant on the device and how many compilations use it."""

    key: tuple[bytes, Pack | None]
    buffer: Any
    nbytes: int
    users: int = 0


class ConstantStore:
    """Constants of a device by content: equal bytes under an equal packing are uploaded once."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._constants: dict[tuple[bytes, Pack | None], Constant] = {}

    def acquire(self, value: Array, pack: Pack | None, what: str) -> tuple[Constant, int]:
        """The buffer of a (packed) constant and the bytes uploaded for it now: 0 when it was there."""
        dense = np.ascontiguousarray(value)
        digest = hashlib.blake2b(dense.view(np.uint8).reshape(-1).data, digest_size=20)
        digest.update(f"{dense.dtype}{dense.shape}".encode())
        key = (digest.digest(), pack)
        with self._device.lock:
            constant = self._constants.get(key)
            uploaded = 0
            if constant is None:
                packed = np.ascontiguousarray(pack(dense) if pack else dense)
                size = padded(packed.nbytes)
                buffer = self._device.buffer(size, _CONSTANT, what)
                if packed.nbytes:
                    self._device.wgpu.queue.write_buffer(buffer, 0, packed)
                constant = self._constants[key] = Constant(key, buffer, size)
                uploaded = packed.nbytes
            constant.users += 1
            return constant, uploaded

    def release(self, constant: Constant) -> None:
        """Give a constant back; its memory is freed with its last user."""
        with self._device.lock:
            constant.users -= 1
            if constant.users == 0:
                del self._constants[constant.key]
                constant.buffer.destroy()

    @property
    def nbytes(self) -> int:
        """Bytes of all constants on the device."""
        return sum(c.nbytes for c in self._constants.values())


def arena_buffer(device: Device, nbytes: int) -> Any:
    """A buffer that intermediates live in."""
    return device.buffer(padded(nbytes), _ARENA, "an arena of intermediate tensors")


def staging_buffer(device: Device, nbytes: int) -> Any:
    """A buffer that the host can map to read results."""
    return device.buffer(padded(nbytes), _STAGING, "read-back")


def uniform_buffer(device: Device, data: bytes) -> Any:
    """A buffer of parameter blocks."""
    buffer = device.buffer(padded(len(data)), _UNIFORM, "kernel parameters")
    if data:
        device.wgpu.queue.write_buffer(buffer, 0, data)
    return buffer
