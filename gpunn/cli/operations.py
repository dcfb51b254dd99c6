"""The common columns of tables of operations: names, results, places in the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LEAST_NAME = 16  # columns of the terminal to which names of operations and kernels may be shortened
LEAST_PLACE = 18  # the same of places in the file
_FIRST_WORD = re.compile(r"\w+ ?")


@dataclass(frozen=True, slots=True)
class Cells:
    """The heading and the cells of a column."""

    heading: str
    cells: tuple[str, ...]


Named = tuple[str, str | None]  # an operation, and its fused activation


def called(
    op: str, activation: str | None, appended: Iterable[Named] = (), prepended: Iterable[Named] = ()
) -> str:
    """Return the names of operations that run as one, in their order, with their fused activations."""
    names = (name for pair in (*prepended, (op, activation), *appended) for name in pair if name)
    return " + ".join(names)


def places(origins: Sequence[str], model: str) -> Cells:
    """Return where the file has each operation. A first word that all agree on goes to the heading."""
    word, rest = _common([[origin.removeprefix(f"{model}: ")] for origin in origins])
    return Cells(f"{word} in the file".lstrip(), tuple(text for (text,) in rest))


def results(types: Sequence[Sequence[str]]) -> Cells:
    """Return the results of each operation. A dtype that all agree on goes to the heading."""
    dtype, rest = _common(types)
    return Cells(f"{dtype} result".lstrip(), tuple(" ".join(texts) for texts in rest))


def _common(rows: Sequence[Sequence[str]]) -> tuple[str, Sequence[Sequence[str]]]:
    """Take away the first word of all texts if it is the same; there must be several."""
    texts = [text for row in rows for text in row]
    words = {found[0] if (found := _FIRST_WORD.match(text)) else "" for text in texts}
    if len(words) != 1 or len(texts) < 2:
        return "", rows
    (word,) = words
    return word.strip(), [[text[len(word) :] for text in row] for row in rows]
