"""Memory for large results on the host, which a program uses again from run to run.

The system gives fresh memory page by page when it is first written, and that takes as long as a sum of two
tensors. References ask empty() for the memory of their results. In a run with a Memory they get that of
earlier results to which nothing refers any more. What they need only for a while is scratch().
"""

from __future__ import annotations

import math
import weakref
from bisect import bisect_left, insort_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from gpunn.types import Array, Shape

LEAST_BYTES = 1 << 16  # of an array that is worth it
MOST_TIMES = 4  # its size, of a buffer that an array may have
ALIGNMENT = 64  # bytes that vector instructions load at a time
FEW_BYTES = 1 << 10  # of numbers side by side that numpy copies in less time as one element
BUFFER = 1 << 10  # elements in each of numpy's buffers, where ShortBuffers are in use
BLOCK = 1 << 14  # elements that several functions in turn work on, while they are in the CPU's cache
MOST_VIEWS = 1 << 10  # of one scratch buffer that are kept; each takes 200 bytes

_Kind = tuple[Shape, np.dtype[Any]]


class Memory:
    """Buffers, each of which is the memory of one array or is idle. One thread at a time asks for arrays."""

    _least = LEAST_BYTES

    def __init__(self) -> None:
        self._idle: list[_Buffer] = []  # the smallest first
        self._used: dict[int, tuple[weakref.ref[Array], _Buffer]] = {}  # by the id: references have no hash
        self._dead: list[weakref.ref[Array]] = []  # references to arrays that are gone, from any thread
        self._scratch: dict[str, _Buffer] = {}
        self._views: dict[str, dict[_Kind, Array]] = {}  # of each scratch buffer

    @property
    def nbytes(self) -> int:
        """Return the size of all buffers."""
        used = (buffer for _, buffer in self._used.values())
        return sum(buffer.nbytes for buffer in (*self._idle, *used, *self._scratch.values()))

    def empty(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """Return an array of any content. Views of it keep its memory in use, too."""
        kind = np.dtype(dtype)
        nbytes = math.prod(shape) * kind.itemsize
        if nbytes < self._least:
            return np.empty(shape, kind)
        buffer = self._take(nbytes)
        # The base of this array is no array, so it becomes the base of all views.
        whole: Array = np.frombuffer(buffer.data, kind, nbytes // kind.itemsize)
        reference = weakref.ref(whole, self._dead.append)  # in C: no signal comes in between and gets lost
        self._used[id(reference)] = reference, buffer
        return whole.reshape(shape)

    def scratch(self, name: str, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return an array of any content, in the memory that the last one of this name had."""
        try:
            return self._views[name][shape, dtype]
        except KeyError:
            pass
        views = self._views.setdefault(name, {})
        nbytes = math.prod(shape) * dtype.itemsize
        buffer = self._scratch.get(name)
        if buffer is None or buffer.nbytes < nbytes:
            views.clear()
            self._scratch.pop(name, None)  # free before there is another one
            buffer = self._scratch[name] = self._new(max(nbytes, self._least))
        if len(views) >= MOST_VIEWS:
            views.clear()
        made = views[shape, dtype] = np.ndarray(shape, dtype, buffer.data)
        return made

    def _take(self, nbytes: int) -> _Buffer:
        self._take_back()
        place = bisect_left(self._idle, nbytes, key=_size)
        if place < len(self._idle) and self._idle[place].nbytes <= MOST_TIMES * nbytes:
            return self._idle.pop(place)
        try:
            return self._new(nbytes)
        except MemoryError:
            self._idle.clear()
            return self._new(nbytes)

    def _take_back(self) -> None:
        """Make the memory of arrays that are gone idle."""
        while self._dead:
            _, buffer = self._used.pop(id(self._dead.pop(0)))
            # Of one size the last one comes first: it may still be in a cache.
            insort_left(self._idle, buffer, key=_size)

    def _new(self, nbytes: int) -> _Buffer:
        return _Buffer(nbytes)

    def release(self) -> None:
        """Free what no array uses, and scratch."""
        self._take_back()
        self._idle.clear()
        self._scratch.clear()
        self._views.clear()

    def use(self) -> None:
        """Let empty() take the memory of arrays from here, up to the end of this context."""
        _CURRENT.set(self)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let empty() take the memory of arrays from here, in a block of this context."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


class FixedMemory(Memory):
    """Memory whose buffers stay as long as it does: for calls that are computed again at the same places.

    Its scratch is as large as that of another memory from the start.
    """

    _least = 1

    def __init__(self, other: Memory) -> None:
        super().__init__()
        self._all: list[_Buffer] = []
        for name, buffer in other._scratch.items():
            self._scratch[name] = self._new(buffer.nbytes)

    def _new(self, nbytes: int) -> _Buffer:
        buffer = _Buffer(nbytes)
        self._all.append(buffer)
        return buffer

    def again(self, array: Array) -> Array | None:
        """Return another array at the place of a dense one in these buffers; None if it lies elsewhere.

        It does not keep others from getting the place.
        """
        address = array.ctypes.data
        for buffer in self._all:
            if 0 <= address - buffer.address < buffer.nbytes:
                return np.ndarray(array.shape, array.dtype, buffer.data, address - buffer.address)
        return None


class ShortBuffers:
    """A context, of one thread at a time, in which numpy has buffers for few elements.

    numpy copies rows into a buffer if several of them fit there, and that takes as long as a sum.
    """

    def __init__(self) -> None:
        self._before = 0

    def __enter__(self) -> None:
        self._before = np.setbufsize(BUFFER)

    def __exit__(self, *_: object) -> None:
        np.setbufsize(self._before)


def together(dtype: np.dtype[Any], count: int) -> np.dtype[Any]:
    """Return the dtype as which numpy copies so many numbers side by side in the least time."""
    nbytes = count * dtype.itemsize
    return np.dtype((np.void, nbytes)) if 0 < nbytes <= FEW_BYTES else dtype


def aligned(array: Array) -> Array:
    """Return a dense copy of an array where vector instructions load it in the least time."""
    copy: Array = np.ndarray(array.shape, array.dtype, _Buffer(array.nbytes).data)
    copy[...] = array
    return copy


class _Buffer:
    __slots__ = ("address", "data", "nbytes")

    def __init__(self, nbytes: int) -> None:
        room: Array = np.empty(nbytes + ALIGNMENT, np.uint8)
        start = -room.ctypes.data % ALIGNMENT
        self.address, self.nbytes = room.ctypes.data + start, nbytes
        self.data = room[start : start + nbytes].data


def _size(buffer: _Buffer) -> int:
    return buffer.nbytes


_CURRENT: ContextVar[Memory | None] = ContextVar("memory", default=None)


def empty(shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
    """Return an array of any content, in the memory of the run if there is one."""
    memory = _CURRENT.get()
    return np.empty(shape, dtype) if memory is None else memory.empty(shape, dtype)


def scratch(name: str, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Return an array of any content, which serves until the next one of this name is asked for.

    In a run the same memory serves again and again, and mostly is in the CPU's cache.
    """
    memory = _CURRENT.get()
    return np.empty(shape, dtype) if memory is None else memory.scratch(name, shape, dtype)


def by_blocks(
    write: Callable[[Array, Array], None],
    x: Array,
    dtype: npt.DTypeLike | None = None,
    block: int = BLOCK,
    out: Array | None = None,
) -> Array:
    """Return what `write` computes of each element for itself, in x's dtype or another one.

    It gets up to `block` elements of x, along one axis or more, and an array of the same shape for their
    results. out: where they shall lie; may be x.
    """
    kind = x.dtype if dtype is None else dtype
    result = out if out is not None else empty(x.shape, kind)
    if (x.ndim and 0 < x.size <= block) or not result.flags.c_contiguous:
        write(x, result)
        return result
    source, target = x.reshape(-1), result.reshape(-1)
    for first in range(0, source.size, block):
        write(source[first : first + block], target[first : first + block])
    return result
