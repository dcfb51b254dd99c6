"""Products of computed matrices by the loop of real products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn import Model
from gpunn.ops import OPS, compiled
from gpunn.ops.contraction import matrix_loop
from gpunn.types import Array, float32
from tests.ops.compiled.plain import OF_TILES, REALS
from tests.ops.harness import random

CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 15, 7), (2, 7, 16), {}),
    ((13, 20), (20, 9), {}),  # rows of b that are no whole vectors
    ((2, 3, 14, 16), (2, 3, 31, 16), {"adj_b": True}),
    ((3, 13, 37), (3, 11, 37), {"adj_b": True}),
    ((2, 15, 5), (2, 12, 5), {"adj_b": True}),  # so short that numpy turns them
    ((4, 1, 12, 20), (3, 20, 17), {}),  # which broadcast
    ((12, 20), (2, 5, 33, 20), {"adj_b": True}),
    ((5, 12, 1), (5, 1, 32), {}),
]
NOT: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 2, 30), (2, 30, 16), {}),  # fewer rows than in a tile
    ((2, 15, 30), (2, 30, 5), {}),
    ((2, 20, 15), (2, 20, 16), {"adj_a": True}),
    ((0, 15, 30), (0, 30, 16), {}),
]


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small products have the loop."""
    monkeypatch.setattr(matrix_loop, "LEAST_PRODUCTS", 1)


def product(a: Array, b: Array, attrs: dict[str, Any]) -> Array:
    """Compute a product as in many runs."""
    model = Model("product")
    inputs = [model.input(name, float32(*x.shape)) for name, x in (("a", a), ("b", b))]
    model.output(*model.add("batch_matmul", inputs, attrs))
    compute = model.operations[0].prepared()
    with np.errstate(all="ignore"):  # as runs do: lanes that are not stored have any numbers
        for _ in range(2):  # the second time on memory that has been used
            (found,) = compute([a, b])
    return np.asarray(found)


@pytest.mark.parametrize(("a", "b", "attrs"), [*CASES, *NOT])
def test_errors_are_those_of_one_rounding_for_each_term(
    a: tuple[int, ...], b: tuple[int, ...], attrs: dict[str, Any], found: compiled.Loops
) -> None:
    left, right = random(0, *a), random(1, *b)
    got = product(left, right, attrs)
    meaning, terms = OPS["batch_matmul"].reference, a[-2 if attrs.get("adj_a") else -1]
    expected = meaning(left.astype(np.float64), right.astype(np.float64), **attrs)
    sizes = meaning(np.abs(left).astype(np.float64), np.abs(right).astype(np.float64), **attrs)
    assert got.dtype == np.float32 and got.shape == expected.shape
    assert np.all(np.abs(got - expected) <= terms * 2.0**-24 * sizes)


@pytest.mark.parametrize(("a", "b", "attrs"), [*CASES, *NOT])
def test_few_and_short_rows_stay_with_numpy(
    a: tuple[int, ...], b: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    asked: list[Array] = []

    def products(ends: Array, x: Array, *operands: Any) -> None:
        asked.append(x)
        OF_TILES.products(ends, x, *operands)

    own = REALS._replace(of_tiles=OF_TILES._replace(products=products))
    with compiled.in_use(compiled.Loops(own, None)):
        product(random(0, *a), random(1, *b), attrs)
    assert bool(asked) == ((a, b, attrs) not in NOT)


def test_what_is_undefined_behind_rows_does_not_count(found: compiled.Loops) -> None:
    undefined = np.full((1, 12, 20), np.nan, np.float32)
    product(undefined, np.full((1, 20, 17), np.inf, np.float32), {})
    a, b = random(0, 1, 12, 20), random(1, 1, 20, 17)
    np.testing.assert_allclose(product(a, b, {}), a @ b, rtol=1e-4, atol=1e-5)
