"""Real models against their stored answers, on every backend: ../shared/models, its README and MANIFEST."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

import gpunn
from tests.resources import shared

Array = npt.NDArray[Any]

MODELS = (
    "autoencoder_ad01",
    "cifar10_resnet8",
    "deeplabv3_257_mv_gpu",
    "face_detection_front",
    "mnist_mlp",
    "mobilenet_v1_0.25_128",
    "mobilenet_v1_1.0_224",
    "mobilenet_v2_1.0_224",
    "squeezenet",
)
TOLERANCE = 1e-4  # of probabilities absolute, of other outputs relative to their range
SAME_CLASS = 0.9999  # of the pixels of a segmentation: at a border two classes may be equally likely


@functools.cache
def manifest() -> dict[str, dict[str, Any]]:
    """The manifest's entries by file name without suffix."""
    entries = json.loads(shared("models/MANIFEST.json").read_text())["models"]
    return {e["file"].removeprefix("tflite/").removesuffix(".tflite"): e for e in entries}


def model_input(entry: dict[str, Any], key: str, stored: Any) -> Array:
    """The input behind one stored answer."""
    preprocessing, (shape,) = entry["preprocessing"], [i["shape"] for i in entry["inputs"]]
    if preprocessing["kind"] == "random":
        found: Array = stored[f"{key}/in0"]
        return found
    pixels = np.asarray(Image.open(picture(key, shape)), np.float32)
    if preprocessing["kind"] == "mnist":
        return (pixels / np.float32(255)).reshape(shape)
    mean, std = np.float32(preprocessing["mean"]), np.float32(preprocessing["std"])
    return ((pixels - mean) / std).reshape(shape)


def picture(key: str, shape: list[int]) -> Any:
    """The picture of a manifest key: t10k[3]=0, cat_0000.png (CIFAR-10) or cat.bmp (a photo, resized)."""
    if key.startswith("t10k"):
        number, digit = key.removeprefix("t10k[").split("]=")
        return shared(f"models/labelled/mnist/t10k_{int(number):05}_{digit}.png")
    if key.endswith("_0000.png"):
        return shared(f"models/labelled/cifar10/{key}")
    return shared(f"models/images/resized/{key.rpartition('.')[0]}_{shape[2]}x{shape[1]}.png")


def compare(got: Array, stored: Any, key: str, probabilities: bool) -> None:
    """Assert that an output is the stored one, which may be kept in part (README, `idx`, `val`, `argmax`)."""
    whole = key in stored
    expected = stored[key] if whole else stored[f"{key}/val"]
    assert list(got.shape) == list(expected.shape if whole else stored[f"{key}/shape"])
    values = got if whole else got.reshape(-1)[stored[f"{key}/idx"]]
    scale = 1.0 if probabilities else float(np.ptp(expected))
    assert np.abs(values - expected).max() <= TOLERANCE * scale
    if f"{key}/argmax" in stored:
        assert np.mean(got.argmax(-1) == stored[f"{key}/argmax"]) >= SAME_CLASS


@pytest.mark.parametrize("name", MODELS)
def test_model_gives_the_stored_answers(name: str, backend: str) -> None:
    entry = manifest()[name]
    model = gpunn.load(shared(f"models/{entry['file']}"))
    stored = np.load(shared(f"models/{entry['expected']}"))
    with model.compile(backend=backend) as compiled:
        for key, reference in entry["reference"].items():
            result = compiled(model_input(entry, key, stored))
            outputs = result if isinstance(result, tuple) else (result,)
            top = isinstance(reference, list)
            for number, output in enumerate(outputs):
                compare(output, stored, f"{key}/out{number}", probabilities=top)
            if top:
                found = np.argsort(-outputs[0].reshape(-1), kind="stable")[: len(reference)]
                assert found.tolist() == [row[0] for row in reference], key


@pytest.mark.parametrize("name", MODELS)
def test_model_is_as_the_manifest_says(name: str) -> None:
    entry = manifest()[name]
    model = gpunn.load(shared(f"models/{entry['file']}"))
    for operands, rows in ((model.inputs, entry["inputs"]), (model.outputs, entry["outputs"])):
        assert [(o.name, list(o.type.shape)) for o in operands] == [(r["name"], r["shape"]) for r in rows]
    assert len(model.operations) == sum(entry["ops"].values())
