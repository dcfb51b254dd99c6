"""layer_normalization against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.graph.tolerance import bounds
from gpunn.ops import OPS
from gpunn.types import Array, Shape
from tests.ops.harness import assert_close, limit_device, model_of, random

# With axes of the means. Rows, columns, all elements, elements in two runs: by one or four at a time.
SHAPES = [
    ((7,), (0,)),
    ((2, 3, 4, 5), (1,)),
    ((3, 64), (1,)),
    ((70, 12), (0,)),
    ((5, 1001), (-1,)),
    ((130, 70), (1,)),
    ((0, 4), (1,)),
    ((0, 4, 3), (0, 2)),
    ((2, 1, 5), (1,)),
    ((2, 3), ()),
    ((2, 3, 4, 5), (3, 1, -2)),
    ((3, 4, 5), (2, 0)),
    ((2, 20, 3, 8), (1, 3)),
    ((2, 30, 3, 5), (1, 3)),
    ((2, 30, 4, 6), (1, 3)),
    ((1, 70, 8, 1, 5), (1, 3, 4)),
    ((1, 600, 12), (1,)),
    ((5, 600, 8), (0, 1)),
    ((1, 5000), (1,)),
    ((2, 9, 1000), (1, 2)),
]


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
@pytest.mark.parametrize(("centre", "spread"), [(0, 1), (100, 0.5), (0, 1e-4)])
def test_shapes(shape: Shape, axes: Shape, centre: float, spread: float, centred: bool, backend: str) -> None:
    x = (centre + spread * random(1, *shape)).astype(np.float32)
    check_rows(x, {"axes": axes, "epsilon": 1e-5, "centred": centred}, backend)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(
    ("shape", "axes"), [((2, 2000), 1), ((3, 50, 7), 1), ((130, 70), -1), ((1, 9001), 1)], ids=str
)
def test_rows_that_one_dispatch_does_not_take(
    shape: Shape, axes: int, centred: bool, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_device(monkeypatch, max_loop_iterations=48)
    check_rows(1 + random(2, *shape), {"axes": (axes,), "epsilon": 1e-3, "centred": centred}, gpu)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(
    ("shape", "axes", "parts"),
    [
        ((1, 40_000), (1,), 5),  # of 256 invocations with eight fours each
        ((1, 9_001, 3), (1, 2), 14),
        ((2, 3_000, 3, 8), (1, 3), 3),
        ((2, 3_000, 2, 10), (1, 3), 15),
        ((1, 5_000, 12), (1,), 3),
    ],
    ids=str,
)
def test_parts_occupy_a_gpu(
    shape: Shape, axes: Shape, parts: int, centred: bool, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Means of parts lie far apart, and one of them has almost no variance of its own."""
    limit_device(monkeypatch, software=False, parallel_invocations=1 << 15)
    x = random(3, *shape)
    rising = np.linspace(-40, 60, x.size).reshape(shape).astype(np.float32)
    attrs = {"axes": axes, "epsilon": 1e-5, "centred": centred}
    check_rows(x + rising, attrs, gpu)
    check_rows(np.where(rising < -30, np.float32(30), x), attrs, gpu)
    with model_of("layer_normalization", [x], attrs).compile(gpu) as compiled:
        measure, standardize = (row.kernel for row in compiled.plan_rows())
    assert measure.params["parts"] == standardize.params["parts"] == parts


def test_axes_that_others_divide_often_run_on_the_cpu(gpu: str) -> None:
    x = random(1, 2, 3, 4, 5, 6)
    with model_of("layer_normalization", [x], {"axes": (1, 3), "epsilon": 1e-3}).compile(gpu) as compiled:
        (placed,) = compiled.placement
        assert_close(compiled(x), OPS["layer_normalization"].reference(x, axes=(1, 3), epsilon=1e-3))
    assert placed.backend == "cpu"
    assert "means along dimensions that others divide more than once" in placed.reason


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
    found = OPS["layer_normalization"].reference(x, axes=(-1,), epsilon=0.1, centred=True)
    np.testing.assert_allclose(found, by_hand(x, 0.1), rtol=1e-12)
    x = random(4, 3, 2, 5).astype(np.float64)
    found = OPS["layer_normalization"].reference(x, axes=(0, -1), epsilon=0.1)
    rows = x.swapaxes(0, 1).reshape(2, 15)
    np.testing.assert_allclose(found.swapaxes(0, 1).reshape(2, 15), by_hand(rows, 0.1), rtol=1e-12)
    roots = np.sqrt((x**2).mean(0, keepdims=True) + 0.1)
    found = OPS["layer_normalization"].reference(x, axes=(0,), epsilon=0.1, centred=False)
    np.testing.assert_allclose(found, x / roots, rtol=1e-12)


def test_numbers_by_hand(backend: str) -> None:
    x = np.array([[1, 3], [5, 5], [-3, 4]], np.float32)
    with model_of("layer_normalization", [x], {"epsilon": 3.0}).compile(backend) as compiled:
        assert_close(compiled(x), np.array([[-0.5, 0.5], [0, 0], [-3.5, 3.5] / np.sqrt(15.25)]))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((3, 4, 6), (-1,)), ((7, 130), (-1,)), ((3, 6, 3, 4), (1, 3)), ((3, 6000), (1,))],
    ids=str,
)
def test_a_row_with_nan_or_infinity_is_nan(shape: Shape, axes: Shape, backend: str) -> None:
    x = random(1, *shape)
    x[1, ..., 2], x[2, ..., 3] = np.nan, np.inf
    with model_of("layer_normalization", [x], {"axes": axes, "epsilon": 1e-5}).compile(backend) as compiled:
        y = compiled(x)
    assert np.isnan(y[1:3]).all()
    assert np.isfinite(y[0]).all()


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be a positive number"),
        ({"epsilon": float("nan")}, "epsilon must be a positive number"),
        ({"epsilon": 1e-5, "axes": (2,)}, "axis"),
        ({"epsilon": 1e-5, "centred": 1}, "centred"),
    ],
)
def test_errors(attrs: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=f"layer_normalization: .*{message}"):
        model_of("layer_normalization", [random(0, 3, 4)], attrs)
