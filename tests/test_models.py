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
from gpunn.graph.operation import Operand
from tests.resources import shared
from tests.tflite_builder import litert_run

Array = npt.NDArray[Any]

MODELS = (
    "autoencoder_ad01",
    "cifar10_resnet8",
    "deeplabv3_257_mv_gpu",
    "face_detection_front",
    "mnist_lstm",  # its answers follow one another; each starts from the state of the one before
    "mnist_mlp",
    "mobilenet_v1_0.25_128",
    "mobilenet_v1_1.0_224",
    "mobilenet_v2_1.0_224",
    "movie_review",
    "squeezenet",
)
QUANTISED = (
    "cifar10_resnet8_int8",
    "mnistnet_uint8_quant",
    "mobilenet_v1_0.25_128_quant",
    "mobilenet_v1_1.0_224_quant",
    "mobilenet_v2_1.0_224_quant",
    "tf2_mobilenet_v2_1.0_224_ptq",
)
# Models of float32 activations and int8 filters. LiteRT's hybrid kernels round the activations to 8 bits,
# gpunn does not (docs/quantized.md); the manifest states how far LiteRT's own kernels are from each other.
HYBRID = ("kws_ref_float", "style_transfer_dynamic_384")
TOLERANCE = 1e-4  # absolute for probabilities, relative to the range for other outputs
SAME_CLASS = 0.9999  # share of the pixels of a segmentation: at a border two classes may be equally likely


@functools.cache
def manifest() -> dict[str, dict[str, Any]]:
    """Return the manifest's entries by file name without suffix."""
    entries = json.loads(shared("models/MANIFEST.json").read_text())["models"]
    return {e["file"].removeprefix("tflite/").removesuffix(".tflite"): e for e in entries}


def model_input(entry: dict[str, Any], key: str, stored: Any) -> Array:
    """Return the input of one stored answer."""
    preprocessing, (shape,) = entry["preprocessing"], [i["shape"] for i in entry["inputs"]]
    if preprocessing["kind"] == "random":
        found: Array = stored[f"{key}/in0"]
        return found
    pixels = np.asarray(Image.open(picture(key, shape)), np.float32)
    if "scale" in entry["inputs"][0]:  # stored integers are the pixels, or the pixels minus 128
        dtype = entry["inputs"][0]["dtype"].lower()
        return (pixels + np.iinfo(dtype).min).astype(dtype).reshape(shape)
    if preprocessing["kind"] == "mnist":
        return (pixels / np.float32(255)).reshape(shape)
    mean, std = np.float32(preprocessing["mean"]), np.float32(preprocessing["std"])
    return ((pixels - mean) / std).reshape(shape)


def picture(key: str, shape: list[int]) -> Any:
    """Return the image of a manifest key: t10k[3]=0, cat_0000.png (CIFAR-10), cat.bmp (a photo, resized)."""
    if key.startswith("t10k"):
        number, digit = key.removeprefix("t10k[").split("]=")
        return shared(f"models/labelled/mnist/t10k_{int(number):05}_{digit}.png")
    if key.endswith("_0000.png"):
        return shared(f"models/labelled/cifar10/{key}")
    return shared(f"models/images/resized/{key.rpartition('.')[0]}_{shape[2]}x{shape[1]}.png")


def compare(got: Array, stored: Any, key: str, probabilities: bool) -> None:
    """Assert that an output is the stored one; some are stored in part (README, `idx`, `val`, `argmax`)."""
    whole = key in stored
    expected = stored[key] if whole else stored[f"{key}/val"]
    assert list(got.shape) == list(expected.shape if whole else stored[f"{key}/shape"])
    values = got if whole else got.reshape(-1)[stored[f"{key}/idx"]]
    scale = 1.0 if probabilities else float(np.ptp(expected))
    assert np.abs(values - expected).max() <= TOLERANCE * scale
    if f"{key}/argmax" in stored:
        assert np.mean(got.argmax(-1) == stored[f"{key}/argmax"]) >= SAME_CLASS


def best(scores: Array, count: int) -> list[int]:
    """Return the best classes, the best first; the manifest puts the lowest of equal ones first."""
    ordered: list[int] = np.argsort(-scores.reshape(-1).astype(np.float64), kind="stable")[:count].tolist()
    return ordered


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
                assert best(outputs[0], len(reference)) == [row[0] for row in reference], key


@pytest.mark.parametrize(
    ("name", "shape"), [("autoencoder_ad01", (5, 640)), ("cifar10_resnet8", (3, 64, 32, 3))]
)
def test_model_of_open_shape_agrees_with_litert(name: str, shape: tuple[int, ...], backend: str) -> None:
    """The second model gets larger images than the file states; its RESHAPE gives two rows for each."""
    path = shared(f"models/tflite/{name}.tflite")
    x = np.random.default_rng(3).random(shape, np.float32)
    model = gpunn.load(path)
    fits = [i.open is not None and i.open.admits(shape) for i in model.inputs] == [True]
    with (model if fits else model.reshaped({model.inputs[0].name: shape})).compile(backend) as compiled:
        (wanted,) = litert_run(path.read_bytes(), [x])
        assert np.abs(compiled(x) - wanted).max() <= TOLERANCE * max(1.0, float(np.ptp(wanted)))


def test_a_shape_that_does_not_fit_is_refused() -> None:
    """MobileNet's last window covers images of 128 x 128; larger ones give more than one row."""
    path = shared("models/tflite/mobilenet_v1_0.25_128.tflite")
    model = gpunn.load(path)
    x = np.zeros((1, 256, 128, 3), np.float32)
    with pytest.raises(RuntimeError, match="RESHAPE"):
        litert_run(path.read_bytes(), [x])
    with pytest.raises(gpunn.ModelError, match=r"operation 29, RESHAPE.*cannot take shape \[1, 1001\]"):
        model.compile("cpu", shapes={model.inputs[0].name: x.shape})


@pytest.mark.parametrize(
    "name",
    [
        "mnistnet_uint8_quant",
        "mobilenet_v1_0.25_128",
        "mobilenet_v1_0.25_128_quant",
        "mobilenet_v2_1.0_224_quant",
        "squeezenet",
        "tf2_mobilenet_v2_1.0_224_ptq",
    ],
)
def test_any_batch_runs_if_the_file_states_one(name: str, backend: str) -> None:
    """The files end in a RESHAPE to one row; LiteRT refuses more rows."""
    model = gpunn.load(shared(f"models/tflite/{name}.tflite"))
    (operand,) = model.inputs
    real, shape = operand.type.quantization is None, (2, *operand.type.shape[1:])
    x = np.random.default_rng(5).random(shape, np.float32)
    x = x if real else (100 * x).astype(operand.type.dtype.numpy)
    with model.compile(backend) as one, model.compile(backend, shapes={operand.name: shape}) as both:
        rows = np.concatenate([one(row[None]) for row in x])
        np.testing.assert_allclose(both(x), rows, rtol=0, atol=TOLERANCE if real else 0)


def test_state_has_a_row_for_each_sample_of_any_batch(backend: str) -> None:
    """The file states one row; LiteRT refuses more samples."""
    model = gpunn.load(shared("models/tflite/mnist_lstm.tflite"))
    x = np.random.default_rng(6).random((3, 28, 28), np.float32)
    rows = []
    for row in x:
        with model.compile("cpu") as one:  # a second run would begin with the state of the first
            rows.append(one(row[None]))
    with model.compile(backend, shapes={model.inputs[0].name: x.shape}) as batch:
        np.testing.assert_allclose(batch(x), np.concatenate(rows), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_model_gives_the_stored_bits_everywhere(name: str, gpu: str) -> None:
    """Both backends' scores are those of LiteRT's default kernels; the best classes are the manifest's."""
    entry = manifest()[name]
    model = gpunn.load(shared(f"models/{entry['file']}"))
    stored = np.load(shared(f"models/{entry['expected']}"))
    with model.compile(backend="cpu") as cpu, model.compile(backend=gpu) as device:
        assert {p.backend for p in device.placement} <= {"webgpu", "alias"}
        for key, reference in entry["reference"].items():
            x = model_input(entry, key, stored)
            result = cpu(x)
            assert result.dtype == stored[f"{key}/out0"].dtype
            np.testing.assert_array_equal(result, stored[f"{key}/out0"])
            np.testing.assert_array_equal(device(x), result)
            assert best(result, len(reference)) == [row[0] for row in reference], key


@pytest.mark.parametrize("name", HYBRID)
def test_hybrid_model_is_as_near_as_litert_s_own_kernels(name: str, backend: str) -> None:
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
    entry = manifest()["coco_ssd_mobilenet_v1_1.0_quant"]
    model = gpunn.load(shared(f"models/{entry['file']}"))
    stored = np.load(shared(f"models/{entry['expected']}"))
    with model.compile(backend="cpu") as cpu, model.compile(backend=gpu) as device:
        on_host = [p.operation.op for p in device.placement if p.backend == "cpu"]
        assert on_host == ["detection_postprocess"]
        for key in entry["reference"]:
            pixels = np.asarray(Image.open(picture(key, [1, 300, 300, 3])))[None]
            for number, (ours, same) in enumerate(zip(cpu(pixels), device(pixels), strict=True)):
                np.testing.assert_array_equal(ours, stored[f"{key}/out{number}"])
                np.testing.assert_array_equal(same, ours)


def test_style_transfer_gives_the_stored_image(gpu: str) -> None:
    """Both backends have the same bits inside; LiteRT rounds numbers below 4 twice at the end."""
    entry = manifest()["style_predict_int8_256"]
    stored = np.load(shared(f"models/{entry['expected']}"))
    x = model_input(entry, "cat.bmp", stored)
    model = gpunn.load(shared(f"models/{entry['file']}"))
    with model.compile(backend="cpu") as cpu, model.compile(backend=gpu) as device:
        assert {p.backend for p in device.placement} <= {"webgpu", "alias"}
        result = cpu(x)
        np.testing.assert_array_equal(device(x), result)
    np.testing.assert_allclose(result, stored["cat.bmp/out0"], rtol=0, atol=2 * 4 * 2**-24)


def test_every_given_model_is_tested() -> None:
    others = ("coco_ssd_mobilenet_v1_1.0_quant", "style_predict_int8_256")
    given = {name for name, entry in manifest().items() if entry["format"] == "tflite"}
    assert given == {*MODELS, *QUANTISED, *HYBRID, *others}


@pytest.mark.parametrize(
    "name",
    [
        "cifar10_resnet8_int8",
        "mobilenet_v2_1.0_224_quant",
        "style_predict_int8_256",
        "tf2_mobilenet_v2_1.0_224_ptq",
    ],
)
def test_every_quantised_layer_has_the_bits_of_litert(name: str) -> None:
    """Each operation gives LiteRT's results for the inputs that it has in LiteRT."""
    interpreters = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
    entry = manifest()[name]
    path = shared(f"models/{entry['file']}")
    litert = interpreters.Interpreter(
        str(path),
        experimental_op_resolver_type=interpreters.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
        num_threads=1,
    )
    litert.allocate_tensors()
    key = next(iter(entry["reference"]))
    x = model_input(entry, key, np.load(shared(f"models/{entry['expected']}")))
    litert.set_tensor(litert.get_input_details()[0]["index"], x)
    litert.invoke()
    index = {d["name"]: d["index"] for d in litert.get_tensor_details()}

    def theirs(operand: Operand) -> Array:
        if operand.value is not None:
            return operand.value
        return np.asarray(litert.get_tensor(index[operand.name])).reshape(operand.type.shape)

    for operation in gpunn.load(path).operations:
        if operation.op != "dequantize":  # to float32; LiteRT rounds once more (docs/quantized.md)
            (found,) = operation.evaluate([None if i is None else theirs(i) for i in operation.inputs])
            np.testing.assert_array_equal(found, theirs(operation.outputs[0]), err_msg=operation.origin)


@pytest.mark.parametrize("name", [*MODELS, *QUANTISED])
def test_model_agrees_with_the_manifest(name: str) -> None:
    entry = manifest()[name]
    model = gpunn.load(shared(f"models/{entry['file']}"))
    for operands, rows in ((model.inputs, entry["inputs"]), (model.outputs, entry["outputs"])):
        assert [(o.name, list(o.type.shape)) for o in operands] == [(r["name"], r["shape"]) for r in rows]
        parameters = [o.type.quantization for o in operands]
        assert [p and p.scale[0] for p in parameters] == [r.get("scale") for r in rows]
    assert len(model.operations) == sum(entry["ops"].values())
