"""Combinations of what varies in a test, so few that only each two values meet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def pairwise(*values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return combinations of one of each of the values, in which each two of different ones meet.

    Always the next one is that with the most pairs which have not met.
    """
    found, met = [], set[Any]()
    left = {
        numbers: {*combinations(enumerate(numbers), 2)}
        for numbers in product(*(range(len(v)) for v in values))
    }
    while left:
        numbers = max(left, key=lambda each: len(left[each] - met))
        pairs = left.pop(numbers)
        if pairs <= met:
            break
        met |= pairs
        found.append(tuple(v[n] for v, n in zip(values, numbers, strict=True)))
    return found
