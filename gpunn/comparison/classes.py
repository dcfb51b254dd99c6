"""Classifiers: agreement of the best classes; accuracy and its confidence intervals if the truth is known."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gpunn.errors import FormatError
from gpunn.types import Array

TOP = 5
Z95 = 1.959963984540054  # of a standard normal variable, 95 % lies within this distance from 0


@dataclass(frozen=True, slots=True)
class Share:
    """`hits` of `count`, and the 95 % confidence interval of the underlying probability."""

    hits: int
    count: int
    value: float
    low: float
    high: float


def share(hits: int, count: int) -> Share:
    """Make a Share with Wilson's score interval; for a count of 0 the interval is 0 to 1.

    With p = hits / n and z = 1.96: (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n). The
    interval contains the probabilities that a test of this level does not reject. Unlike p +- z sqrt(p (1 -
    p) / n), it stays within 0 to 1 and has a width at p = 0 and p = 1 (Wilson 1927, J. Am. Stat. Assoc. 22,
    209).
    """
    if count == 0:
        return Share(0, 0, 0.0, 0.0, 1.0)
    p, square = hits / count, Z95**2
    centre = p + square / (2 * count)
    half = Z95 * math.sqrt(p * (1 - p) / count + square / (4 * count**2))
    scale = 1 + square / count
    low, high = (centre - half) / scale, (centre + half) / scale
    return Share(hits, count, p, 0.0 if hits == 0 else low, 1.0 if hits == count else high)


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of two classifiers on `count` inputs.

    top1: share of inputs with the same best class. top_k: mean share of the best k classes that both have, in
    any order, with k = min(5, classes). For equal scores the lower class number comes first.
    """

    count: int
    k: int
    top1: float
    top_k: float


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The accuracy of a backend: how often the true class is its best class, or one of its best k = min(5,
    classes).
    """

    backend: str
    k: int
    top1: Share
    top_k: Share


def best_classes(scores: Array, k: int = TOP) -> Array:
    """Return the numbers of the best min(k, classes) classes of each row of [rows, classes], best first."""
    found: Array = np.argsort(-scores.astype(np.float64), axis=-1, kind="stable")[..., :k]
    return found


@dataclass(slots=True)
class AgreementTally:
    """A counter of agreement, row by row."""

    count: int = 0
    k: int = 0
    same: int = 0
    common: float = 0.0

    def add(self, reference: Array, candidate: Array) -> None:
        """Count rows of best classes, as best_classes() gives them."""
        self.count += len(reference)
        self.k = reference.shape[-1]
        for a, b in zip(reference.tolist(), candidate.tolist(), strict=True):
            self.same += a[0] == b[0]
            self.common += len(set(a) & set(b)) / self.k

    def agreement(self) -> Agreement | None:
        """Return the shares; None if nothing was counted."""
        if not self.count:
            return None
        return Agreement(self.count, self.k, self.same / self.count, self.common / self.count)


@dataclass(slots=True)
class AccuracyTally:
    """A counter of the hits of one backend."""

    count: int = 0
    k: int = 0
    hits: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, best: Array, truth: Sequence[int]) -> None:
        """Count rows of best classes against the true ones."""
        self.k = best.shape[-1]
        for row, true in zip(best.tolist(), truth, strict=True):
            self.count += 1
            self.hits[0] += row[0] == true
            self.hits[1] += true in row

    def accuracy(self, backend: str) -> Accuracy:
        """Return the shares with their intervals."""
        top1, top_k = (share(hits, self.count) for hits in self.hits)
        return Accuracy(backend, self.k, top1, top_k)


def true_class(path: Path, labels: Sequence[str], classes: int) -> int:
    """Return the class number that a picture's folder or file name states.

    The folder's name may be a label, as in cat/0001.png, or the file name may begin or end with a label, as
    in cat_0001.png and photo_0001_cat.png. Case does not matter, and `_`, `-` and blanks are equal. If no
    label fits, a number at the end after a `_` is the class number (t10k_00013_7.png), or else the folder's
    name. Raises FormatError if neither states a class.
    """
    numbers = {_normal(label): number for number, label in reversed(list(enumerate(labels)))}
    folder, stem = _normal(path.parent.name), _normal(path.stem)
    words = stem.split()
    cuts = range(len(words), 0, -1)
    names = [folder, *(" ".join(words[:n]) for n in cuts), *(" ".join(words[-n:]) for n in cuts)]
    for name in names:
        if name in numbers:
            return numbers[name]
    for name in (path.stem.rpartition("_")[2], path.parent.name):
        if re.fullmatch("[0-9]{1,6}", name) and int(name) < classes:
            return int(name)
    known = ", ".join(labels[:3]) + (", ..." if len(labels) > 3 else "")
    raise FormatError(f"{path}: neither its folder nor its name states one of the classes ({known})")


def _normal(name: str) -> str:
    return " ".join(re.split(r"[\s_-]+", name.strip().casefold()))
