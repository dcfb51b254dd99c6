"""The photos of a report, with the answers of every side."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from gpunn import vision
from gpunn.comparison.result import Answer, Comparison
from gpunn.errors import FormatError
from gpunn.vision import Guess

CARDS = 24  # photos in a report
CLASSES = 3  # of each side's best
THUMBNAIL = 192  # pixels, the longer side
EXACT_SIZE = 64  # pixels up to which a photo goes in as it is, without loss


@dataclass(frozen=True, slots=True)
class Score:
    """A side's score of a class. share: in percent of the bar's full length; None: not among the side's best
    classes.
    """

    side: str
    number: int
    share: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """A class with every side's score. true: whether the photo is known to show this class."""

    label: str
    true: bool
    scores: Sequence[Score]


@dataclass(frozen=True, slots=True)
class Photo:
    """A picture inside the page."""

    data: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Card:
    """One input.

    unanimous: whether all sides have the same best class; right: whether the best class of every side is the
    true one. spread: the largest difference between the scores of one class, over the classes that all sides
    have among their best.
    """

    name: str
    photo: Photo | None
    truth: str | None
    unanimous: bool
    right: bool | None
    rows: Sequence[Row]
    spread: str


def cards(found: Comparison) -> list[Card]:
    """Choose at most CARDS inputs: first those on which sides differ, then those with a wrong class, then
    others.
    """
    ordered = sorted(found.answers, key=lambda answer: (answer.unanimous, _right(answer) is not False))
    chosen = ordered[:CARDS]
    scores = [guess.score for a in found.answers for guesses in a.guesses.values() for guess in guesses]
    scale = _Scale(min([0.0, *scores]), max([0.0, *scores]), _probabilities(found.answers))
    return [_card(answer, scale) for answer in chosen]


@dataclass(frozen=True, slots=True)
class _Scale:
    """The scores at which bars begin and end; and whether scores are probabilities."""

    low: float
    high: float
    probabilities: bool

    def share(self, score: float) -> float:
        if self.probabilities:
            return 100 * score
        return 100 * (score - self.low) / (self.high - self.low) if self.high > self.low else 0.0

    def text(self, score: float) -> str:
        return f"{score:.1%}" if self.probabilities else f"{score:.4g}"


def _probabilities(answers: Sequence[Answer]) -> bool:
    """Tell whether scores can be probabilities: none is negative, no sum exceeds 1 beyond rounding."""
    sums = [sum(g.score for g in guesses) for a in answers for guesses in a.guesses.values()]
    lowest = min((g.score for a in answers for guesses in a.guesses.values() for g in guesses), default=0.0)
    return lowest >= 0 and all(total <= 1.02 for total in sums)


def _right(answer: Answer) -> bool | None:
    """Tell whether every side's best class is the true one; None if the true class is unknown."""
    if answer.truth is None:
        return None
    return all(guesses[0].label == answer.truth for guesses in answer.guesses.values())


def _card(answer: Answer, scale: _Scale) -> Card:
    shown: dict[int, str] = {}
    for rank in range(CLASSES):
        for guesses in answer.guesses.values():
            shown.update({g.index: g.label for g in guesses[rank : rank + 1]})
    by_side = {side: {g.index: g for g in guesses} for side, guesses in answer.guesses.items()}
    rows = [
        Row(
            label,
            label == answer.truth,
            [_score(side, k, found.get(index), scale) for k, (side, found) in enumerate(by_side.items())],
        )
        for index, label in shown.items()
    ]
    differences = [
        max(scores) - min(scores)
        for index in shown
        if len(scores := [found[index].score for found in by_side.values() if index in found]) == len(by_side)
    ]
    return Card(
        name=answer.name,
        photo=_photo(answer.photo),
        truth=answer.truth,
        unanimous=answer.unanimous,
        right=_right(answer),
        rows=rows,
        spread=_spread(differences),
    )


def _spread(differences: Sequence[float]) -> str:
    if not differences:
        return ""
    return f"scores at most {max(differences):.2g} apart" if any(differences) else "scores are equal"


def _score(side: str, number: int, guess: Guess | None, scale: _Scale) -> Score:
    if guess is None:
        return Score(side, number, None, "-")
    return Score(side, number, scale.share(guess.score), scale.text(guess.score))


def _photo(path: str) -> Photo | None:
    """Make a small copy of a photo; None if the file is not a photo or no longer exists."""
    if not path:
        return None
    try:
        photo = vision.load_photo(Path(path))
    except (FormatError, OSError):
        return None
    exact = max(photo.size) <= EXACT_SIZE
    photo.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    if exact:
        photo.save(buffer, "PNG", optimize=True)
    else:
        photo.save(buffer, "JPEG", quality=80, optimize=True)
    text = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Photo(f"data:image/{'png' if exact else 'jpeg'};base64,{text}", *photo.size)
