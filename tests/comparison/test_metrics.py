"""Metrics against numbers worked out by hand, and against numpy for tensors in pieces."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpunn.comparison.metrics import F16_MAX, HISTOGRAM_EDGES, Metrics, Tally, health
from gpunn.types import Array

NAN, INF = math.nan, math.inf


def metrics(*pairs: tuple[list[float], list[float]]) -> Metrics:
    tally = Tally()
    for reference, candidate in pairs:
        tally.add(np.array(reference), np.array(candidate))
    return tally.metrics()


def test_by_hand() -> None:
    found = metrics(([3, 4, 0, 0], [3, 4, 1, -1]))
    assert (found.count, found.different, found.unmatched, found.identical) == (4, 2, 0, False)
    assert (found.max_abs_error, found.mean_abs_error) == (1, 0.5)
    assert found.rmse == pytest.approx(math.sqrt(2 / 4))
    assert found.cosine == pytest.approx(25 / (5 * math.sqrt(27)))
    # r - 1.75 and c - 1.75: squares 12.75 and 14.75, products 12.75
    assert found.pearson == pytest.approx(12.75 / math.sqrt(12.75 * 14.75))
    assert found.snr_db == pytest.approx(10 * math.log10(25 / 2))
    assert found.psnr_db == pytest.approx(10 * math.log10(16 / 0.5))


def test_the_worst_element() -> None:
    tally = Tally()
    one = np.zeros((2, 3))
    tally.add(one, one)
    assert tally.metrics().worst is None
    for place, error in (((1, 2), 3.0), ((0, 1), 2.0)):
        other = one.copy()
        other[place] = error
        tally.add(one, other)
    assert tally.metrics().worst == (1, 2)
    other = np.array([[9, 0, NAN], [NAN, 0, 0]])
    tally.add(one, other)  # what is not finite is worse than any number
    tally.add(one, other[::-1])
    assert tally.metrics().worst == (0, 2)


def test_the_worst_element_beside_equal_infinities() -> None:
    tally = Tally()
    tally.add(np.array([INF, NAN, 1, 1]), np.array([INF, NAN, 1, 2]))
    assert tally.metrics().worst == (3,)


def test_pieces_add_up_to_the_whole() -> None:
    """Compare with numpy's formulas, far from zero, where plain sums of squares lose the correlation."""
    generator = np.random.default_rng(0)
    r = 1e6 + generator.standard_normal(1000)
    c = r + 0.1 * generator.standard_normal(1000)
    tally = Tally()
    for start, end in ((0, 1), (1, 400), (400, 400), (400, 1000)):
        tally.add(r[start:end], c[start:end])
    found = tally.metrics()
    assert found.pearson == pytest.approx(np.corrcoef(r, c)[0, 1], rel=1e-9)
    assert found.rmse == pytest.approx(np.sqrt(np.mean((c - r) ** 2)), rel=1e-12)
    assert found.snr_db == pytest.approx(10 * np.log10(np.sum(r**2) / np.sum((c - r) ** 2)), rel=1e-12)
    assert sum(found.histogram) == 1000


@pytest.mark.parametrize("values", [[1.0, -2.0], [0.0, 0.0], [NAN, INF, -INF, 5.0]])
def test_equal_tensors(values: list[float]) -> None:
    found = metrics((values, values))
    assert found.identical
    assert (found.max_abs_error, found.rmse, found.cosine, found.pearson) == (0, 0, 1, 1)
    assert (found.snr_db, found.psnr_db) == (INF, INF)


def test_signal_of_zeros() -> None:
    found = metrics(([0, 0], [1, 2]))
    assert (found.cosine, found.pearson) == (None, None)
    assert (found.snr_db, found.psnr_db) == (-INF, -INF)


def test_constant_side_has_no_correlation() -> None:
    assert metrics(([2, 2], [1, 3])).pearson is None


def test_values_not_finite_on_one_side_are_counted_and_left_out() -> None:
    found = metrics(([1, NAN, INF, INF, NAN], [1.5, 2, INF, -INF, NAN]))
    assert (found.count, found.different, found.unmatched) == (5, 3, 2)
    assert found.max_abs_error == found.mean_abs_error == found.rmse == 0.5


def test_no_values() -> None:
    found = metrics(([], []))
    assert (found.count, found.identical, found.max_abs_error, found.cosine, found.snr_db) == (
        0,
        True,
        0,
        None,
        None,
    )


def test_histogram() -> None:
    edges = HISTOGRAM_EDGES
    errors = [0, edges[0] / 2, edges[0], edges[5] * 1.5, edges[-1], 1e30]
    found = metrics(([0.0] * len(errors), errors))
    expected = np.zeros(len(edges) + 2, int)
    expected[[0, 1, 2, 7]] = 1
    expected[-1] = 2
    assert list(found.histogram) == expected.tolist()


def test_steps() -> None:
    tally = Tally()
    assert tally.metrics().max_steps is None
    a: Array = np.array([0, 255], np.uint8)
    tally.add_steps(a, a[::-1])
    assert tally.metrics().max_steps == 255


def test_health() -> None:
    found = health(np.array([1, -7, NAN, INF, -INF, F16_MAX, -F16_MAX - 32, 1e30]))
    assert (found.count, found.nan, found.inf, found.max_abs, found.beyond_f16) == (8, 1, 2, 1e30, 2)
    both = found + health(np.array([NAN, 2.0]))
    assert (both.count, both.nan, both.inf, both.max_abs, both.beyond_f16) == (10, 2, 2, 1e30, 2)
    assert health(np.zeros(0)).max_abs == 0
