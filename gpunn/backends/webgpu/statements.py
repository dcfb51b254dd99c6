"""Statements of generated WGSL with numbers in them, and how a sequence of them becomes loops.

Calls of the same kernel differ in numbers: where operands lie, sizes. Where statements repeat, with a period,
a loop runs one period, and what differs from round to round comes from a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpunn.kernel import Param
from gpunn.types import Array

HOLE = "\0"  # stands for a number in the text of a statement
MAX_PERIOD = 256  # statements
LEAST_SAVED = 8  # statements, of a loop
BARRIER = "synchronise();"  # see calls.synchronisation()

# How a number of a kind is written, and how a word of the table becomes one.
_KINDS: dict[str, tuple[Callable[[int], str], str]] = {
    "u": (lambda bits: f"{bits & 0xFFFFFFFF}u", "u32({})"),
    "i": (str, "{}"),
    "f": (lambda bits: f"bitcast<f32>({bits & 0xFFFFFFFF}u)", "bitcast<f32>({})"),
}


class Number(NamedTuple):
    """A number of 32 bits, as an int32, and its kind: "u", "i" or "f"."""

    bits: int
    kind: str = "u"

    @classmethod
    def of(cls, value: float, kind: str) -> Number:
        """Make a number of a kind."""
        if kind == "f":
            return cls(int(np.float32(value).view(np.int32)), kind)
        return cls(int(np.uint32(value).view(np.int32)) if kind == "u" else int(value), kind)

    def written(self) -> str:
        """Write it as WGSL."""
        return _KINDS[self.kind][0](self.bits)


class Statement(NamedTuple):
    """WGSL with a HOLE for each number.

    `iterations` are those of its loops. `barrier`: what is before it must have been written.
    """

    text: str
    numbers: tuple[Number, ...] = ()
    iterations: int = 0
    barrier: bool = False

    def written(self) -> str:
        """Write it with its numbers."""
        return _filled(self, [n.written() for n in self.numbers])


def unsigned(*values: int) -> tuple[Number, ...]:
    """Make numbers that are u32s."""
    return tuple(Number.of(value, "u") for value in values)


def parameters(values: Iterable[Param], added: str = "") -> tuple[str, tuple[Number, ...]]:
    """Return the text of a list of parameters, and its numbers; `added` is put behind single integers."""
    texts, numbers = [], []
    for value in values:
        assert not isinstance(value, complex)
        parts = value if isinstance(value, tuple) else (value,)
        kind = "i" if len(parts) == 4 else "f" if isinstance(value, float) else "u"
        listed = ", ".join([HOLE] * len(parts))
        if kind == "u" and len(parts) == 1:
            listed += added
        texts.append({1: "{}", 2: "vec2<u32>({})", 4: "vec4<i32>({})"}[len(parts)].format(listed))
        numbers += [Number.of(part, kind) for part in parts]
    return ", ".join(texts), tuple(numbers)


def written(statements: Iterable[Statement]) -> Iterator[str]:
    """Write statements one after the other, with their barriers."""
    for found in statements:
        if found.barrier:
            yield BARRIER
        yield found.written()


@dataclass(frozen=True, slots=True)
class Rounds:
    """Statements that repeat: `period` of them, so many times."""

    statements: tuple[Statement, ...]
    period: int

    @property
    def count(self) -> int:
        """Return the number of rounds."""
        return len(self.statements) // self.period

    @property
    def iterations(self) -> tuple[int, ...]:
        """Return those of loops in each round."""
        counts = [s.iterations for s in self.statements]
        return tuple(sum(counts[k : k + self.period]) for k in range(0, len(counts), self.period))

    def written(self, word: str) -> tuple[list[str], Array]:
        """Write a round, and the words in which rounds differ: an int32 array with a row for each.

        `word` is WGSL for a word of the round's row, with {} for its number.
        """
        columns: list[list[int]] = []
        lines = []
        for k in range(self.period):
            alike = self.statements[k :: self.period]
            found = []
            for numbers in zip(*(s.numbers for s in alike), strict=True):
                bits = [n.bits for n in numbers]
                if len(set(bits)) == 1:
                    found.append(numbers[0].written())
                    continue
                if bits not in columns:
                    columns.append(bits)
                found.append(_KINDS[numbers[0].kind][1].format(word.format(columns.index(bits))))
            lines += [BARRIER] if any(s.barrier for s in alike) else []
            lines.append(_filled(alike[0], found))
        return lines, np.array(columns, np.int32).reshape(len(columns), self.count).T


def rolled(statements: Sequence[Statement]) -> tuple[Rounds, ...]:
    """Divide statements into parts that repeat, so that few have to be written."""
    texts = {text: k for k, text in enumerate(dict.fromkeys(s.text for s in statements))}
    keys = np.array([texts[s.text] for s in statements], np.int32)
    return tuple(Rounds(tuple(statements[begin:end]), period) for begin, end, period in _periods(keys, 0))


def _periods(keys: Array, offset: int) -> Iterator[tuple[int, int, int]]:
    """Yield parts as (begin, end, period), in order; a part that does not repeat is one period."""
    best = (0, 0, len(keys), len(keys))  # what is saved, begin, end, period
    for period in range(1, min(MAX_PERIOD, len(keys) // 2) + 1):
        saved, begin, rounds = _longest(keys, period)
        best = max(best, (saved, begin, begin + rounds * period, period), key=lambda found: found[0])
    saved, begin, end, period = best
    if saved < LEAST_SAVED:
        if len(keys):
            yield offset, offset + len(keys), len(keys)
        return
    yield from _periods(keys[:begin], offset)
    yield offset + begin, offset + end, period
    yield from _periods(keys[end:], offset + end)


def _longest(keys: Array, period: int) -> tuple[int, int, int]:
    """Return how many statements the longest repetition with a period saves, where it begins, its rounds."""
    same = np.concatenate(([False], keys[period:] == keys[:-period], [False]))
    edges = np.flatnonzero(same[1:] != same[:-1]).reshape(-1, 2)
    if not len(edges):
        return 0, 0, 1
    lengths = edges[:, 1] - edges[:, 0]
    k = int(np.argmax(lengths))
    again = int(lengths[k]) // period
    return again * period, int(edges[k, 0]), again + 1


def _filled(template: Statement, numbers: Sequence[str]) -> str:
    first, *rest = template.text.split(HOLE)
    return first + "".join(number + part for number, part in zip(numbers, rest, strict=True))
