"""Positions of values on a logarithmic axis."""

from __future__ import annotations

import math

import pytest

from gpunn.report.axis import BOTTOM, EDGE, TOP, LogAxis, decade, log_axis


def test_decades_are_equally_far_apart() -> None:
    axis = LogAxis(-4, 0, TOP + BOTTOM + 400)
    assert [axis.y(10.0**k) for k in range(-4, 1)] == pytest.approx([TOP + 100 * k for k in range(4, -1, -1)])
    assert axis.y(math.sqrt(10) * 1e-3) == pytest.approx(TOP + 250)


def test_values_without_a_logarithm_are_set_apart() -> None:
    axis = LogAxis(-4, 0, 400)
    assert axis.y(math.inf) == EDGE < axis.y(1)
    assert axis.y(0) == 400 - EDGE > axis.y(1e-4)
    assert axis.y(1e-9) == axis.y(1e-4)
    assert axis.y(1e9) == axis.y(1)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([2e-7, 0.03], -7, -1),
        ([1.0], 0, 1),
        ([], -1, 0),
        ([0.0, math.inf], -1, 0),
        ([1e-300, 1e20], 4, 20),
    ],
)
def test_extent(values: list[float], low: int, high: int) -> None:
    axis = log_axis(values, 300)
    assert (axis.low, axis.high) == (low, high)


def test_not_every_decade_has_a_label() -> None:
    ticks = LogAxis(-12, 3, 300).ticks()
    assert len(ticks) == 16
    assert [tick.label for tick in ticks if tick.label] == ["10³", "1", "10⁻³", "10⁻⁶", "10⁻⁹", "10⁻¹²"]
    assert decade(-12) == "10⁻¹²"
