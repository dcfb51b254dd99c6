"""Teams of threads that share loops: the threads themselves.

Between rounds, the threads that help look for the next one for PATIENCE, outside of Python. Then they sleep
until a loop has parts for them. They belong to the process: programs with as many threads have one team, and
a program that finds it at work computes alone meanwhile.
"""

from __future__ import annotations

import _thread
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gpunn.backends import fork
from gpunn.backends.processors import usable_processors
from gpunn.ops.compiled import maker
from gpunn.ops.compiled.team_code import (
    ALONE,
    ASLEEP,
    LINE,
    MOST_LOOKS,
    PLACES,
    ROUND,
    SLEEPING,
    memory_of,
)
from gpunn.types import Array

LATE = 2e-3  # seconds that the thread that asks waits for the others; parts take a tenth of it
LONGEST_ALONE = 50e-3  # seconds after that, if it has not been as many rounds as team_code says
PATIENCE = 200e-6  # seconds that a thread looks for a round, which is more than most operations between two
_LOOKS = 1000  # that are timed


class Team:
    """So many threads, one of which is the thread that asks."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._serve = maker().serve
        self._looks = _looks(self._serve)
        self._begin()
        fork.in_child(self, Team._begin)

    def _begin(self) -> None:
        self._words = memory_of(self.threads)
        self._words[MOST_LOOKS] = int(self._looks * LATE / PATIENCE)
        self._alone = 0, 0.0  # the last round that was shared, and since when the thread that asks is alone
        self._bells: dict[int, _thread.LockType] = {}  # by place; a thread sleeps while its one is locked

    def asked(self, ends: Array, operands: tuple[Any, ...]) -> Array:
        """Return the memory of the team, after waking the threads for the parts of a loop."""
        return self.woken(len(ends) - 1)

    def woken(self, parts: int) -> Array:
        """Return the memory of the team, after waking the threads for so many parts.

        An interrupt finds each thread asleep, or rung for: the next one to ask does the rest.
        """
        words = self._words
        if words[ALONE]:
            self._end_alone(words)
        if parts > 1 and words[SLEEPING] and not words[ALONE]:
            for place in range(1, min(parts, self.threads)):
                if words[PLACES + place * LINE + ASLEEP]:
                    self._wake(place)
        return words

    def _end_alone(self, words: Array) -> None:
        """Let threads help again after LONGEST_ALONE, as rounds of large networks take milliseconds."""
        (last, since), now = self._alone, time.perf_counter()
        if words[ROUND] != last:
            self._alone = int(words[ROUND]), now
        elif now - since > LONGEST_ALONE:
            words[ALONE] = 0

    def _wake(self, place: int) -> None:
        bell = self._bells.get(place)
        if bell is None:
            bell = _thread.allocate_lock()
            _thread.start_new_thread(_help, (bell, self._serve, self._words, place, self._looks))
            self._bells[place] = bell
        elif bell.locked():
            with suppress(RuntimeError):  # another thread has been here in between
                bell.release()


def _help(bell: _thread.LockType, serve: Callable[..., None], *operands: Any) -> None:
    while True:
        bell.acquire()
        serve(*operands)


def _looks(serve: Callable[[Array, int, int], None]) -> int:
    """Return how often a thread looks for a round within PATIENCE."""
    words = memory_of(2)
    serve(words, 1, 1)
    before = time.perf_counter()
    serve(words, 1, _LOOKS)
    return max(1, int(_LOOKS * PATIENCE / (time.perf_counter() - before)))


_teams: dict[int, Team] = {}


def team_of(threads: int) -> Team | None:
    """Return the team of so many threads, or of as many as there are processors; None for one."""
    count = min(threads, usable_processors())
    if count < 2:
        return None
    return _teams.get(count) or _teams.setdefault(count, Team(count))
