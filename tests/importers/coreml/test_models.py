"""Real .mlmodel files against their stored answers, on both backends."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import gpunn
from gpunn import vision
from tests.resources import shared
from tests.test_models import picture

TOLERANCE = 1e-5  # of probabilities, between float32 computed in other orders
MODELS = ("MNIST", "mnistCNN", "SqueezeNet", "SqueezeNetFP16", "MobileNet")


@pytest.mark.parametrize("name", MODELS)
def test_model_gives_the_stored_answers(name: str, backend: str) -> None:
    model = gpunn.load(shared(f"models/coreml/{name}.mlmodel"))
    (operand,) = model.inputs
    assert len(model.labels) == model.outputs[0].type.size
    stored = np.load(shared(f"models/expected/{name}.mlmodel.npz"))
    shape = list(operand.type.shape)
    with model.compile(backend) as compiled:
        for key in stored.files:
            pixels = np.asarray(Image.open(picture(key.removesuffix("/out"), shape)), np.uint8)
            got = compiled(pixels.reshape(shape))
            assert got.shape == stored[key].shape
            assert np.abs(got - stored[key]).max() <= TOLERANCE, key
            assert got.argmax() == stored[key].argmax()


@pytest.mark.parametrize("name", MODELS)
def test_model_names_the_stored_classes(name: str, backend: str) -> None:
    """The best five, as far as their probabilities are there to be told apart."""
    entries = json.loads(shared("models/MANIFEST.json").read_text(encoding="utf-8"))["models"]
    (stored,) = (entry["reference"] for entry in entries if entry["file"] == f"coreml/{name}.mlmodel")
    model = gpunn.load(shared(f"models/coreml/{name}.mlmodel"))
    shape = list(model.inputs[0].type.shape)
    with model.compile(backend) as compiled:
        for key, best in stored.items():
            pixels = np.asarray(Image.open(picture(key, shape)), np.uint8).reshape(shape)
            expected = [(index, label) for index, label, probability in best if probability > 2 * TOLERANCE]
            found = vision.top_k(compiled(pixels), model.labels, len(expected))
            assert [(guess.index, guess.label) for guess in found] == expected


def test_a_classifier_takes_photos_and_names_classes() -> None:
    model = gpunn.load(shared("models/coreml/SqueezeNet.mlmodel"))
    taken = vision.photo_input(model)
    assert (taken.channels, taken.mean) == (3, None)
    values = taken.values(Image.open(shared("models/images/cat.bmp")).convert("RGB"))
    with model.compile("cpu") as compiled:
        assert model.labels[compiled(values[None]).argmax()] == "Egyptian cat"
