"""The division of loops among the threads of a program: a loop has parts, and each thread takes some of them.

No result depends on how a loop is divided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from gpunn.ops.compiled.team_code import memory_of
from gpunn.types import Array

LEAST = 4.0  # microseconds of a part; a round of parts begins and ends in one or two
A_MICROSECOND = 1 << 12  # numbers that most loops over elements compute in one
# The same for those of exponentials, of tables, and of copies of bytes
OF_EXPONENTIALS, OF_TABLES, OF_COPIES = 1 << 11, 1 << 14, 1 << 14
MOST_PARTS = 4  # of each thread, so that others go on with what a disturbed one leaves
LONG = 150.0  # microseconds of a part, of which a loop rather has more

Dtypes = tuple[np.dtype[Any], ...]
Range = tuple[int, int]  # from one thing to the one behind the last
Ends = Array  # [K + 1] of int64: where parts begin and end, among what a loop computes
Loop = Callable[..., None]
Shared = Callable[..., None]  # a loop that gets Ends before its operands


class Team(Protocol):
    """The threads of a program, of which one is the thread that runs it."""

    @property
    def threads(self) -> int:
        """Return how many there are."""

    def asked(self, ends: Ends, operands: tuple[Any, ...]) -> Array:
        """Return the memory of the team, after waking the threads for the parts of a loop."""


TEAM: ContextVar[Team | None] = ContextVar("team", default=None)
ALONE = memory_of(1)  # of a thread that shares loops with no other one


def threads() -> int:
    """Return how many threads share loops."""
    team = TEAM.get()
    return 1 if team is None else team.threads


def divided(count: int, microseconds: float, step: int = 1) -> Ends:
    """Divide so many things among the threads in use, into multiples of a step apart from the last part.

    microseconds: what all take one thread, roughly. One part if that is little.
    """
    team, steps = TEAM.get(), -(-count // step)
    most = min(steps, int(microseconds / LEAST))
    if team is None or team.threads < 2 or most < 2:
        return whole(count)
    each = max(min(MOST_PARTS, most // team.threads), int(microseconds / LONG / team.threads), 1)
    parts = min(most, each * team.threads)
    return np.minimum(steps * np.arange(parts + 1) // parts * step, count)


def of_both(
    first: tuple[int, int], second: tuple[int, int], microseconds: float
) -> tuple[list[Range], list[Range]]:
    """Divide things of two kinds, of which all pairs are computed: the second kind only where parts are long.

    first, second: how many there are, and the step of their parts.
    """
    ends = divided(first[0], microseconds, first[1])
    count, step = second
    pieces = int(microseconds / (len(ends) - 1) / LONG) if len(ends) > 2 else 1
    steps = -(-count // step)
    others = np.minimum(steps * np.arange(pieces + 1) // max(1, pieces) * step, count)
    return _ranges(ends), _ranges(np.unique(others)) if pieces > 1 else [(0, count)]


def _ranges(ends: Ends) -> list[Range]:
    return [*pairwise(ends.tolist())]


def rows_divided(rows: int, numbers: int, step: int = 1, each: int = A_MICROSECOND) -> Ends:
    """Divide rows, which have so many numbers together, among the threads in use, as divided().

    each: numbers that a loop computes in a microsecond.
    """
    return divided(rows, numbers / each, step)


@lru_cache(1 << 10)
def whole(count: int) -> Ends:
    """Return the ends of one part of so many things."""
    return np.array([0, count])


def shared_loop(
    make: Callable[[Dtypes], Loop], by: Sequence[int], codes: dict[Dtypes, Loop], *first: Any
) -> Shared:
    """Return a loop as machine code, whose parts the threads of a team take.

    make: makes code of team_code.share() for the dtypes of operands, whose numbers are those of `by`. codes:
    what has been made, by these dtypes. first: operands that are always the same.
    """

    def compute(ends: Ends, *operands: Any) -> None:
        dtypes = tuple([operands[k].dtype for k in by])
        code = codes.get(dtypes)
        if code is None:
            code = codes[dtypes] = make(dtypes)
        given, team = (*first, *operands) if first else operands, TEAM.get()
        code(ALONE if team is None else team.asked(ends, given), ends, given)

    return compute


def in_python(loop: Loop) -> Loop:
    """Return a plain loop of Python, as if it were machine code of team_code.share()."""

    def share(words: Array, ends: Ends, operands: tuple[Any, ...]) -> None:
        one_by_one(loop)(ends, *operands)

    return share


def one_by_one(loop: Loop, *first: Any) -> Shared:
    """Return a plain loop of Python that computes one part after the other; first: as of shared_loop()."""

    def compute(ends: Ends, *operands: Any) -> None:
        for part in pairwise(ends.tolist()):
            loop(part, *first, *operands)

    return compute
