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
from gpunn.ops import integer_product
from gpunn.ops.affine import high_multiply, wrap32
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
# Quantised models, and how many steps the stored answers may be away: these come from LiteRT's default
# kernels, which round otherwise than its reference kernels in some operators (docs/quantized.md).
QUANTISED = {
    "cifar10_resnet8_int8": 23,
    "mnistnet_uint8_quant": 0,
    "mobilenet_v1_0.25_128_quant": 0,
    "mobilenet_v1_1.0_224_quant": 0,
    "mobilenet_v2_1.0_224_quant": 4,
    "tf2_mobilenet_v2_1.0_224_ptq": 15,
}
# Models of float32 activations and int8 filters. LiteRT's hybrid kernels round the activations to 8 bits,
# gpunn does not (docs/quantized.md); the manifest says how far LiteRT's own kernels are from each other.
HYBRID = ("kws_ref_float", "style_transfer_dynamic_384")
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
    if "scale" in entry["inputs"][0]:  # stored integers are the pixels, or these less 128
        dtype = entry["inputs"][0]["dtype"].lower()
        return (pixels + np.iinfo(dtype).min).astype(dtype).reshape(shape)
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


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_model_gives_the_same_bits_everywhere(name: str, gpu: str) -> None:
    entry = manifest()[name]
    model = gpunn.load(shared(f"models/{entry['file']}"))
    stored = np.load(shared(f"models/{entry['expected']}"))
    with model.compile(backend="cpu") as cpu, model.compile(backend=gpu) as device:
        assert {p.backend for p in device.placement} <= {"webgpu", "alias"}
        for key, reference in entry["reference"].items():
            x = model_input(entry, key, stored)
            result = cpu(x)
            np.testing.assert_array_equal(device(x), result)
            compare_steps(result, stored[f"{key}/out0"], [row[0] for row in reference], QUANTISED[name])


def compare_steps(got: Array, expected: Array, top: list[int], steps: int) -> None:
    """Assert that stored integers are within `steps` of the expected ones, and the top classes the same.

    Where there may be a difference, only the first class must be the same.
    """
    assert got.dtype == expected.dtype
    assert np.abs(got.astype(np.int64) - expected).max() <= steps
    found = np.argsort(-got.reshape(-1).astype(np.int64), kind="stable")[: len(top)].tolist()
    assert found == top if steps == 0 else found[0] == top[0]


@pytest.mark.parametrize("name", HYBRID)
def test_hybrid_model_is_as_near_as_litert_to_itself(name: str, backend: str) -> None:
    entry = manifest()[name]
    model = gpunn.load(shared(f"models/{entry['file']}"))
    stored = np.load(shared(f"models/{entry['expected']}"))
    with model.compile(backend=backend) as compiled:
        result = compiled(*(stored[f"random/in{k}"] for k in range(len(model.inputs))))
        assert {p.operation.op for p in compiled.placement}.isdisjoint({"dequantize"})
        assert {p.backend for p in compiled.placement} <= {backend, "alias"}
    whole = "random/out0" in stored
    expected = stored["random/out0"] if whole else stored["random/out0/val"]
    values = result if whole else result.reshape(-1)[stored["random/out0/idx"]]
    assert np.abs(values - expected).max() <= entry["xnnpack_vs_builtin_max_abs_diff"]
    if whole:
        assert values.argmax() == expected.argmax()


def test_detector_finds_the_stored_objects(gpu: str) -> None:
    """Boxes to 1e-6 and scores to 4 of their steps of 1/256: LiteRT's default kernels round otherwise.

    Objects of nearly the same score may change places, so each stored one is looked for among ours.
    """
    entry = manifest()["coco_ssd_mobilenet_v1_1.0_quant"]
    model = gpunn.load(shared(f"models/{entry['file']}"))
    stored = np.load(shared(f"models/{entry['expected']}"))
    with model.compile(backend="cpu") as cpu, model.compile(backend=gpu) as device:
        on_host = [p.operation.op for p in device.placement if p.backend == "cpu"]
        assert on_host == ["detection_postprocess"]
        for key in entry["reference"]:
            pixels = np.asarray(Image.open(picture(key, [1, 300, 300, 3])))[None]
            results = cpu(pixels)
            for a, b in zip(device(pixels), results, strict=True):
                np.testing.assert_array_equal(a, b)
            boxes, classes, scores, count = results
            assert count == stored[f"{key}/out3"]
            assert np.all(np.diff(scores) <= 0)
            expected = [stored[f"{key}/out{k}"][0] for k in range(3)]
            for box, number, score in zip(*expected, strict=True):
                same = (classes[0] == number) & (np.abs(scores[0] - score) <= 4 / 256)
                assert np.abs(boxes[0][same] - box).max(axis=1).min() <= 1e-6


@pytest.mark.parametrize("name", ["cifar10_resnet8_int8", "mobilenet_v2_1.0_224_quant"])
def test_the_default_kernels_rounding_makes_all_the_difference(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With halves rounded upwards in products' right shifts, the stored answers come out to the bit."""

    def rescale(x: Array, m: Array, shift: Array) -> Array:
        high = high_multiply(wrap32(x << np.maximum(shift, 0)), m)
        right = np.maximum(-shift, 0)
        halved: Array = (high + ((1 << right) >> 1)) >> right
        return halved

    monkeypatch.setattr(integer_product, "rescale", rescale)
    entry = manifest()[name]
    stored = np.load(shared(f"models/{entry['expected']}"))
    with gpunn.load(shared(f"models/{entry['file']}")).compile(backend="cpu") as compiled:
        for key, reference in entry["reference"].items():
            result = compiled(model_input(entry, key, stored))
            compare_steps(result, stored[f"{key}/out0"], [row[0] for row in reference], 0)


@pytest.mark.parametrize("name", [*QUANTISED, "style_predict_int8_256"])
def test_quantised_model_gives_the_bits_of_litert(name: str) -> None:
    interpreters = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
    entry = manifest()[name]
    path = shared(f"models/{entry['file']}")
    reference = interpreters.Interpreter(
        str(path), experimental_op_resolver_type=interpreters.OpResolverType.BUILTIN_REF
    )
    reference.allocate_tensors()
    key = next(iter(entry["reference"]))
    x = model_input(entry, key, np.load(shared(f"models/{entry['expected']}")))
    reference.set_tensor(reference.get_input_details()[0]["index"], x)
    reference.invoke()
    with gpunn.load(path).compile(backend="cpu") as compiled:
        expected = reference.get_tensor(reference.get_output_details()[0]["index"])
        np.testing.assert_array_equal(compiled(x), expected)


@pytest.mark.parametrize("name", [*MODELS, *QUANTISED])
def test_model_is_as_the_manifest_says(name: str) -> None:
    entry = manifest()[name]
    model = gpunn.load(shared(f"models/{entry['file']}"))
    for operands, rows in ((model.inputs, entry["inputs"]), (model.outputs, entry["outputs"])):
        assert [(o.name, list(o.type.shape)) for o in operands] == [(r["name"], r["shape"]) for r in rows]
        parameters = [o.type.quantization for o in operands]
        assert [p and p.scale[0] for p in parameters] == [r.get("scale") for r in rows]
    assert len(model.operations) == sum(entry["ops"].values())
