"""Comparisons to report on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gpunn
from gpunn import vision
from gpunn.comparison import Comparison, Layer
from gpunn.comparison.findings import find
from gpunn.comparison.result import Check

WRONG = 3  # the layer that wrong() spoils


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Compare the packaged model on the CPU with itself, on six photos whose classes are known."""
    folder = tmp_path_factory.mktemp("photos")
    generator = np.random.default_rng(1)
    for name in ("cat", "dog", "frog", "ship"):
        Image.fromarray(generator.integers(0, 256, (24, 40, 3), np.uint8)).save(folder / f"{name}_1.png")
    Image.new("RGB", (300, 200), "olive").save(folder / "horse_1.jpg")
    return compare_photos(folder)


def compare_photos(folder: Path) -> Comparison:
    """Compare photos with all parts of a report; a copy of the CPU's results stands for another backend."""
    found = gpunn.compare(vision.default_model(), truth=folder, backends=["cpu"], per_layer=True)
    layers = [
        replace(x, sides=(*x.sides, replace(x.sides[0], backend="other", place="webgpu", reason="")))
        for x in found.layers
    ]
    return replace(found, layers=tuple(layers))


def spoil(layers: tuple[Layer, ...], change: Callable[[Check], Check]) -> tuple[Layer, ...]:
    """Change errors of the first side: accumulated ones from layer WRONG on, the isolated one of WRONG."""
    spoilt = []
    for index, layer in enumerate(layers):
        side = layer.sides[0]
        if index >= WRONG and side.accumulated is not None:
            side = replace(side, accumulated=change(side.accumulated))
        if index == WRONG and side.isolated is not None:
            side = replace(side, isolated=change(side.isolated))
        spoilt.append(replace(layer, sides=(side, *layer.sides[1:])))
    return tuple(spoilt)


def times(factor: float, check: Check) -> Check:
    """Return errors that are `factor` times their tolerance."""
    metrics = replace(check.metrics, max_abs_error=factor * check.tolerance)
    return replace(check, metrics=metrics, ratio=factor)


def not_finite(check: Check) -> Check:
    """Return errors with a NaN that should not be there."""
    metrics = replace(check.metrics, unmatched=1)
    return replace(check, metrics=metrics, ratio=float("inf"), values=replace(check.values, nan=1))


@pytest.fixture
def wrong(found: Comparison) -> Comparison:
    """Return the comparison with a wrong kernel: a layer is 50 times over its tolerance on the first side."""
    layers = spoil(found.layers, functools.partial(times, 50))
    return replace(found, layers=layers, findings=find(layers, found.pairs, []))
