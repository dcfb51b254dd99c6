"""benchmarks.detectors: its ways to know pictures, on numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.types import Array

pytest.importorskip("skimage", reason="scikit-image is not installed (extra: demo)")

from benchmarks import detectors
from benchmarks.detectors import Distances, Seen


def seen(features: object, logits: object = ((0.0, 0.0),)) -> Seen:
    """Pictures with these features; all have the same logits, also mirrored."""
    rows = np.array(features, float)
    all_logits = np.broadcast_to(np.array(logits, float), (len(rows), 2))
    return Seen(rows, all_logits, all_logits)


def trained() -> tuple[Seen, Array]:
    """Two classes: round (4, 0) and round (0, 4)."""
    classes = np.arange(200) % 2
    middle = np.where(classes[:, np.newaxis] == 0, (4.0, 0.0), (0.0, 4.0))
    return seen(middle + np.random.default_rng(0).normal(0, 0.1, (200, 2))), classes


@pytest.mark.parametrize("way", ["mahalanobis", "relative", "neighbours", "prototypes"])
def test_what_is_near_a_class_is_known_better(way: str) -> None:
    near, between, away = getattr(Distances(*trained()), way)(seen([(4, 0.1), (3, 3), (-4, -4)]))
    assert near > between > away


def test_mahalanobis_counts_in_widths_of_a_class() -> None:
    """The classes are 0.1 wide, so a step of 0.2 from a mean is about two widths, squared."""
    (found,) = Distances(*trained()).mahalanobis(seen([(4.2, 0)]))
    assert found == pytest.approx(-4, rel=0.5)


def test_scores() -> None:
    given = Seen(np.zeros((1, 2)), np.log([[3.0, 1.0]]), np.log([[1.0, 1.0]]))
    assert detectors.energy(given) == pytest.approx([np.log(4)])
    assert detectors.mirror(given) == pytest.approx([(0.75 + 0.5) / 2])


def test_both_is_the_smaller_share_of_known_pictures_below() -> None:
    known = seen([(1, 40), (2, 30), (3, 20), (4, 10)])
    way = detectors.both(lambda s: s.features[:, 0], lambda s: s.features[:, 1], known)
    assert way(seen([(5, 25), (1, 50), (3.5, 35)])).tolist() == [0.5, 0.0, 0.75]
