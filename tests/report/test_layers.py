"""The plot of the layers' errors."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gpunn.comparison import Comparison
from gpunn.report.axis import EDGE
from gpunn.report.layers import HEIGHT, WIDTH, first_over, panels
from tests.report.conftest import WRONG, not_finite, spoil


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"M(\S+) (\S+?)h", path)]


def test_every_layer_is_drawn_in_both_modes(found: Comparison) -> None:
    count = len(found.layers)
    first, second = panels(found)
    assert (first.backend, second.backend) == ("cpu", "other")
    for view in first.views:
        assert [series.mode for series in view.series] == ["isolated", "accumulated"]
        for series in view.series:
            places = points(series.points)
            assert [x for x, _ in places] == pytest.approx(
                [(k + 0.5) * WIDTH / count for k in range(count)], 1e-3
            )
            assert all(0 < y < HEIGHT for _, y in places)
            assert series.over == "" and view.marker is None
    for column, layer in zip(first.columns, found.layers, strict=True):
        assert column.text.startswith(f"{layer.index} {layer.called}\n{layer.name}\nisolated: ")
    assert first.columns[-1].x + first.columns[-1].width == pytest.approx(100)


def test_heights_follow_the_ratios(found: Comparison) -> None:
    view = panels(found)[0].views[0]
    assert view.unit == "tolerances" and view.limit is not None
    heights = [y for _, y in points(view.series[0].points)]
    checks = [layer.sides[0].isolated for layer in found.layers]
    ratios = [check.ratio for check in checks if check is not None]
    order = sorted(range(len(ratios)), key=lambda k: -ratios[k])
    assert [heights[k] for k in order] == sorted(heights)
    assert min(heights) > view.limit


def test_first_over_its_tolerance_is_marked(wrong: Comparison) -> None:
    assert first_over(wrong, "cpu") == WRONG
    assert first_over(wrong, "other") is None
    panel, other = panels(wrong)
    for view in panel.views:
        assert view.marker is not None
        assert view.marker.x == pytest.approx(100 * (WRONG + 0.5) / len(wrong.layers))
        assert len(points(view.series[0].over)) == 1
        assert len(points(view.series[1].over)) == len(wrong.layers) - WRONG
    view = panel.views[0]
    assert view.marker is not None and view.limit is not None and view.marker.y < view.limit
    assert other.views[0].marker is None
    assert other.views[0].limit == view.limit  # one axis for all
    assert f"the first over its tolerance is layer {WRONG}, " in panel.description


def test_drift_alone_is_marked_too(wrong: Comparison) -> None:
    """No layer is wrong by itself."""
    layers = [
        replace(new, sides=(replace(new.sides[0], isolated=old.sides[1].isolated), *new.sides[1:]))
        for new, old in zip(wrong.layers, wrong.layers, strict=True)
    ]
    assert first_over(replace(wrong, layers=tuple(layers)), "cpu") == WRONG


def test_infinite_errors_are_at_the_top(found: Comparison) -> None:
    view = panels(replace(found, layers=spoil(found.layers, not_finite)))[0].views[1]
    assert view.infinity == EDGE
    assert points(view.series[0].over)[0][1] == EDGE
    text = panels(replace(found, layers=spoil(found.layers, not_finite)))[0].columns[WRONG].text
    assert "isolated: 1 NaN, 0 infinite" in text


def test_layers_that_were_not_compared_leave_gaps(found: Comparison) -> None:
    first = found.layers[0]
    gap = replace(first, sides=tuple(replace(s, isolated=None, accumulated=None) for s in first.sides))
    panel = panels(replace(found, layers=(gap, *found.layers[1:])))[0]
    assert len(points(panel.views[0].series[0].points)) == len(found.layers) - 1
    assert "isolated: not compared" in panel.columns[0].text


def test_without_layers_there_is_no_plot(found: Comparison) -> None:
    assert panels(replace(found, layers=())) == []


@pytest.mark.parametrize(("count", "numbers"), [(7, 7), (30, 6), (100, 10), (1000, 10), (1001, 6)])
def test_numbers_below_the_plot(found: Comparison, count: int, numbers: int) -> None:
    layers = tuple(replace(found.layers[0], index=index) for index in range(count))
    shown = panels(replace(found, layers=layers))[0].numbers
    assert len(shown) == numbers
    assert shown[0] == (pytest.approx(50 / count), 0)
