"""Windows and rows that a device's loops do not take at once, in several dispatches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from gpunn.types import DType, Quantization
from tests.ops.harness import EPS, check, limit_device, model_of, random
from tests.ops.integer_checks import check_integer
from tests.ops.quantized import quantized, stored

POOLS = ("average_pool2d", "max_pool2d", "l2_pool2d")
SAME = {"stride": (1, 1), "padding": "same"}


@pytest.mark.sample(2)
@pytest.mark.parametrize("op", POOLS)
@pytest.mark.parametrize(
    ("shape", "attrs", "most"),
    [
        ((2, 7, 9, 4), {"size": (5, 6), **SAME}, 20),
        ((1, 9, 7, 3), {"size": (4, 6), "stride": (2, 3)}, 9),
        ((1, 6, 70, 1), {"size": (6, 70)}, 30),
        ((1, 6, 5, 5), {"size": (3, 3), "padding": ((1, 2), (2, 0)), "activation": "relu"}, 7),
    ],
)
@pytest.mark.parametrize("parallel", [1, 1 << 12])
def test_pools(
    op: str,
    shape: tuple[int, ...],
    attrs: Mapping[str, Any],
    most: int,
    parallel: int,
    gpu: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One invocation for a pixel, or several, each with every so-and-so-manieth row of the window."""
    limit_device(monkeypatch, max_loop_iterations=most, parallel_invocations=parallel)
    x = random(1, *shape)
    if parallel == 1:
        with model_of(op, [x], attrs).compile(gpu) as compiled:
            assert len(compiled.plan_rows()) > 1
    cells = int(np.prod(attrs["size"]))
    check(op, [x], attrs, backend=gpu, atol=16 * cells * EPS)
    check(op, [x.astype(np.float16)], attrs, backend=gpu, atol=16 * cells * EPS, rtol=2**-11)


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8, DType.INT16])
@pytest.mark.parametrize("op", ["average_pool2d", "max_pool2d"])
def test_quantised_pools(op: str, dtype: DType, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_device(monkeypatch, max_loop_iterations=15)
    for shape in ((2, 7, 9, 4), (1, 7, 6, 3)):
        type = quantized(dtype, shape, 0.1, 0 if dtype is DType.INT16 else 3)
        check_integer(op, [stored(1, type)], [type], {"size": (4, 5), **SAME}, backend=gpu)


ROWS = {"softmax": {"beta": 0.7}, "log_softmax": {}, "l2_normalization": {}}
SHAPES = [((3, 500), -1), ((2, 300, 5), 1), ((70, 3), 0), ((2, 30), 1)]


@pytest.mark.parametrize("op", ROWS)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_rows(op: str, shape: tuple[int, ...], axis: int, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_device(monkeypatch, max_loop_iterations=4)
    attrs, x = {"axis": axis, **ROWS[op]}, random(1, *shape)
    with model_of(op, [x], attrs).compile(gpu) as compiled:
        assert [row.kernel.body for row in compiled.plan_rows()][-1] == "row_finish"
    check(op, [x], attrs, backend=gpu, atol=1e-5 + shape[axis] * EPS, rtol=shape[axis] * EPS)
    half = x.astype(np.float16)
    check(op, [half], attrs, backend=gpu, atol=1e-5 + shape[axis] * EPS, rtol=2**-10)
    for awkward in (np.nan, np.inf, -np.inf):
        x.reshape(-1)[7] = awkward
        check(op, [x], attrs, backend=gpu, atol=1e-5 + shape[axis] * EPS, rtol=shape[axis] * EPS)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
def test_quantised_rows(
    dtype: DType, shape: tuple[int, ...], axis: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_device(monkeypatch, max_loop_iterations=4)
    x = quantized(dtype, shape, 0.1, 3)
    low = 0 if dtype is DType.UINT8 else -128
    for op, steps, zero in (
        ("softmax", 1 / 256, low),
        ("log_softmax", 16 / 256, low + 255),
        ("l2_normalization", 1 / 128, low + 128),
    ):
        y = Quantization((steps,), (zero,))
        check_integer(op, [stored(1, x)], [x], {"axis": axis}, y, backend=gpu)


def test_a_row_that_lavapipe_does_not_take_at_once(gpu: str) -> None:
    """Half of the exponentials of 1.6 million elements are 1, half are 3; 64 invocations add them up."""
    rtol = (1_600_000 / 64 + 64) * EPS
    x = np.where(np.arange(1_600_000) % 2 == 0, 0.0, np.log(3)).astype(np.float32)
    (y,) = check("softmax", [x], {}, backend=gpu, atol=0, rtol=rtol)
    np.testing.assert_allclose(y[:2], [1 / 3.2e6, 3 / 3.2e6], rtol=rtol)
