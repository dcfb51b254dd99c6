"""Softmax of rows by a compiled loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn import Model
from gpunn.ops import OPS, compiled
from gpunn.types import Array, float32
from tests.ops.compiled.plain import REALS

EPS = 2.0**-23
SHAPES = [(1,), (3, 1), (2, 12), (1, 16), (9, 17), (2, 3, 40), (20, 47), (1, 1001)]


def softmax(x: Array, **attrs: Any) -> Array:
    model = Model("softmax")
    model.output(*model.add("softmax", [model.input("x", float32(*x.shape))], attrs))
    with np.errstate(all="ignore"):  # as in a run
        compute = model.operations[0].direct()
        assert compute is not None
        return np.asarray(compute(x))


@pytest.mark.parametrize(
    "shape", [(1,), (3, 1), (2, 12), (1, 16), (9, 17), (2, 3, 40), (20, 47), (1, 1001)], ids=str
)
@pytest.mark.parametrize("beta", [1.0, 0.25])
def test_errors_are_those_of_the_exponents_and_the_sum(
    shape: tuple[int, ...], beta: float, found: compiled.Loops
) -> None:
    x = np.random.default_rng(0).normal(0, 5, shape).astype(np.float32)
    exact = OPS["softmax"].reference(x.astype(np.float64), beta=beta)
    # A difference and a product round an exponent t by t eps at most, in a term and in the sum; these have
    # 1.5 eps of an exponential each. Each sum adds half an eps, the share and its product as much.
    exponents = beta * np.ptp(x, axis=-1).max()
    assert np.all(np.abs(softmax(x, beta=beta) - exact) <= (2 * exponents + 4 + shape[-1] / 2) * EPS * exact)


@pytest.mark.parametrize("values", [(np.nan,), (np.inf,), (-np.inf,), (-200, 3), (3e38, -3e38), (-1e30,)])
@pytest.mark.parametrize("length", [5, 20])
def test_rows_of_any_numbers_are_as_without_the_loop(
    values: tuple[float, ...], length: int, found: compiled.Loops
) -> None:
    x = np.zeros((2, length), np.float32)
    x[0, 1 : 1 + len(values)] = values
    got = softmax(x)
    with compiled.in_use(None):
        np.testing.assert_allclose(got, softmax(x), rtol=4 * EPS, atol=1e-30)


def test_a_row_of_nothing_but_the_lowest_is_undefined(found: compiled.Loops) -> None:
    got = softmax(np.full((1, 20), -np.inf, np.float32))
    assert np.isnan(got).all()


@pytest.mark.parametrize(
    ("shape", "attrs", "asks"),
    [
        ((4, 5), {}, True),
        ((9, 16), {}, True),
        ((9, 15), {}, False),  # many short rows
        ((4, 5), {"axis": 0}, False),
    ],
)
def test_rows_along_the_last_axis_have_the_loop(
    shape: tuple[int, ...], attrs: dict[str, Any], asks: bool
) -> None:
    asked: list[Array] = []

    def counted(ends: Array, x: Array, beta: Any, out: Array) -> None:
        asked.append(x)
        REALS.softmax(ends, x, beta, out)

    with compiled.in_use(compiled.Loops(REALS._replace(softmax=counted), None)):
        softmax(np.ones(shape, np.float32), **attrs)
    assert bool(asked) == asks
