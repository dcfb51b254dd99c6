"""The walk through a model: memory that it needs, and its progress."""

from __future__ import annotations

import tracemalloc

import numpy as np

import gpunn
from gpunn.comparison.exact import run_exact
from gpunn.comparison.inputs import Sample
from gpunn.comparison.sides import Arithmetic
from gpunn.comparison.walk import Walk
from gpunn.types import float32

SIZE = 1 << 16  # elements of a tensor: half a MiB in float64


def deep(depth: int) -> gpunn.Model:
    """Return a chain of functions that cannot be fused."""
    model = gpunn.Model("deep")
    x = model.input("x", float32(SIZE))
    for _ in range(depth):
        (x,) = model.add("sin", [x])
    model.output(x)
    return model


def test_memory_does_not_grow_with_depth() -> None:
    """40 layers have 20 MiB of exact values, and the same for each chain of noise."""
    model, x = deep(40), np.ones(SIZE, np.float32)
    for walk in (
        lambda: run_exact(model, [x]),
        lambda: Walk(model, [Sample((x,), ("x",))], [Arithmetic.FLOAT32], [], {}).run(lambda *_: None),
    ):
        tracemalloc.start()
        walk()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 16 * 8 * SIZE  # a few tensors, also for the temporaries of each function


def test_progress_is_reported_from_none_to_all() -> None:
    told: list[tuple[str, int, int | None]] = []
    gpunn.compare(deep(3), 2, ["cpu"], per_layer=True, progress=lambda *row: told.append(row))
    assert [row[1:] for row in told if row[0] == "inputs"] == [(0, 2), (1, 2), (2, 2)]
    assert [row[1:] for row in told if row[0] == "layers"] == [(0, 3), (1, 3), (2, 3), (3, 3)]
