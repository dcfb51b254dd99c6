"""Bounds of one operation's error: each facet of Accuracy adds its formula to the general bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.comparison.sides import Arithmetic
from gpunn.comparison.tolerance import bounds
from gpunn.graph.exact import evaluate, widen
from gpunn.graph.graph import Graph
from gpunn.graph.tolerance import Bound
from gpunn.ops import OPS
from gpunn.ops.accuracy import ATOL, EPS, GENERAL
from gpunn.types import Array
from tests.ops.harness import type_of

RNG = np.random.default_rng(7)
X = RNG.uniform(0.1, 2, (2, 3, 4, 5)).astype(np.float32)
SHAPES = ((2, 9, 16), (16, 4), (2, 4))
SUMS, WEIGHTS, STATE = (RNG.uniform(-2, 2, shape).astype(np.float32) for shape in SHAPES)


def bound_of(
    op: str,
    inputs: Sequence[Array],
    attrs: Mapping[str, Any] | None = None,
    arithmetic: Arithmetic = Arithmetic.FLOAT32,
) -> tuple[Bound, Array]:
    """Return the bound of an operation's first result, and that result."""
    model = Graph()
    operands = [model.input(f"x{k}", type_of(x)) for k, x in enumerate(inputs)]
    model.add(op, operands, attrs)
    values = {o: widen(x) for o, x in zip(operands, inputs, strict=True)}
    results = evaluate(model.operations[0], values)
    return bounds(model.operations[0], values, results, arithmetic)[0], results[0]


def general_bound(y: Array) -> Array:
    return np.asarray(ATOL + GENERAL * EPS * np.abs(y))


@pytest.mark.parametrize("op", ["exp", "abs"])
def test_every_op_has_the_general_bound(op: str) -> None:
    bound, y = bound_of(op, [X])
    np.testing.assert_allclose(bound.limit, general_bound(y), rtol=1e-12)
    spread = general_bound(y) - (ATOL if OPS[op].accuracy.arithmetic else 0)
    np.testing.assert_allclose(bound.spread, spread, rtol=1e-12)


@pytest.mark.parametrize(("activation", "slope", "absolute"), [("relu", 1, 0), ("logistic", 0.25, ATOL)])
def test_bounds_of_sums_of_products_grow_with_terms_and_slope(
    activation: str, slope: float, absolute: float
) -> None:
    filter = RNG.uniform(-1, 1, (6, 5)).astype(np.float32)
    attrs = {"keep_dims": True, "activation": activation}
    bound, y = bound_of("fully_connected", [X, filter], attrs)
    sizes = slope * EPS * (X.astype(np.float64) @ np.abs(filter.astype(np.float64)).T)
    np.testing.assert_allclose(bound.limit, general_bound(y) + 6 * sizes, rtol=1e-12)
    usual = general_bound(y) - ATOL + absolute + np.sqrt(6) * sizes
    np.testing.assert_allclose(bound.spread, usual, rtol=1e-12)


def test_a_transposed_image_has_the_bounds_of_a_dense_one() -> None:
    attrs, taps = {"stride": (2, 2), "padding": "same"}, RNG.uniform(-2, 2, (1, 3, 3, 5)).astype(np.float32)
    view = np.ascontiguousarray(X.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    found, expected = (bound_of("depthwise_conv2d", [x, taps], attrs)[0] for x in (view, X))
    np.testing.assert_array_equal(found.limit, expected.limit)


@pytest.mark.parametrize(
    ("op", "operands", "attrs"),
    [
        ("reduce_max", 1, {"axes": (1,)}),
        ("minimum", 2, {}),
        ("maximum_n", 3, {}),
        ("clamp", 3, {}),
        ("max_pool2d", 1, {"size": (2, 2)}),
    ],
)
def test_a_selected_element_is_not_rounded(op: str, operands: int, attrs: dict[str, Any]) -> None:
    bound, y = bound_of(op, [X + k for k in range(operands)], attrs)
    assert not bound.spread.any()
    np.testing.assert_allclose(bound.limit, general_bound(y), rtol=1e-12)


def test_the_activation_of_a_selected_element_is_rounded() -> None:
    bound, y = bound_of("max_pool2d", [X], {"size": (2, 2), "activation": "logistic"})
    np.testing.assert_allclose(bound.spread, general_bound(y), rtol=1e-12)


def test_subnormal_results_may_become_zero() -> None:
    x = np.array([2.0**-70, 2.0**-60, 0], np.float32)
    bound, y = bound_of("mul", [x, x])
    assert y.tolist() == [2.0**-140, 2.0**-120, 0]
    np.testing.assert_allclose(bound.spread, GENERAL * EPS * y + [2.0**-126, 0, 0], rtol=1e-12)
    np.testing.assert_allclose(bound.limit, general_bound(y), rtol=1e-12)


def test_roundings_are_relative_to_the_result() -> None:
    bound, y = bound_of("reduce_prod", [X], {"axes": (3,)})
    np.testing.assert_allclose(bound.limit, general_bound(y) + 5 * EPS * np.abs(y), rtol=1e-12)


def test_errors_of_an_exponent_grow_with_it() -> None:
    bound, y = bound_of("pow", [X, 30 * X])
    wanted = general_bound(y) + GENERAL * EPS * np.abs(30.0 * X * np.log(X.astype(np.float64)) * y)
    np.testing.assert_allclose(bound.limit, wanted, rtol=1e-6)


def test_litert_interpolates_at_positions_in_float32() -> None:
    own, _ = bound_of("resize_bilinear", [X], {"size": (7, 9)})
    other, _ = bound_of("resize_bilinear", [X], {"size": (7, 9)}, Arithmetic.LITERT)
    np.testing.assert_allclose(other.limit - own.limit, 2 * 4 * EPS * float(X.max()), rtol=1e-6)


def test_every_other_formula_gives_a_bound() -> None:
    """These ops have errors of another kind."""
    halfway = np.full((2, 3), 1.5 * 4 / 255, np.float32)  # between two of 255 steps from -1 to 3
    points = np.float32([[0.5, 0.5], [2.5, 3.5], [1.0, 3.0], [2.0, 0.5]])
    moves = np.float32([[0.5, 0.1, 0, 0.3], [0.2, 0.6, 0, 0.2], [0, 0, 1, 0], [0, 0, 0, 1]])
    matrix = np.stack([moves] * len(X))
    box, first = np.array([[0.5, 0.5, 2.5, 3.5]], np.float32), np.zeros(1, np.int32)
    calls: dict[str, tuple[list[Array], dict[str, Any]]] = {
        "crop_resize": ([X, box, first], {"size": (2, 3), "sampling": "roi_align"}),
        "fake_quant": ([halfway], {"min": -1.0, "max": 3.0}),
        "local_response_normalization": ([X], {"radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.75}),
        "layer_normalization": ([X], {"epsilon": 1e-3}),
        "log_softmax": ([X], {}),
        "pow": ([X, X], {}),
        "rfft2d": ([X], {"length": (4, 5)}),
        "gru_recurrence": ([SUMS[:, :, :12], WEIGHTS[:12], STATE], {}),
        "gru_reset_after": ([SUMS[:, :, :12], WEIGHTS[:12], STATE], {}),
        "lstm_recurrence": ([SUMS, WEIGHTS, STATE, STATE], {}),
        "rotary_embedding": ([X[..., :2], X[..., :2], X[..., :1]], {}),
        "rotated_crop_matrix": ([points], {"scale": (1.5, 1.5), "origin": (0.5, 0.5)}),
        "warp_affine": ([X, matrix], {"size": (3, 4)}),
    }
    assert {name for name, op in OPS.items() if op.accuracy.formula} == {*calls, "lstm"}
    for op, (inputs, attrs) in calls.items():
        bound, y = bound_of(op, inputs, attrs)
        assert np.isfinite(bound.limit).all()
        assert (bound.limit >= general_bound(y)).all()
        assert (bound.limit > general_bound(y)).any()
