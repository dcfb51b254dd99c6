"""Activations that clip as parameters: one pipeline for all of them, and NaN and infinities as ever."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import lower
from gpunn.backends.webgpu.shader import ShaderKey, key_of
from gpunn.device import BASELINE, SUBGROUPS
from gpunn.model import Model
from gpunn.types import float32
from tests.ops.harness import random, require_shared_rows, take_body

SOFTWARE = replace(BASELINE, software=True, subgroup_sizes=(8, 8), features=frozenset({SUBGROUPS}))
CLIPS = (None, "relu", "relu01", "relu1", "relu6")


def pipelines(body: str, op: str, filter: tuple[int, ...], *, activations: tuple[str | None, ...]) -> int:
    """Count the pipelines of a body in convolutions or products with and without a bias."""
    model = Model("clips")
    x = model.input("x", float32(1, 8, 8, 32) if op == "conv2d" else float32(64, 32))
    weights, bias = model.constant("w", random(1, *filter)), model.constant("b", random(2, filter[0]))
    attrs = {"padding": "same"} if op == "conv2d" else {}
    for activation in activations:
        for inputs in ((x, weights, bias), (x, weights)):
            model.output(model.add(op, inputs, {**attrs, "activation": activation})[0])
    found: set[ShaderKey] = set()
    for operation in model.operations:
        kernels = lower(operation, SOFTWARE)
        assert not isinstance(kernels, str)
        found |= {key_of(kernel, operation) for kernel in kernels if kernel.body == body}
    return len(found)


def test_products_share_a_pipeline() -> None:
    assert pipelines("matmul_broadcast", "fully_connected", (32, 32), activations=CLIPS) == 1
    assert pipelines("matmul_broadcast", "fully_connected", (32, 32), activations=(None, "tanh")) == 2


def test_winograds_results_share_a_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    take_body(monkeypatch, "winograd_output")
    results, products = "winograd_output", "matmul_broadcast"
    assert pipelines(results, "conv2d", (32, 3, 3, 32), activations=CLIPS) == 2, "with and without a bias"
    assert pipelines(products, "conv2d", (32, 3, 3, 32), activations=(*CLIPS, "tanh")) == 1


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (None, (np.nan, np.inf, -np.inf, -3.0, -0.5, 0.0, 0.75, 9.0)),
        ("relu", (np.nan, np.inf, 0.0, 0.0, 0.0, 0.0, 0.75, 9.0)),
        ("relu01", (np.nan, 1.0, 0.0, 0.0, 0.0, 0.0, 0.75, 1.0)),
        ("relu1", (np.nan, 1.0, -1.0, -1.0, -0.5, 0.0, 0.75, 1.0)),
        ("relu6", (np.nan, 6.0, 0.0, 0.0, 0.0, 0.0, 0.75, 6.0)),
    ],
)
def test_what_is_no_number_and_what_has_no_bound(
    activation: str | None, expected: tuple[float, ...], gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_shared_rows()
    take_body(monkeypatch, "matmul_broadcast")
    given = np.array([np.nan, np.inf, -np.inf, -3, -0.5, 0, 0.75, 9], np.float32)
    model = Model("clips")
    x, weight = model.input("x", float32(8, 1)), model.constant("w", np.ones((1, 1), np.float32))
    model.output(model.add("fully_connected", (x, weight), {"activation": activation})[0])
    with model.compile("webgpu") as compiled:
        assert [row.kernel.body for row in compiled.plan_rows()] == ["matmul_broadcast"]
        np.testing.assert_array_equal(compiled(given[:, None])[:, 0], np.float32(expected))
