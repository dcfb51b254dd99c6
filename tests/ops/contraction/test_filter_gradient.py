"""Gradients of convolutions with respect to their filters, as ops; tests/training has their meaning."""

from __future__ import annotations

from typing import Any

import pytest

from gpunn.errors import ModelError
from tests.ops.harness import check, limit_device, model_of, random

CASES: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("conv2d_filter_gradient", (2, 5, 6, 3), (2, 5, 6, 5), {"size": (3, 3), "padding": "same"}),
    ("conv2d_filter_gradient", (1, 9, 7, 8), (1, 4, 3, 12), {"size": (3, 3), "stride": (2, 2)}),
    ("conv2d_filter_gradient", (3, 4, 4, 12), (3, 4, 4, 20), {"size": (1, 1), "groups": 2}),
    ("conv2d_filter_gradient", (1, 6, 6, 6), (1, 4, 2, 4), {"size": (2, 3), "dilation": (2, 2), "groups": 2}),
    ("depthwise_filter_gradient", (2, 5, 6, 8), (2, 5, 6, 8), {"size": (3, 3), "padding": "same"}),
    ("depthwise_filter_gradient", (1, 9, 7, 3), (1, 4, 3, 6), {"size": (3, 3), "stride": (2, 2)}),
    ("depthwise_filter_gradient", (2, 7, 6, 4), (2, 3, 4, 4), {"size": (3, 2), "dilation": (2, 2)}),
    ("depthwise_filter_gradient", (1, 6, 9, 2), (1, 1, 3, 2), {"size": (6, 7)}),
]
TERMS = 72  # of a sum, at most


@pytest.mark.parametrize(("op", "x", "g", "attrs"), CASES)
@pytest.mark.parametrize("parts", [1, 5])
def test_gradient(
    op: str,
    x: tuple[int, ...],
    g: tuple[int, ...],
    attrs: dict[str, Any],
    parts: int,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one part of the pixels, and in several. Each sum rounds TERMS times, of products up to 16."""
    if backend == "webgpu" and parts > 1:
        limit_device(monkeypatch, max_loop_iterations=90 if op.startswith("depthwise") else 20)
    check(op, [random(1, *x), random(2, *g)], attrs, backend=backend, atol=TERMS**2 * 16 * 2.0**-24)


def test_wrong_calls() -> None:
    x = random(1, 1, 5, 5, 4)
    for op, g, attrs, reason in (
        ("conv2d_filter_gradient", (1, 5, 5, 4), {}, "the gradient should be float32"),
        ("conv2d_filter_gradient", (1, 4, 4, 4), {"groups": 3}, "cannot be divided into 3 groups"),
        ("depthwise_filter_gradient", (1, 4, 4, 6), {}, "no multiple of the input's 4"),
    ):
        with pytest.raises(ModelError, match=reason):
            model_of(op, [x, random(2, *g)], {"size": (2, 2), **attrs})
