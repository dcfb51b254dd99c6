"""Photos and answers."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import replace

import pytest
from PIL import Image

from gpunn.comparison import Comparison
from gpunn.comparison.result import Answer
from gpunn.report.answers import CARDS, cards
from gpunn.vision import Guess


def answer(name: str, truth: str | None = None, photo: str = "", **sides: Mapping[str, float]) -> Answer:
    """Return an answer; sides have their scores by class, the best first."""
    labels = sorted({label for scores in sides.values() for label in scores})
    guesses = {
        s: tuple(Guess(labels.index(k), k, x) for k, x in scores.items()) for s, scores in sides.items()
    }
    return Answer(name, photo, truth, guesses)


def test_different_and_wrong_answers_come_first(found: Comparison) -> None:
    cat, dog = {"cat": 0.9, "dog": 0.1}, {"dog": 0.8, "cat": 0.2}
    given = (
        answer("right", "cat", a=cat, b=cat),
        answer("wrong", "dog", a=cat, b=cat),
        answer("differ", "cat", a=cat, b=dog),
    )
    shown = cards(replace(found, answers=given * CARDS))
    assert len(shown) == CARDS
    assert {card.name for card in shown} == {"differ"}
    assert [card.name for card in cards(replace(found, answers=given))] == ["differ", "wrong", "right"]
    assert [(c.unanimous, c.right) for c in cards(replace(found, answers=given))] == [
        (False, False),
        (True, False),
        (True, True),
    ]


def test_bars_of_probabilities(found: Comparison) -> None:
    given = answer("x", "dog", a={"cat": 0.75, "dog": 0.25}, b={"bird": 0.5, "cat": 0.45})
    (card,) = cards(replace(found, answers=(given,)))
    rows = {row.label: [(s.side, s.share, s.text) for s in row.scores] for row in card.rows}
    assert rows == {
        "cat": [("a", 75, "75.0%"), ("b", 45, "45.0%")],
        "bird": [("a", None, "-"), ("b", 50, "50.0%")],
        "dog": [("a", 25, "25.0%"), ("b", None, "-")],
    }
    assert [row.label for row in card.rows if row.true] == ["dog"]
    assert card.spread == "scores at most 0.3 apart"


def test_bars_of_other_scores_begin_at_zero_or_below(found: Comparison) -> None:
    given = answer("x", a={"cat": 6.0, "dog": -2.0})
    (card,) = cards(replace(found, answers=(given,)))
    assert [(row.scores[0].share, row.scores[0].text) for row in card.rows] == [(100, "6"), (0, "-2")]
    assert card.spread == "scores are equal"
    (card,) = cards(replace(found, answers=(answer("x", a={"cat": 0.0}),)))
    assert card.rows[0].scores[0].share == 0


def test_photos_are_embedded(found: Comparison) -> None:
    by_name = {card.name: card for card in cards(found)}
    for name, format, size in (("cat_1.png", "PNG", (40, 24)), ("horse_1.jpg", "JPEG", (192, 128))):
        photo = by_name[name].photo
        assert photo is not None
        kind, _, text = photo.data.partition(";base64,")
        assert kind == f"data:image/{format.lower()}"
        picture = Image.open(io.BytesIO(base64.b64decode(text)))
        assert (picture.format, picture.size, (photo.width, photo.height)) == (format, size, size)


@pytest.mark.parametrize("photo", ["", "gone.png", __file__])
def test_other_files_are_left_out(found: Comparison, photo: str) -> None:
    (card,) = cards(replace(found, answers=(answer("x", photo=photo, a={"cat": 1.0}),)))
    assert card.photo is None
