"""Arrays in memory that two processes share.

The memory has no name, apart from Windows, where names go with the last process: nothing is left of it,
however the processes end.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpunn.backends import fork
from gpunn.errors import OutOfMemoryError
from gpunn.types import Array

ALIGNMENT = 64  # of an array, in bytes: a cache line, and more than any element


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the shared memory: its place in the file that has no name, or on Windows its name."""

    offset: int
    size: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """An array in a region."""

    offset: int
    dtype: str
    shape: tuple[int, ...]


def mapped(file: int, region: Region) -> mmap.mmap:
    """Return a region's memory. `file` is what shared_file() gave."""
    if sys.platform == "win32":
        return mmap.mmap(-1, region.size, tagname=region.name)
    return mmap.mmap(file, region.size, offset=region.offset)


def shared_file() -> int:
    """Return the descriptor of an empty file in memory that has no name; -1 on Windows, which needs none."""
    if sys.platform == "win32":
        return -1
    if hasattr(os, "memfd_create"):
        return os.memfd_create("gpunn")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Lease:
    """A region that goes back to its memory when nobody refers to this object any more."""

    __slots__ = ("_free", "memory", "region")

    def __init__(self, region: Region, memory: mmap.mmap, free: list[tuple[Region, mmap.mmap]]) -> None:
        self.region = region
        self.memory = memory
        self._free = free

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # if an interrupt came while it was made
            self._free.append((self.region, self.memory))


class SharedMemory:
    """Regions for arrays on their way from one process to another; what is given back is used again."""

    def __init__(self) -> None:
        self.file = shared_file()
        self._end = 0
        self._free: dict[int, list[tuple[Region, mmap.mmap]]] = {}  # by size
        self._lock = fork.lock()
        self._numbers = itertools.count()

    def take(self, nbytes: int) -> Lease:
        """Lend a region of at least so many bytes. Raises OutOfMemoryError if memory runs out."""
        size = max(mmap.ALLOCATIONGRANULARITY, 1 << (nbytes - 1).bit_length())
        free = self._free.setdefault(size, [])
        with contextlib.suppress(IndexError):
            region, memory = free.pop()
            return Lease(region, memory, free)
        try:
            region = self._grown(size)
            return Lease(region, mapped(self.file, region), free)
        except (OSError, ValueError) as error:
            raise OutOfMemoryError(
                f"out of memory: {size} bytes shared with a worker process: {error}"
            ) from error

    def close(self) -> None:
        """Close the file; regions that are lent stay until they are given back."""
        if self.file >= 0:
            os.close(self.file)
        self.file = -1

    def _grown(self, size: int) -> Region:
        with self._lock:
            region = Region(self._end, size, f"gpunn-{os.getpid()}-{id(self):x}-{next(self._numbers)}")
            self._end += size
            if sys.platform != "win32":
                os.ftruncate(self.file, self._end)
                if hasattr(
                    os, "posix_fallocate"
                ):  # else a full memory shows when somebody writes, by a signal
                    os.posix_fallocate(self.file, region.offset, size)
            return region


def needed(arrays: Iterable[Array]) -> int:
    """Return the bytes of a region in which arrays have room, one behind another."""
    return sum(_aligned(array.nbytes) for array in arrays if not array.dtype.hasobject)


def store(memory: mmap.mmap, start: int, arrays: Sequence[Array]) -> tuple[list[Stored | Array], int]:
    """Copy arrays to a region from `start` on; return where they are, and the end.

    Arrays of strings, and those for which there is no room, are returned as they are.
    """
    found: list[Stored | Array] = []
    for array in arrays:
        if array.dtype.hasobject or start + array.nbytes > len(memory):
            found.append(array)
            continue
        place = Stored(start, array.dtype.str, array.shape)
        fetch(memory, place)[...] = array
        found.append(place)
        start += _aligned(array.nbytes)
    return found, start


def fetch(memory: mmap.mmap | None, place: Stored | Array) -> Array:
    """Return an array that store() has given back: one in a region lies there."""
    if not isinstance(place, Stored):
        return place
    assert memory is not None
    dtype: np.dtype[Any] = np.dtype(place.dtype)
    return np.ndarray(place.shape, dtype, memory, place.offset)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
