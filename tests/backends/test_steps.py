"""Loops that go round more often than every driver lets them: what would need them runs on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.kernel import MAX_STEPS
from gpunn.types import Array
from tests.ops.harness import check


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize("length", [MAX_STEPS - 1, MAX_STEPS + 1, 70_001])
def test_long_sums(length: int, gpu: str) -> None:
    """Of ones: every step counts, and float32 counts to 2^24."""
    host = "steps of one invocation" if length > MAX_STEPS else ""
    cases: list[tuple[str, list[Array], dict[str, Any]]] = [
        ("fully_connected", [ones(1, length), ones(2, length)], {}),
        ("batch_matmul", [ones(1, 2, length), ones(1, length, 2)], {}),
        ("cumsum", [ones(length, 1)], {"axis": 0}),
    ]
    for op, inputs, attrs in cases:
        (found,) = check(op, inputs, attrs, backend=gpu, host=host, atol=0)
        assert found.max() == length


def test_large_windows(gpu: str) -> None:
    """Loops around loops count together."""
    image, size = np.arange(256 * 260, dtype=np.float32).reshape(1, 256, 260, 1), (256, 260)
    attrs: dict[str, Any] = {"padding": "valid", "stride": (1, 1)}
    host = "steps of one invocation"
    (top,) = check("max_pool2d", [image], {"size": size, **attrs}, backend=gpu, host=host)
    assert top.tolist() == [[[[256 * 260 - 1]]]]
    inputs = [ones(1, 20, 20, 200), ones(2, 20, 20, 200)]
    (total,) = check("conv2d", inputs, attrs, backend=gpu, host=host)
    assert (total == 80_000).all()


@pytest.mark.parametrize("steps", [5_000, 12_000])
def test_long_sequences(steps: int, gpu: str) -> None:
    """A state that counts: each step adds one."""
    inputs = [ones(1, steps, 2), np.eye(2, dtype=np.float32), ones(1, 2)]
    host = "steps of one invocation" if steps > 10_000 else ""
    results = check("recurrence", inputs, {}, backend=gpu, constants=(1,), host=host, atol=0)
    assert results[0].tolist() == [[steps + 1, steps + 1]]
