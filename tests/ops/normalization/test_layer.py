"""layer_normalization against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.graph.tolerance import bounds
from gpunn.ops import OPS
from gpunn.types import Array
from tests.ops.harness import assert_close, limit_device, model_of, random

SHAPES = [
    ((7,), 0),
    ((2, 3, 4, 5), 1),
    ((3, 64), 1),
    ((70, 12), 0),
    ((5, 1001), -1),
    ((130, 70), 1),
    ((0, 4), 1),
]


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize(("centre", "spread"), [(0, 1), (100, 0.5), (0, 1e-4)])
def test_rows(
    shape: tuple[int, ...], axis: int, centre: float, spread: float, centred: bool, backend: str
) -> None:
    x = (centre + spread * random(1, *shape)).astype(np.float32)
    check_rows(x, {"axis": axis, "epsilon": 1e-5, "centred": centred}, backend)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("shape", "axis"), [((2, 2000), 1), ((3, 50, 7), 1), ((130, 70), -1)])
def test_rows_that_one_dispatch_does_not_take(
    shape: tuple[int, ...], axis: int, centred: bool, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_device(monkeypatch, max_loop_iterations=8)
    check_rows(1 + random(2, *shape), {"axis": axis, "epsilon": 1e-3, "centred": centred}, gpu)


def check_rows(x: Array, attrs: dict[str, Any], backend: str) -> None:
    """Compare results with those in float64; all of them are computed on the backend."""
    model = model_of("layer_normalization", [x], attrs)
    exact = OPS["layer_normalization"].reference(x.astype(np.float64), **attrs)
    (bound,) = bounds(model.operations[0], [x.astype(np.float64)], (exact,))
    with model.compile(backend) as compiled:
        assert {p.backend for p in compiled.placement} == {backend}
        assert (np.abs(compiled(x) - exact) <= bound.limit).all()


def by_hand(x: Array, epsilon: float) -> Array:
    deviation = np.sqrt(((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True) + epsilon)
    return np.asarray((x - x.mean(-1, keepdims=True)) / deviation)


def test_the_reference() -> None:
    x = random(3, 4, 9).astype(np.float64)
    found = OPS["layer_normalization"].reference(x, axis=-1, epsilon=0.1, centred=True)
    np.testing.assert_allclose(found, by_hand(x, 0.1), rtol=1e-12)
    roots = np.sqrt((x**2).mean(0, keepdims=True) + 0.1)
    found = OPS["layer_normalization"].reference(x, axis=0, epsilon=0.1, centred=False)
    np.testing.assert_allclose(found, x / roots, rtol=1e-12)


def test_numbers_by_hand(backend: str) -> None:
    x = np.array([[1, 3], [5, 5], [-3, 4]], np.float32)
    with model_of("layer_normalization", [x], {"epsilon": 3.0}).compile(backend) as compiled:
        assert_close(compiled(x), np.array([[-0.5, 0.5], [0, 0], [-3.5, 3.5] / np.sqrt(15.25)]))


@pytest.mark.parametrize("shape", [(3, 4, 6), (7, 130)])
def test_a_row_with_nan_or_infinity_is_nan(shape: tuple[int, ...], backend: str) -> None:
    x = random(1, *shape)
    x[1, ..., 2], x[2, ..., 3] = np.nan, np.inf
    with model_of("layer_normalization", [x], {"epsilon": 1e-5}).compile(backend) as compiled:
        y = compiled(x)
    assert np.isnan(y[1:3]).all()
    assert np.isfinite(y[0]).all()


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be a positive number"),
        ({"epsilon": float("nan")}, "epsilon must be a positive number"),
        ({"epsilon": 1e-5, "axis": 2}, "axis"),
        ({"epsilon": 1e-5, "centred": 1}, "centred"),
    ],
)
def test_errors(attrs: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=f"layer_normalization: .*{message}"):
        model_of("layer_normalization", [random(0, 3, 4)], attrs)
