"""GPU memory: arenas for intermediates, staging buffers for read-back, constants uploaded once."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import wgpu

from gpunn.backends.webgpu.textures import Texels, in_texels
from gpunn.errors import DeviceError, LimitError, OutOfMemoryError
from gpunn.kernel import Pack, ceil_div
from gpunn.types import Array

_CONSTANT = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_DST
_ARENA = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.COPY_SRC
_TEXTURE = wgpu.TextureUsage.TEXTURE_BINDING | wgpu.TextureUsage.COPY_DST
_STAGING = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
_UNIFORM = wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST


WORD = 4  # bytes


def padded(nbytes: int) -> int:
    """Return the bytes of a tensor on the device: a multiple of 16, at least 16."""
    return max(16, ceil_div(nbytes, 16) * 16)


def as_words(array: Array | None) -> Array:
    """Return the bytes of an array, filled up to whole 32-bit words as write_buffer() requires."""
    assert array is not None
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return data if data.nbytes % WORD == 0 else np.pad(data, (0, -data.nbytes % WORD))


def _digest(values: Sequence[Array | None]) -> bytes:
    """Compute a key for the contents, dtypes and shapes of arrays."""
    digest = hashlib.blake2b(digest_size=20)
    for value in values:
        if value is None:
            digest.update(b"absent")
            continue
        digest.update(f"{value.dtype}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return digest.digest()


# Of a constant: its contents, how it is packed, and the kind of its texels if it lies in a texture.
_Key: TypeAlias = tuple[bytes, Pack | None, Texels | None]


@dataclass(slots=True)
class Constant:
    """A constant on the device, and the number of compilations that use it.

    buffer: or a texture.
    """

    key: _Key
    buffer: Any
    nbytes: int
    users: int = 0


class Allocator:
    """A maker of the buffers of a wgpu device, which with its own ones has at most `limit` bytes.

    Every method raises DeviceError if the buffer exceeds the device's limit or memory runs out.
    """

    def __init__(self, device: Any, limit: int | None = None) -> None:
        self._device = device
        self._most = int(device.limits["max-buffer-size"])
        self._limit = limit
        # All buffers and textures that have not been freed, with purpose and bytes: nothing else must destroy
        # one, as garbage collection may come in the middle of a call of the driver.
        self._made: dict[int, tuple[Any, str, int]] = {}

    def within(self, limit: int | None) -> Allocator:
        """Return the same, but it makes no buffer with which all together have more than `limit` bytes."""
        found = Allocator(self._device, limit)
        found._made = self._made
        return found

    def used(self) -> dict[str, int]:
        """Return the bytes of all buffers by their purpose: fields of DeviceMemory."""
        found: dict[str, int] = {}
        for _, purpose, nbytes in tuple(self._made.values()):
            found[purpose] = found.get(purpose, 0) + nbytes
        return found

    def nbytes(self, made: Any) -> int:
        """Return the bytes of a buffer or texture that has not been freed."""
        return self._made[id(made)][2]

    def arena(self, nbytes: int) -> Any:
        """Make a buffer that intermediates live in."""
        return self._buffer(nbytes, _ARENA, "arenas", "an arena of intermediate tensors")

    def cached(self, nbytes: int) -> Any:
        """Make a buffer for a result that goes to another program."""
        return self._buffer(nbytes, _ARENA, "cached", "a result on the device")

    def staging(self, nbytes: int) -> Any:
        """Make a buffer that the host can map to read results."""
        return self._buffer(nbytes, _STAGING, "staging", "read-back")

    def uniform(self, data: bytes) -> Any:
        """Make a buffer that holds parameter blocks."""
        buffer = self._buffer(len(data), _UNIFORM, "parameters", "kernel parameters")
        if data:
            self._device.queue.write_buffer(buffer, 0, data)
        return buffer

    def constant(self, data: Array, what: str) -> Any:
        """Make a buffer that holds an array of whole words; `what` names it in errors."""
        buffer = self._buffer(data.nbytes, _CONSTANT, "constants", what)
        if data.nbytes:
            self._device.queue.write_buffer(buffer, 0, data)
        return buffer

    def texture(self, data: Array, texels: Texels, what: str) -> Any:
        """Make a texture that holds an array of whole words; `what` names it in errors."""
        rows = in_texels(data, texels)
        size = rows.shape[1], rows.shape[0], 1
        make = partial(self._device.create_texture, size=size, format=texels.format, usage=_TEXTURE)
        texture = self._new(make, rows.nbytes, "constants", what)
        layout = {"bytes_per_row": rows[0].nbytes, "rows_per_image": len(rows)}
        self._device.queue.write_texture({"texture": texture}, rows, layout, size)
        return texture

    def _buffer(self, nbytes: int, usage: int, purpose: str, what: str) -> Any:
        size = padded(nbytes)
        make = partial(self._device.create_buffer, size=size, usage=usage)
        return self._new(make, size, purpose, what)

    def _new(self, make: Callable[[], Any], size: int, purpose: str, what: str) -> Any:
        """Make a buffer or texture of `size` bytes."""
        if size > self._most:
            raise DeviceError(f"{what} needs a buffer of {size} bytes, the device allows {self._most}")
        if self._limit is not None:
            taken = sum(self.used().values())
            if taken + size > self._limit:
                message = (
                    f"{what} needs {size} bytes: gpunn has {taken} bytes on the device, and "
                    f"device_memory_limit is {self._limit}"
                )
                raise LimitError(message, "device_bytes", self._limit, taken + size)
        try:
            made = make()
        except wgpu.GPUOutOfMemoryError as error:
            raise OutOfMemoryError(f"out of GPU memory: {what} needs {size} bytes") from error
        except Exception as error:
            raise DeviceError(f"{what}: no buffer of {size} bytes: {error}") from error
        self._made[id(made)] = made, purpose, size
        return made

    def free(self, made: Any) -> None:
        """Free a buffer or texture, also one that is mapped or in use; a second time nothing happens."""
        if self._made.pop(id(made), None) is not None:
            made.destroy()


class Reclaimer:
    """Frees what belongs to objects that are gone.

    Garbage collection may come at any moment, even in the middle of a call of the driver. Then only a method
    in C is called, which notes it; collect() frees at a better one.
    """

    def __init__(self) -> None:
        self._free: dict[weakref.ref[Any], Callable[[], None]] = {}
        self._gone: deque[weakref.ref[Any]] = deque()

    def watch(self, owner: object, free: Callable[[], None]) -> None:
        """Have `free` called after `owner` is gone; twice, if it is interrupted."""
        self._free[weakref.ref(owner, self._gone.append)] = free

    @property
    def waiting(self) -> bool:
        """Tell whether there is something to free."""
        return bool(self._gone)

    def collect(self) -> None:
        """Free what belongs to objects that are gone; one thread at a time."""
        while self._gone:
            gone = self._gone[0]
            free = self._free.get(gone)
            if free is not None:
                free()
            self._free.pop(gone, None)
            self._gone.popleft()


class ConstantStore:
    """Constants of a device by content: equal bytes under an equal packing are uploaded once."""

    def __init__(self, memory: Allocator, lock: threading.RLock) -> None:
        self._memory = memory
        self._lock = lock
        self._constants: dict[_Key, Constant] = {}

    def acquire(
        self,
        values: Sequence[Array | None],
        pack: Pack | None,
        what: str,
        memory: Allocator,
        texels: Texels | None = None,
    ) -> tuple[Constant, int]:
        """Return a constant packed from `values`, and the bytes uploaded for it now.

        Without `pack` there is one value, uploaded unchanged. `memory` makes its buffer, or a texture of
        `texels`, if it must be made.
        """
        key = (_digest(values), pack, texels)
        with self._lock:
            constant = self._constants.get(key)
            uploaded = 0
            if constant is None:
                data = as_words(pack(*values) if pack else values[0])
                buffer = memory.texture(data, texels, what) if texels else memory.constant(data, what)
                constant = self._constants[key] = Constant(key, buffer, memory.nbytes(buffer))
                uploaded = data.nbytes
            constant.users += 1
            return constant, uploaded

    def release(self, constant: Constant) -> None:
        """Give a constant back; its memory is freed with its last user."""
        with self._lock:
            constant.users -= 1
            if constant.users == 0:
                del self._constants[constant.key]
                self._memory.free(constant.buffer)

    @property
    def nbytes(self) -> int:
        """Return the bytes of all constants on the device."""
        return sum(c.nbytes for c in self._constants.values())
