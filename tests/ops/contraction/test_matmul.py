"""fully_connected against float64 and LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE
from gpunn.errors import ModelError
from tests.ops.contraction.test_conv import tolerance
from tests.ops.harness import (
    check,
    check_litert,
    limit_device,
    model_of,
    random,
    require_shared_rows,
    take_body,
    take_candidate,
)


@pytest.mark.parametrize("constants", [(1, 2), ()])
@pytest.mark.parametrize(
    ("shape", "filter"),
    [
        ((1, 64), (10, 64)),
        ((9, 12), (7, 12)),
        ((17, 8), (24, 8)),
        ((3, 5), (4, 5)),
        ((2, 3, 8), (6, 12)),
        ((0, 8), (3, 8)),
        *(((rows, depth), (9, depth)) for rows in (2, 9) for depth in (1, 2, 3, 7, 38)),
    ],
)
def test_fully_connected(
    backend: str, shape: tuple[int, ...], filter: tuple[int, ...], constants: tuple[int, ...]
) -> None:
    x, weights, bias = random(1, *shape), random(2, *filter), random(3, filter[0])
    atol = tolerance(x, weights)
    check(
        "fully_connected",
        [x, weights, bias],
        {"activation": "relu"},
        backend=backend,
        constants=constants,
        atol=atol,
    )
    check("fully_connected", [x, weights], {}, backend=backend, constants=constants[:1], atol=atol)


@pytest.mark.sample(2)
@pytest.mark.parametrize("software", [True, False])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(("depth", "channels"), [(8, 5), (3, 32), (38, 70), (200, 33)])
@pytest.mark.parametrize("rows", range(1, 8))
def test_few_rows(
    rows: int,
    depth: int,
    channels: int,
    place: int,
    software: bool,
    gpu: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Filters of few rows are packed by blocks, or in one: both for one row at a time, and small tiles."""
    limit_device(monkeypatch, software=software, parallel_invocations=1024)
    take_candidate(monkeypatch, place)
    inputs = [random(1, rows, depth), random(2, channels, depth), random(3, channels)][: 2 + rows % 2]
    attrs = {"activation": "relu6"} if depth % 2 else {}
    check("fully_connected", inputs, attrs, backend=gpu, constants=(1, 2), atol=tolerance(*inputs[:2]))


@pytest.mark.parametrize("body", ["matmul_broadcast", "matmul_tile", "matmul_any"])
@pytest.mark.parametrize("constants", [(), (1,), (2,)], ids=str)
@pytest.mark.parametrize(("rows", "depth", "channels"), [(8, 32, 64), (37, 12, 70), (70, 36, 1), (9, 64, 33)])
def test_computed_filters(
    rows: int,
    depth: int,
    channels: int,
    constants: tuple[int, ...],
    body: str,
    gpu: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As attention converted from PyTorch multiplies queries and keys; all ways, and also computed biases."""
    if body == "matmul_broadcast":
        require_shared_rows()
    take_body(monkeypatch, body)
    inputs = [random(1, rows, depth), random(2, channels, depth), random(3, channels)]
    attrs, atol = {"activation": "relu6"}, tolerance(*inputs[:2])
    check("fully_connected", inputs, attrs, backend=gpu, constants=constants, atol=atol)
    check("fully_connected", inputs[:2], {}, backend=gpu, constants=(), atol=atol)


@pytest.mark.parametrize(
    ("sizes", "tiled"), [((8, 32, 64), True), ((9, 4, 5), True), ((7, 32, 64), False), ((64, 0, 8), False)]
)
def test_computed_filters_are_packed_for_several_rows(sizes: tuple[int, int, int], tiled: bool) -> None:
    rows, depth, channels = sizes
    inputs = [np.zeros(shape, np.float32) for shape in ((rows, depth), (channels, depth))]
    attrs = {"keep_dims": True}
    kernels = lower(model_of("fully_connected", inputs, attrs, ()).operations[0], BASELINE)
    assert isinstance(kernels, tuple)
    assert (kernels[-1].body == "matmul_tile") is tiled


@pytest.mark.parametrize("rows", [3, 11])
@pytest.mark.parametrize("depth", [5, 6, 7])
def test_rows_of_any_depth_know_nothing_of_the_next_row(rows: int, depth: int, backend: str) -> None:
    """Steps of four elements end with the row: infinity and NaN behind it, times 0, would be NaN."""
    x, weights = random(1, rows, depth), random(2, 10, depth)
    x[1::2, :2] = np.inf, np.nan
    with model_of("fully_connected", [x, weights], {}, (1,)).compile(backend) as compiled:
        y = compiled(x)
    assert np.isnan(y[1::2]).all()
    np.testing.assert_allclose(y[::2], x[::2].astype(np.float64) @ weights.T, atol=tolerance(x[::2], weights))


@pytest.mark.parametrize("constants", [(), (1,)])
@pytest.mark.parametrize(("rows", "channels"), [(1, 1), (2, 1), (300, 1), (1, 6), (7, 6)])
def test_products_of_depth_1_with_zeros(
    rows: int, channels: int, constants: tuple[int, ...], backend: str
) -> None:
    x = np.resize(np.array([np.inf, np.nan, -np.inf, 2, 0], np.float32), (rows, 1))
    weights = np.zeros((channels, 1), np.float32)
    for first, second in ((x, weights), (np.zeros_like(x), weights + np.float32(np.inf))):
        with np.errstate(invalid="ignore"):
            expected = first * second.T
        cases = {
            "fully_connected": (first, second),
            "batch_matmul": (first, second.T),
            "conv2d": (first.reshape(1, rows, 1, 1), second.reshape(channels, 1, 1, 1)),
            "conv3d": (first.reshape(1, rows, 1, 1, 1), second.reshape(1, 1, 1, 1, channels)),
        }
        for op, operands in cases.items():
            inputs = [np.ascontiguousarray(v) for v in operands]
            with model_of(op, inputs, {}, constants).compile(backend) as compiled:
                y = compiled(*(v for k, v in enumerate(inputs) if k not in constants))
            np.testing.assert_array_equal(y.reshape(rows, channels), expected, err_msg=op)


@pytest.mark.parametrize("shape", [(2, 3, 8), (4, 8), (1, 1, 2, 8)])
def test_keep_dims_keeps_the_leading_dimensions(backend: str, shape: tuple[int, ...]) -> None:
    x, weights = random(1, *shape), random(2, 5, 8)
    (y,) = check("fully_connected", [x, weights], {"keep_dims": True}, backend=backend, constants=(1,))
    assert y.shape == (*shape[:-1], 5)


@pytest.mark.parametrize("keep_dims", [False, True])
def test_agrees_with_litert(keep_dims: bool) -> None:
    inputs = [random(1, 2, 3, 8), random(2, 5, 8), random(3, 5)]
    options = {"keepNumDims": keep_dims, "fusedActivationFunction": 1}
    attrs = {"keep_dims": keep_dims, "activation": "relu"}
    check_litert("fully_connected", inputs, attrs, "FULLY_CONNECTED", options, version=5)


@pytest.mark.parametrize("limit", [1, 5, 20])
@pytest.mark.parametrize("depth", [1, 21, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_long_sums_in_parts(
    dtype: Any, depth: int, limit: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device whose loops go round only a few times gives the same bits: the order of the products stays."""
    inputs = [random(1, 3, depth), random(2, 5, depth), random(3, 5)]
    inputs = [v.astype(dtype) for v in inputs]
    model = model_of("fully_connected", inputs, {"activation": "relu"})
    with model.compile(backend) as compiled:
        whole = compiled(*inputs)
    limit_device(monkeypatch, max_loop_iterations=limit)
    with model.compile(backend) as compiled:
        assert {p.backend for p in compiled.placement} == {backend}
        np.testing.assert_array_equal(compiled(*inputs), whole)
    if dtype is np.float32:
        attrs = {"activation": "relu"}
        check("fully_connected", inputs, attrs, backend=backend, atol=tolerance(*inputs[:2]))


@pytest.mark.parametrize(
    ("shapes", "attrs", "message"),
    [
        ([(2, 7), (3, 4)], {}, "14 input elements cannot be cut into rows of 4"),
        ([(2, 4), (3, 4), (4,)], {}, r"bias must have shape \[3\], got \[4\]"),
        ([(2, 4), (3, 1, 4)], {}, "input 1 must have rank 2"),
        ([(2, 2, 6), (3, 4)], {"keep_dims": True}, "the last dimension must be 4"),
    ],
)
def test_errors(shapes: list[tuple[int, ...]], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"fully_connected: {message}"):
        model_of("fully_connected", [random(i, *s) for i, s in enumerate(shapes)], attrs)


def test_sums_of_no_terms(backend: str) -> None:
    inputs = [np.zeros((3, 0), np.float32), np.zeros((5, 0), np.float32)]
    check("fully_connected", inputs, {"keep_dims": True}, backend=backend, constants=(1,))
