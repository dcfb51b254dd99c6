"""Agreement, accuracy and their intervals, and classes in names of files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpunn.comparison.classes import AccuracyTally, AgreementTally, best_classes, share, true_class
from gpunn.errors import FormatError

LABELS = ("cat", "dog", "tabby cat")


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [
        # Newcombe 1998, Statistics in Medicine 17, 857, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_interval(hits: int, count: int, low: float, high: float) -> None:
    found = share(hits, count)
    assert found.value == hits / count
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)
    mirrored = share(count - hits, count)
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - high, 1 - low), abs=5e-5)


def test_share_of_no_samples() -> None:
    assert (share(0, 0).low, share(0, 0).high) == (0, 1)


def test_best_classes_take_the_lower_number_of_equals() -> None:
    found = best_classes(np.array([[1, 3, 3, 2, 0, 3], [0, 0, 0, 0, 0, 9]], np.uint8))
    assert found.tolist() == [[1, 2, 5, 3, 0], [5, 0, 1, 2, 3]]
    assert best_classes(np.zeros((1, 3))).tolist() == [[0, 1, 2]]


def test_agreement() -> None:
    tally = AgreementTally()
    assert tally.agreement() is None
    tally.add(np.array([[0, 1, 2, 3, 4]]), np.array([[0, 4, 3, 2, 1]]))
    tally.add(np.array([[0, 1, 2, 3, 4]]), np.array([[1, 0, 2, 8, 9]]))
    found = tally.agreement()
    assert found is not None
    assert (found.count, found.k, found.top1) == (2, 5, 0.5)
    assert found.top_k == pytest.approx((1 + 3 / 5) / 2)


def test_accuracy() -> None:
    tally = AccuracyTally()
    tally.add(np.array([[0, 1], [1, 0], [2, 0]]), [0, 0, 1])
    found = tally.accuracy("cpu")
    assert (found.backend, found.k) == ("cpu", 2)
    assert (found.top1.hits, found.top_k.hits, found.top1.count) == (1, 2, 3)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("photos/cat_0000.png", 0),
        ("Dog/0001.jpg", 1),
        ("photos/0001_dog.jpg", 1),
        ("photos/Tabby-Cat_7.png", 2),
        ("photos/my tabby_cat.png", 2),
        ("photos/t10k_00013_2.png", 2),
        ("1/whatever.png", 1),
        ("dog/cat_1.png", 1),
    ],
)
def test_true_class(name: str, number: int) -> None:
    assert true_class(Path(name), LABELS, 3) == number


@pytest.mark.parametrize("name", ["photos/bird_1x.png", "photos/bird_7.png", "photos/caterpillar.png"])
def test_no_class(name: str) -> None:
    with pytest.raises(
        FormatError, match=r"neither its folder nor its name states .* \(cat, dog, tabby cat\)"
    ):
        true_class(Path(name), LABELS, 3)
