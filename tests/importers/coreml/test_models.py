"""Real .mlmodel files against their stored answers, on both backends."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import gpunn
from gpunn.vision import photo_input
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


def test_a_classifier_takes_photos_and_names_classes() -> None:
    model = gpunn.load(shared("models/coreml/SqueezeNet.mlmodel"))
    taken = photo_input(model)
    assert (taken.channels, taken.mean) == (3, None)
    values = taken.values(Image.open(shared("models/images/cat.bmp")).convert("RGB"))
    with model.compile("cpu") as compiled:
        assert model.labels[compiled(values[None]).argmax()] == "Egyptian cat"
