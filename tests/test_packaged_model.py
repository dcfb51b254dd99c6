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


@pytest.mark.parametrize("quantised", [False, True])
def test_scores_are_calibrated_and_have_a_threshold(quantised: bool) -> None:
    model = gpunn.load(vision.default_model(quantised=quantised))
    scoring = model.scoring
    assert scoring is not None and scoring.threshold is not None and scoring.calibration is not None
    assert 0.85 < scoring.threshold < 0.95
    (sigmoid,) = set(scoring.calibration.sigmoids)  # one slope for all classes keeps their order
    assert sigmoid is not None and (sigmoid.scale, sigmoid.offset) == (1, 0)
    assert 1 < sigmoid.slope < 1.2  # a little too modest without, because of label smoothing


@pytest.mark.parametrize("quantised", [False, True])
def test_it_says_what_it_does_not_know(quantised: bool) -> None:
    """Most pictures of noise, and not scikit-image's cat."""
    model = gpunn.load(vision.default_model(quantised=quantised))
    wanted, output = vision.photo_input(model), vision.score_output(model)
    pictures = np.random.default_rng(8).integers(0, 256, (40, 32, 32, 3), np.uint8)
    with model.compile("cpu") as compiled:
        known = [output.knows(output.scores(compiled(wanted.stored(p[np.newaxis]))[0])) for p in pictures]
        assert known.count(False) >= 32  # docs/cifar10.md: 95 %
        cat = pytest.importorskip("skimage.data").data_dir + "/chelsea.png"
        scores = output.scores(compiled(vision.preprocess(model, cat))[0])
    assert output.knows(scores) is True
    assert vision.top_k(scores, CLASSES, 1)[0].label == "cat"


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
