"""Layer and L2 normalisation of rows by a compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn import Model
from gpunn.graph.tolerance import bounds
from gpunn.ops import OPS, compiled
from gpunn.types import Array, float32
from tests.ops.compiled.plain import REALS

Case = tuple[str, tuple[int, ...], dict[str, Any]]
CASES: list[Case] = [
    (op, shape, attrs)
    for shape in [(1,), (3, 1), (2, 12), (1, 16), (9, 17), (2, 3, 40), (1, 1001)]
    for op, attrs in [
        ("layer_normalization", {"epsilon": 1e-5}),
        ("layer_normalization", {"epsilon": 0.1, "centred": False}),
        ("l2_normalization", {}),
    ]
]
PIXELS: Case = ("layer_normalization", (3, 4, 7), {"epsilon": 1e-3, "axes": (1, 2)})
OTHERS: list[Case] = [
    ("layer_normalization", (3, 4, 7), {"epsilon": 1e-3, "axes": (0, 2)}),
    ("layer_normalization", (3, 4, 7), {"epsilon": 1e-3, "axes": (1,)}),
]


def normalization(case: Case) -> tuple[Model, Callable[[Array], Array]]:
    op, shape, attrs = case
    model = Model(op)
    model.output(*model.add(op, [model.input("x", float32(*shape))], attrs))
    compute = model.operations[0].direct()
    assert compute is not None

    def run(x: Array) -> Array:
        with np.errstate(all="ignore"):  # as in a run
            return np.asarray(compute(x))

    return model, run


@pytest.mark.parametrize("case", [*CASES, PIXELS], ids=str)
def test_errors_are_within_the_bounds_of_the_op(case: Case, found: compiled.Loops) -> None:
    op, shape, attrs = case
    x = np.random.default_rng(0).normal(3, 5, shape).astype(np.float32)
    model, run = normalization(case)
    exact = OPS[op].reference(x.astype(np.float64), **attrs)
    (bound,) = bounds(model.operations[0], [x.astype(np.float64)], (exact,))
    assert np.all(np.abs(run(x) - exact) <= bound.limit)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e25, 1e-30, 0.0])
@pytest.mark.parametrize("length", [5, 20])
@pytest.mark.parametrize("op", ["layer_normalization", "l2_normalization"])
def test_rows_of_any_numbers_are_as_without_the_loop(
    op: str, length: int, value: float, found: compiled.Loops
) -> None:
    attrs = {"epsilon": 1e-3} if op == "layer_normalization" else {}
    x = np.random.default_rng(0).normal(0, 1, (3, length)).astype(np.float32)
    x[0], x[1, 2] = 0, value
    _, run = normalization((op, x.shape, attrs))
    got = run(x)
    with compiled.in_use(None):
        np.testing.assert_allclose(got, run(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", [*CASES, PIXELS, *OTHERS], ids=str)
def test_rows_of_neighbours_have_the_loop(case: Case) -> None:
    asked: list[Array] = []

    def counted(x: Array, *operands: Any) -> None:
        asked.append(x)
        REALS.row_norms(x, *operands)

    with compiled.in_use(compiled.Loops(REALS._replace(row_norms=counted), None)):
        _, run = normalization(case)
        run(np.ones(case[1], np.float32))
    assert bool(asked) == (case not in OTHERS)
