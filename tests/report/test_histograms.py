"""The worst layers and the histograms of their errors."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from gpunn.comparison import Comparison
from gpunn.comparison.metrics import Tally
from gpunn.report.histograms import CARDS, ZERO, worst_layers
from gpunn.types import Array
from tests.report.conftest import WRONG, spoil, times


def test_first_over_its_tolerance_comes_first(wrong: Comparison) -> None:
    layers = list(wrong.layers)
    later = layers[WRONG + 2].sides[0]
    assert later.accumulated is not None
    worse = replace(later, accumulated=times(900, later.accumulated))
    layers[WRONG + 2] = replace(layers[WRONG + 2], sides=(worse, *layers[WRONG + 2].sides[1:]))
    cards = worst_layers(replace(wrong, layers=tuple(layers)))
    assert len(cards) == CARDS
    assert [(c.position, c.first) for c in cards[:3]] == [
        (WRONG, True),
        (WRONG + 2, False),
        (WRONG + 1, False),
    ]
    assert {card.side.backend for card in cards} == {"cpu"}
    assert [h.mode for h in cards[0].histograms] == ["isolated", "accumulated"]
    assert "50x the tolerance" in cards[0].histograms[0].text
    assert not cards[0].histograms[0].ok


def test_equal_results_have_no_histograms(found: Comparison) -> None:
    layers = spoil(found.layers, functools.partial(times, 0))
    equal = [
        replace(layer, sides=tuple(replace(s, isolated=None, accumulated=None) for s in layer.sides))
        for layer in layers
    ]
    assert worst_layers(replace(found, layers=tuple(equal))) == []


def test_bars_by_hand(found: Comparison) -> None:
    """999 zeros, 9 errors of 2e-3 and one of 0.5, tolerance 0.1."""
    tally = Tally()
    error: Array = np.zeros(1009)
    error[:9], error[9] = 2e-3, 0.5
    tally.add(error * 0, error)
    layer = found.layers[0]
    old = layer.sides[0].isolated
    assert old is not None
    check = replace(old, metrics=tally.metrics(), tolerance=0.1, ratio=5.0)
    side = replace(layer.sides[0], isolated=check, accumulated=None)
    (card,) = worst_layers(replace(found, layers=(replace(layer, sides=(side,)),)))
    (drawn,) = card.histograms
    zeros, small, large = drawn.bars
    assert (zeros.x, zeros.height) == (0, 100)
    assert zeros.text == "no error: 999 of 1009"
    assert small.text == "0.001 to 0.0032: 9 of 1009"
    assert small.height == pytest.approx(100 / 3)  # log(1 + 9) of log(1 + 999)
    assert large.text == "0.32 to 1: 1 of 1009"
    # 10^-3, 10^-2.5 ... 10^-0.5 are six bins; at least eight are shown, so one more at each side
    width = (100 - ZERO) / 8
    assert small.x == pytest.approx(ZERO + width)
    assert large.x == pytest.approx(ZERO + 6 * width)
    assert drawn.tolerance == pytest.approx(ZERO + 5 * width)  # at 10^-1
    assert dict((text, x) for x, text in drawn.labels)["10⁻¹"] == pytest.approx(drawn.tolerance)
    assert "999 are equal" in drawn.description
