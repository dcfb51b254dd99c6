"""The classifier inside the package: its form, and LiteRT's results."""

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


def test_the_quantised_one_is_the_same_model_in_int8() -> None:
    """Every weight and bias is the float32 one, rounded to the nearest step."""
    path = vision.default_model(quantised=True)
    assert path.stat().st_size <= 1_000_000
    exact, quantised = gpunn.load(vision.default_model()), gpunn.load(path)
    assert quantised.labels == CLASSES
    assert [o.type.dtype for o in (*quantised.inputs, *quantised.outputs)] == [gpunn.DType.INT8] * 2
    pairs = zip(exact.operations, quantised.operations, strict=True)
    for one, other in pairs:
        assert (one.op, one.attrs) == (other.op, other.attrs)
        for real, stored in zip(one.inputs, other.inputs, strict=True):
            if real is None or stored is None or real.value is None or real.type.dtype.value == "int32":
                continue
            assert stored.value is not None and stored.type.quantization is not None
            quantization = stored.type.quantization
            shape = [1] * real.type.rank
            if not quantization.per_tensor:
                shape[quantization.axis] = -1
            scale = np.reshape(quantization.scale, shape)
            off = np.abs(stored.value * scale - real.value) / scale
            # Scales are float32: off by 2^-24 of the largest value, 127 steps of a weight, more of a bias.
            assert off.max() <= 0.5 + np.abs(stored.value.astype(np.float64)).max() * 2**-23


def test_the_quantised_one_has_the_same_bits_on_both_backends(gpu: str) -> None:
    model = gpunn.load(vision.default_model(quantised=True))
    photos = np.random.default_rng(4).integers(-128, 128, (4, 1, 32, 32, 3)).astype(np.int8)
    with model.compile(backend=gpu) as one, model.compile(backend="cpu") as other:
        for photo in photos:
            assert np.array_equal(one(photo), other(photo))


def test_litert_gives_the_same_answers(backend: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    data = vision.default_model().read_bytes()
    photos = np.random.default_rng(2).uniform(-1, 1, (8, 1, 32, 32, 3)).astype(np.float32)
    with gpunn.load(data).compile(backend=backend) as compiled:
        for photo in photos:
            (expected,) = litert_run(data, [photo])
            # Sums of float32 in another order, through about twenty layers: the bound of stored answers of
            # models, 1e-4 of a probability.
            assert_close(np.asarray(compiled(photo)), expected, atol=1e-4, rtol=0)
