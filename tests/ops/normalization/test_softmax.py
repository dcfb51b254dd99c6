"""softmax and log_softmax of real numbers."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.types import Array
from tests.ops.harness import check, check_litert, model_of, random


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((3,), 0),
        ((2, 5), -1),
        ((3, 64), 1),
        ((3, 65), -1),
        ((5, 1001), -1),
        ((2, 3, 4, 7), 3),
        ((2, 3, 4, 7), 1),
        ((2, 70, 3), 1),
        ((70, 2), 0),
        ((130, 1), 1),
        ((2, 2, 2, 2, 3), -2),
        ((0, 4), 1),
        ((4, 0), 1),
    ],
)
def test_shapes_and_axes(shape: tuple[int, ...], axis: int, backend: str) -> None:
    check("softmax", [random(0, *shape)], {"axis": axis}, backend=backend)


@pytest.mark.parametrize("beta", [0.25, 1.0, 3.5])
def test_beta(beta: float, backend: str) -> None:
    for length in (10, 100):
        check("softmax", [random(1, 4, length)], {"beta": beta}, backend=backend)


def large_values(rows: int, length: int, most: float) -> Array:
    """Draw rows up to 1000; the first four have much larger numbers, up to `most`, and infinities."""
    x = random(2, rows, length, low=-1000, high=1000)
    x[0] += 1e30
    x[1, :4] = (most, -most, most, 0)
    x[2, 1::2] = -np.inf
    x[3] = -3e38
    return x


@pytest.mark.parametrize("length", [9, 300])
def test_large_values(length: int, backend: str) -> None:
    x = large_values(6, length, 3e38)
    check("softmax", [x], backend=backend)


@pytest.mark.parametrize("length", [9, 300])
def test_nan_and_infinities_fill_their_row(length: int, backend: str) -> None:
    x = random(3, 4, length)
    x[0, 5], x[1, 2], x[2] = np.nan, np.inf, -np.inf
    (y,) = check("softmax", [x], backend=backend)
    assert np.isnan(y[:3]).all()
    assert np.isfinite(y[3]).all()


def test_more_rows_than_fit_one_dimension_of_the_grid(backend: str) -> None:
    check("softmax", [random(4, 66_000, 65)], backend=backend)


def test_agrees_with_litert() -> None:
    for beta in (1.0, 0.5):
        for shape in ((3, 7), (2, 3, 4, 5)):
            check_litert("softmax", [random(0, *shape)], {"beta": beta}, "SOFTMAX", {"beta": beta})


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"beta": 0.0}, "softmax: beta must be a positive number, got 0.0"),
        ({"beta": float("nan")}, "softmax: beta must be a positive number, got nan"),
        ({"axis": 2}, "softmax: axis 2 is out of range for rank 2"),
        ({"axis": 1.0}, "softmax: axis must be an integer, got 1.0"),
    ],
)
def test_errors(attrs: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        model_of("softmax", [random(0, 2, 3)], attrs)


@pytest.mark.parametrize("length", [1, 2, 21, 197, 9000])
@pytest.mark.parametrize("beta", [1.0, 0.3, 4.0])
@pytest.mark.parametrize(("low", "high"), [(-9, 9), (-60, 60), (-300, 300), (-3e38, 3e38), (-200, -100)])
def test_many_rows_of_any_size(length: int, beta: float, low: float, high: float) -> None:
    """Blocks of rows whose maxima are subtracted, or not."""
    x = random(0, 33, length, low=low, high=high)
    for masked, value in ((x[:3], -np.inf), (x[3:5], np.nan), (x[5:6], np.inf), (x[6:9, 1:], -1e9)):
        check("softmax", [x], {"beta": beta}, backend="cpu")
        masked[...] = value
    check("softmax", [x], {"beta": beta}, backend="cpu")


@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("off", [-88, -95, -100, -np.inf])
def test_masks_leave_no_subnormal_numbers(off: float, axis: int, rows: int) -> None:
    """A CPU takes up to a hundred times as long for a product with one."""
    x = random(0, rows, 49, low=-1, high=1)
    x[:, ::3] += np.float32(off)
    (y,) = check("softmax", [x], {"axis": axis}, backend="cpu")
    assert not ((y > 0) & (y < np.finfo(np.float32).tiny)).any()
    assert axis == 0 or (y[:, ::3] == 0).all()


def test_rows_far_below_others_count_as_much() -> None:
    x = random(0, 64, 500) + np.linspace(-110, 60, 64, dtype=np.float32)[:, None]
    (y,) = check("softmax", [x], backend="cpu")
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-5)


def test_log_softmax(backend: str) -> None:
    for shape, axis in (
        ((3,), 0),
        ((3, 65), -1),
        ((2, 3, 4, 7), 1),
        ((5, 1001), 1),
        ((0, 4), 1),
        ((4, 0), 1),
    ):
        check("log_softmax", [random(0, *shape)], {"axis": axis}, backend=backend)


@pytest.mark.parametrize("length", [9, 300])
def test_log_softmax_of_large_values_and_nan(length: int, backend: str) -> None:
    x = large_values(7, length, 1e38)
    x[4, 5], x[5, 2], x[6] = np.nan, np.inf, -np.inf
    (y,) = check("log_softmax", [x], backend=backend)
    assert np.isnan(y[4:]).all()
    assert (y[2, 1::2] == -np.inf).all()


@pytest.mark.parametrize("length", [1, 2, 10, 300])
@pytest.mark.parametrize("offset", [-200, -14, 0, 14, 200])
def test_log_softmax_of_many_rows(length: int, offset: float) -> None:
    """Blocks of rows whose maxima are subtracted, or not; logarithms beside 0 and far from it."""
    x = random(0, 33, length, low=-3, high=3) + np.float32(offset)
    x[5:7, 0] += 12  # which is nearly all of the sum
    for masked, value in ((x[6:9, 1:], -1e9), (x[:3], -np.inf), (x[3:5], np.nan), (x[5:6], np.inf)):
        check("log_softmax", [x], backend="cpu")
        masked[...] = value
    check("log_softmax", [x], backend="cpu")


def test_log_softmax_agrees_with_litert() -> None:
    for shape in ((3, 7), (2, 3, 4, 5)):
        check_litert("log_softmax", [random(0, *shape)], {}, "LOG_SOFTMAX", {})


def test_rank_and_dtype() -> None:
    with pytest.raises(ModelError, match="softmax: axis -1 is out of range for rank 0"):
        model_of("softmax", [random(0)], {})
    with pytest.raises(ModelError, match="softmax: input 0 must be float32 or float16, got int32"):
        model_of("softmax", [np.zeros(3, np.int32)], {})
