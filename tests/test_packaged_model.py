"""The classifier inside the package: its form, and LiteRT's opinion of it."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
from gpunn import vision
from tests.ops.harness import assert_close
from tests.tflite_builder import litert_run

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def test_it_is_small_and_names_its_classes() -> None:
    assert vision.default_model().stat().st_size <= 2_000_000
    assert gpunn.load(vision.default_model()).labels == CLASSES


def test_litert_gives_the_same_answers(backend: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    data = vision.default_model().read_bytes()
    photos = np.random.default_rng(2).uniform(-1, 1, (8, 1, 32, 32, 3)).astype(np.float32)
    with gpunn.load(data).compile(backend=backend) as compiled:
        for photo in photos:
            (expected,) = litert_run(data, [photo])
            # Sums of float32 in another order, through some twenty layers: the bound that stored answers of
            # networks are held to, 1e-4 of a probability.
            assert_close(np.asarray(compiled(photo)), expected, atol=1e-4, rtol=0)
