"""Captures of the calls of loops, which replay() computes again without Python, as graphs of CUDA do.

Most of what an operation does in Python is the same in each run of a program: it finds memory for its result,
and the operands of loops. A function that does nothing else says so with of_loops(). While a capture is in
use, loops record their calls. A program keeps them with the memory that they read and write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from gpunn.ops.compiled.sharing import Ends
from gpunn.ops.compiled.team_code import LINE, PLACES, RECORD, memory_of
from gpunn.types import Array

_ROOM = 1 << 16  # words for the calls of an operation
_FIRST = PLACES + LINE


class LoopCall(NamedTuple):
    """A call of a loop: its parts, the address of its code, and the words that this reads.

    arrays: the operands that are arrays, and in which of the words their addresses are.
    """

    parts: int
    code: int
    words: Array
    arrays: list[tuple[int, Array]]


class Capture:
    """The calls of loops and the results of one operation after the other; they have as many parts as usual.

    In use as a team (gpunn.ops.compiled.sharing.TEAM), it records calls; one thread computes all parts then.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._given: list[tuple[Any, ...]] = []
        self._results: deque[Array] = deque()
        self._words = np.concatenate([memory_of(1), np.zeros(_ROOM, np.int64)])

    def use(self) -> None:
        """Let operations say what loops alone have computed, up to the end of this context."""
        _CURRENT.set(self)

    def begin(self, results: int) -> None:
        """Forget the operation before; the next one has so many results."""
        self._given.clear()
        self._results = deque(maxlen=results)
        self._words[RECORD] = _FIRST

    def asked(self, ends: Ends, operands: tuple[Any, ...]) -> Array:
        """Return the memory that receives the call of a loop."""
        self._given.append((ends, *operands))
        return self._words

    def note(self, result: Array) -> None:
        """Add a result that loops alone have computed."""
        self._results.append(result)

    def made(self, results: Iterable[Array | None]) -> bool:
        """Tell whether loops alone have computed the results of the operation, which are these."""
        return {id(y) for y in self._results} == {id(y) for y in results}

    def calls(self) -> list[LoopCall] | None:
        """Return the calls of the operation; None without room for them, or if Python computes one."""
        if self._words[RECORD] > len(self._words):
            return None
        found, place = list[LoopCall](), _FIRST
        for given in self._given:
            if place >= self._words[RECORD]:
                return None
            size, parts, code, _, count, *_ = self._words[place : place + 5].tolist()
            call = self._words[place + 5 : place + size].copy()
            arrays = [operand for operand in given if isinstance(operand, np.ndarray)]
            where = call[: len(call) - count].tolist()
            found.append(LoopCall(parts, code, call[len(where) :], [*zip(where, arrays, strict=True)]))
            place += size
        return found


_CURRENT: ContextVar[Capture | None] = ContextVar("capture", default=None)


def of_loops(result: Array) -> Array:
    """Return a result of an operation, all of which shared loops have computed of its operands and constants.

    Whatever their values are, their calls are the same: they read operands, constants, and memory that
    empty() and scratch() gave since the operation began. Nothing but loops has written to these.
    """
    capture = _CURRENT.get()
    if capture is not None:
        capture.note(result)
    return result
