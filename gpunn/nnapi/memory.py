"""Memory: bytes that models and executions refer to, mapped from a file or inside an array."""

from __future__ import annotations

import mmap
import os

import numpy as np

from gpunn.errors import NnapiError, ResultCode
from gpunn.nnapi.values import bad, expect_given, expect_index, expect_kind
from gpunn.types import Array

PROT_NONE, PROT_READ, PROT_WRITE = 0, 1, 2  # as POSIX has them; Python's mmap names them on Unix only


class Memory:
    """A region of bytes that is never copied (ANeuralNetworksMemory).

    It lives as long as something refers to it; there is no call to free it. Make one with create_from_fd() or
    from_array(). Raises BAD_DATA for other arrays than flat, C-contiguous ones of bytes, and for flags that
    are no bool or that the array does not allow.
    """

    def __init__(self, data: Array, readable: bool, writable: bool) -> None:
        expect_kind("the bytes of a memory", data, np.ndarray)
        if data.dtype != np.uint8 or data.ndim != 1 or not data.flags.c_contiguous:
            bad(f"the bytes of a memory must be a flat, C-contiguous array of uint8, got {data!r}")
        expect_kind("readable", readable, bool)
        expect_kind("writable", writable, bool)
        if writable and not data.flags.writeable:
            bad("a writable memory needs an array that may be written")
        self._bytes = data
        self.readable = readable
        self.writable = writable

    @classmethod
    def create_from_fd(cls, size: int, protect: int, fd: int, offset: int = 0) -> Memory:
        """Map `size` bytes of a file from `offset`, shared with all that map it.

        protect: PROT_NONE, or PROT_READ and PROT_WRITE or-ed together. The descriptor is duplicated and may
        be closed. Raises BAD_DATA for a size that is not positive or larger than the file, an offset that is
        not aligned to a page, an unknown protection or a wrong descriptor; UNMAPPABLE when it cannot be
        mapped.
        """
        size, protect = expect_index("size", size), expect_index("protect", protect)
        fd, offset = expect_index("fd", fd), expect_index("offset", offset)
        if protect & ~(PROT_READ | PROT_WRITE):
            bad(f"protect must be PROT_NONE to PROT_READ | PROT_WRITE, got {protect}")
        if offset < 0 or offset % mmap.ALLOCATIONGRANULARITY:
            bad(f"offset must be a multiple of {mmap.ALLOCATIONGRANULARITY}, got {offset}")
        try:
            available = os.fstat(fd).st_size - offset
        except (OSError, OverflowError) as error:
            raise NnapiError(ResultCode.BAD_DATA, f"file descriptor {fd}: {error}") from error
        if not 0 < size <= available:
            bad(f"size must be 1 to {available}, as the file has it, got {size}")
        writable = bool(protect & PROT_WRITE)
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        try:
            mapped = mmap.mmap(fd, size, access=access, offset=offset)
        except (OSError, ValueError) as error:
            raise NnapiError(
                ResultCode.UNMAPPABLE, f"file descriptor {fd} cannot be mapped: {error}"
            ) from error
        return cls(np.frombuffer(mapped, np.uint8), bool(protect & PROT_READ), writable)

    @classmethod
    def from_array(cls, array: Array) -> Memory:
        """Refer to the bytes of a C-contiguous array, in place; writable if the array is."""
        expect_given("the array", array)
        if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or not array.size:
            bad("a memory needs a C-contiguous array that is not empty")
        if array.dtype.hasobject:
            bad(f"a memory needs an array of numbers, got {array.dtype}")
        return cls(array.reshape(-1).view(np.uint8), True, array.flags.writeable)

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return self._bytes.size

    def view(self, offset: int, length: int, *, write: bool = False) -> Array:
        """Return `length` bytes from `offset` as an array that shares them.

        Raises BAD_DATA if they are not inside, or if the protection forbids reading (writing).
        """
        offset, length = expect_index("offset", offset), expect_index("length", length)
        if not 0 <= offset <= offset + length <= self.size:
            bad(f"{length} bytes at {offset} are not inside a memory of {self.size} bytes")
        if not (self.writable if write else self.readable):
            bad(f"the memory must not be {'written' if write else 'read'}")
        return self._bytes[offset : offset + length]
