"""The unsupported parts of a file, in one message that names every operator and stays short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from gpunn.errors import UnsupportedError

MAX_MESSAGE = 4000  # characters
PLACES = 3  # of equal refusals, those that are named
REASONS = 2  # of one operator, those that are given where not all fit


@dataclass(slots=True)
class Refusals:
    """Reasons by operator ("RFFT2D v1") with the places where each holds; `others` have no operator.

    `name` is the file's.
    """

    name: str
    others: dict[str, None] = field(default_factory=dict)
    operators: dict[str, dict[str, dict[str, None]]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.others or self.operators)

    def add(self, reason: str, operator: str = "", place: str = "") -> None:
        """Note a reason once for each place of an operator, or a reason that belongs to no operator."""
        if not operator:
            self.others[reason] = None
            return
        self.operators.setdefault(operator, {}).setdefault(reason, {})[place] = None

    def fail(self) -> NoReturn:
        """Raise UnsupportedError with all that was noted."""
        raise UnsupportedError(self.message())

    def message(self) -> str:
        """Return all of it, equal reasons together; only some of each operator where that is too much."""
        for most in (None, REASONS, 1):
            lines = [*(f"{self.name}: {reason}" for reason in self.others), *self._lines(most)]
            text = "; ".join(lines)
            if len(text) <= MAX_MESSAGE:
                return text
        return self._names()

    def _lines(self, most: int | None) -> Iterable[str]:
        """Yield a line for each operator's reasons, at `most` so many of them."""
        for operator, reasons in self.operators.items():
            for reason, places in list(reasons.items())[:most]:
                first, *rest = places
                yield f"{self.name}: {first}, {operator}: {reason}{_also(rest)}"
            if most is not None and len(reasons) > most:
                yield f"{self.name}: {operator}: {len(reasons) - most} other reasons"

    def _names(self) -> str:
        """Return the first reason, and then operators with how often each stands in the way."""
        counts = {o: sum(map(len, reasons.values())) for o, reasons in self.operators.items()}
        first = next(iter([*(f"{self.name}: {r}" for r in self.others), *self._lines(1)]))[: MAX_MESSAGE // 4]
        return f"{first}; {self.name}: not supported: {_listed(counts, MAX_MESSAGE // 2)}"


def _also(places: Sequence[str]) -> str:
    """Return words for more places."""
    if not places:
        return ""
    named = ", ".join(places[: PLACES - 1])
    more = len(places) - (PLACES - 1)
    return f" (also {named} and {more} more)" if more > 0 else f" (also {named})"


def _listed(counts: Mapping[str, int], length: int) -> str:
    """Return names with their numbers, as many as fit: a file may make up thousands of any length."""
    words: list[str] = []
    left = length
    for name, count in counts.items():
        word = f"{name} ({count})"
        left -= len(word) + 2
        if left < 0:
            words.append(f"and {len(counts) - len(words)} more operators")
            break
        words.append(word)
    return ", ".join(words)
