"""finetune(): colours that are told apart, what stays, what is written, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpunn
from gpunn import vision
from gpunn.finetuning.layers import last_layer
from gpunn.finetuning.photos import full_batches
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import Array, DType
from tests.finetuning.models import two_layers
from tests.importers.coreml import twins
from tests.tflite_builder import litert_run

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
MODELS = {"tflite": twins.tflite, "mlmodel": twins.mlmodel}


def photos(count: int = 6, *names: str) -> dict[str, list[Image.Image]]:
    """Pictures of colours with some noise, by the colours' names."""
    random = np.random.default_rng(0)

    def picture(colour: tuple[int, int, int]) -> Image.Image:
        noise = random.integers(0, 60, (8, 8, 3))
        return Image.fromarray(np.clip(np.array(colour) + noise - 30, 0, 255).astype(np.uint8))

    return {name: [picture(COLOURS[name]) for _ in range(count)] for name in names or COLOURS}


def tuned(model: bytes, backend: str = "cpu", **options: Any) -> gpunn.Finetuned:
    stated = {"epochs": 30, "batch": 4, "learning_rate": 0.05, **options}
    examples = stated.pop("examples", photos())
    return gpunn.finetune(gpunn.load(model), examples, backend=backend, **stated)


def answers(model: Model, pictures: list[Image.Image]) -> list[str]:
    given, labels = vision.score_output(model), vision.class_labels(model)
    with model.compile("cpu") as compiled:
        scores = [np.asarray(compiled(vision.preprocess(model, p))).reshape(-1) for p in pictures]
    return [vision.top_k(given.scores(s), labels, 1)[0].label for s in scores]


def constants(model: Model) -> list[Array]:
    return [o.value for o in model.operands() if o.value is not None and o.type.dtype is DType.FLOAT32]


@pytest.mark.parametrize("kind", MODELS)
def test_colours_are_told_apart(kind: str, backend: str, tmp_path: Path) -> None:
    found = tuned(MODELS[kind](), backend)
    assert (found.labels, found.replaced, found.before) == (("red", "green", "blue"), True, None)
    assert (found.trained, found.measured) == (15, 3)
    assert not found.unscored
    assert found.epochs[-1].accuracy == 1
    assert found.epochs[-1].loss < found.epochs[0].loss
    assert len(found.losses) == 30 * 4
    assert found.backend == backend
    found.model.save(tmp_path / "model")
    again = gpunn.load(tmp_path / "model")
    assert again.labels == found.labels
    for name, pictures in photos(3).items():
        assert answers(again, pictures) == answers(found.model, pictures) == [name] * 3


def test_backends_and_runs_agree(gpu: str) -> None:
    first, same, other, elsewhere = (
        tuned(twins.tflite(), b, epochs=2, seed=s) for b, s in (("cpu", 0), ("cpu", 0), ("cpu", 1), (gpu, 0))
    )
    assert first.losses == same.losses
    assert all(map(np.array_equal, constants(first.model), constants(same.model)))
    assert first.losses != other.losses
    np.testing.assert_allclose(first.losses, elsewhere.losses, rtol=1e-4)


@pytest.mark.parametrize("layers", ["last", "all"])
def test_what_is_trained(layers: str) -> None:
    told: list[gpunn.FinetuneProgress] = []
    found = tuned(two_layers(), layers=layers, on_progress=told.append, epochs=2)
    first = next(o for o in found.model.operands() if o.name == "first")
    before = next(o for o in gpunn.load(two_layers()).operands() if o.name == "first")
    assert np.array_equal(*map(value, (first, before))) is (layers == "last")
    features = [p for p in told if p.stage == "features"]
    assert [p.done for p in features] == ([4, 8, 12, 16, 18] if layers == "last" else [])
    assert [p.done for p in told if p.stage == "photos"] == [*range(1, 19)]
    training = [p for p in told if p.stage == "training"]
    assert [(p.epoch, p.done) for p in training] == [(e, k) for e in (0, 1) for k in (1, 2, 3, 4, 4)]
    assert [p.accuracy for p in training if p.accuracy is not None] == [e.accuracy for e in found.epochs]


def value(operand: Operand) -> Array:
    assert operand.value is not None
    return operand.value


def test_logits_are_trained_too() -> None:
    found = tuned(two_layers(softmax=False))
    assert found.epochs[-1].accuracy == 1
    x = np.zeros((1, 6, 6, 3), np.float32)
    with found.model.compile("cpu") as compiled:
        assert not np.isclose(np.asarray(compiled(x)).sum(), 1)


def test_litert_computes_the_same_for_the_new_classes(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed (extra: compare)")
    x = np.random.default_rng(0).uniform(-1, 1, (1, twins.HEIGHT, twins.WIDTH, 3)).astype(np.float32)
    for count in (2, 3):
        found = tuned(twins.tflite(), examples=photos(4, *[*COLOURS][:count]), epochs=1)
        found.model.save(tmp_path / "model.tflite")
        (scores,) = litert_run((tmp_path / "model.tflite").read_bytes(), [x])
        assert scores.shape == (1, count)
        with found.model.compile("cpu") as compiled:
            np.testing.assert_allclose(scores, compiled(x), rtol=1e-5, atol=1e-7)


def test_the_classes_of_the_model_are_kept(tmp_path: Path) -> None:
    names = dict(zip(("dog", "bee"), photos(4, "red", "green").values(), strict=True))
    found = tuned(twins.mlmodel(), examples=names, keep_classes=True, epochs=2)
    assert (found.labels, found.replaced) == (twins.LABELS, False)
    assert found.before is not None
    first = tuned(twins.mlmodel(), examples=names, keep_classes=True, epochs=1, learning_rate=0.0)
    original, after = gpunn.load(twins.mlmodel()), first.model
    assert all(map(np.array_equal, constants(original), constants(after)))
    in_order = {name: pictures for name, pictures in zip(twins.LABELS[::-1], [names["dog"]] * 4, strict=True)}
    assert tuned(twins.mlmodel(), examples=in_order, epochs=1).labels == twins.LABELS
    with pytest.raises(gpunn.ModelError, match=r"'red' is no class of model, which has ant, bee, cat, dog"):
        tuned(twins.mlmodel(), keep_classes=True)


def test_a_training_stops() -> None:
    found = tuned(twins.tflite(), on_progress=lambda p: p.stage != "training" or p.done < 2)
    assert (len(found.losses), len(found.epochs)) == (2, 1)
    for stage in ("photos", "features"):
        with pytest.raises(gpunn.RunCancelledError, match="before it trained anything"):
            tuned(twins.tflite(), on_progress=lambda p, s=stage: p.stage != s)


def test_files_that_are_no_photos_are_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "red"
    folder.mkdir()
    files = [folder / f"{k}.png" for k in range(3)]
    for file in files[:2]:
        Image.new("RGB", (9, 9), "red").save(file)
    files[2].write_text("no photo")
    examples = {"red": [*files, folder / "gone.png"], **photos(3, "blue")}
    found = tuned(twins.tflite(), examples=examples, epochs=1)
    assert (found.trained, found.measured) == (3, 2)
    assert [*found.skipped.no_photos, *found.skipped.unreadable] == [files[2], folder / "gone.png"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"examples": photos(3, "red")}, "two classes or more apart, got photos of 1"),
        ({"examples": {**photos(3, "red"), "blue": []}}, "class 'blue' has 0 photos$"),
        (
            {"examples": photos(1, "red", "blue")},
            "class 'red' has 1 photo; with validation on 20% .* needs 2",
        ),
        ({"examples": {**photos(3, "red"), "a\nb": photos(3)["red"]}}, "is no name for a class"),
        ({"examples": {**photos(3, "red"), " ": photos(3)["red"]}}, "is no name for a class"),
        ({"examples": {"red": "folder", "blue": "other"}}, "names of classes to lists of photos"),
        ({"examples": {"red": [5], "blue": [6]}}, "names of classes to lists of photos"),
        ({"examples": {1: [], 2: []}}, "names of classes to lists of photos"),
        ({"examples": "folder"}, "names of classes to lists of photos"),
        ({"epochs": 0}, "epochs must be an integer of 1 or more, got 0"),
        ({"epochs": 1.5}, "epochs must be an integer of 1 or more, got 1.5"),
        ({"epochs": "3"}, "epochs must be an integer of 1 or more, got '3'"),
        ({"epochs": True}, "epochs must be an integer of 1 or more, got True"),
        ({"epochs": float("nan")}, "epochs must be an integer of 1 or more, got nan"),
        ({"batch": 0}, "batch must be an integer of 1 or more, got 0"),
        ({"batch": 2.5}, "batch must be an integer of 1 or more, got 2.5"),
        ({"seed": -1}, "seed must be an integer of 0 or more, got -1"),
        ({"seed": "x"}, "seed must be an integer of 0 or more, got 'x'"),
        ({"keep_classes": "no"}, "keep_classes must be True or False, got 'no'"),
        ({"augment": 2}, "augment must be True or False, got 2"),
        ({"on_progress": 5}, "on_progress must be a function, got 5"),
        ({"validation": 1.0}, "validation must be 0 or more, and less than 1, got 1.0"),
        ({"validation": "x"}, "validation must be 0 or more, and less than 1, got 'x'"),
        ({"layers": "first"}, "layers are last or all, got 'first'"),
        ({"optimizer": "best"}, "the optimizer is adam or sgd, got 'best'"),
        ({"learning_rate": -1.0}, "a learning rate must be 0 or more"),
        ({"learning_rate": 1e38, "epochs": 5, "optimizer": "sgd"}, "the loss is .* in step"),
    ],
)
def test_what_does_not_fit(options: dict[str, Any], match: str) -> None:
    with pytest.raises((gpunn.ModelError, gpunn.DivergenceError), match=match):
        tuned(twins.tflite(), **options)


def test_a_path_is_no_model() -> None:
    with pytest.raises(gpunn.ModelError, match=r"expected a gpunn.Model, .* got str"):
        gpunn.finetune("model.tflite", photos())  # type: ignore[arg-type]


def test_without_validation() -> None:
    found = tuned(twins.tflite(), validation=0, examples=photos(1), epochs=2)
    assert (found.trained, found.measured) == (3, 0)
    assert [epoch.accuracy for epoch in found.epochs] == [None, None]


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (two_layers(quantised=True), "last layer, .* are quantised: only float32"),
        (two_layers(shared=True), "the last layer cannot be exchanged: .*ADD"),
        (vision.default_model(quantised=True).read_bytes(), "last layer, .* are int8: only float32"),
        (twins.tflite(classes=False), "is not a classifier"),
    ],
    ids=["hybrid", "shared", "quantised", "no classifier"],
)
def test_models_that_are_refused(model: bytes, match: str) -> None:
    with pytest.raises((gpunn.UnsupportedError, gpunn.ModelError), match=match):
        tuned(model)


def test_models_without_a_file_are_refused() -> None:
    model = gpunn.load(twins.tflite())
    model.add("relu", [model.outputs[0]])
    with pytest.raises(gpunn.UnsupportedError, match="is of no file, or was changed"):
        gpunn.finetune(model, photos())


def test_the_packaged_classifier_loses_its_calibration_and_keeps_the_rest(tmp_path: Path) -> None:
    """The numbers of the calibration are those of the old weights."""
    source = gpunn.load(vision.default_model())
    assert source.scoring is not None
    found = gpunn.finetune(source, photos(2, "red", "blue"), epochs=1, backend="cpu")
    assert found.unscored
    found.model.save(tmp_path / "model.tflite")
    again = gpunn.load(tmp_path / "model.tflite")
    assert (again.labels, again.scoring, again.warnings) == (("red", "blue"), None, ())
    assert again.inputs[0].type == source.inputs[0].type
    last = last_layer(again)
    assert value(last.filter).shape == (2, 256)
    front = source.operations[: last.number]
    for one, other in zip(front, again.operations, strict=False):
        for a, b in zip(one.inputs, other.inputs, strict=True):
            assert a is None or b is None or a.value is None or np.array_equal(a.value, value(b))


def test_mini_batches_are_full() -> None:
    found = [batch.tolist() for batch in full_batches(np.arange(5), 2)]
    assert found == [[0, 1], [2, 3], [4, 0]]
    assert [batch.tolist() for batch in full_batches(np.arange(2), 5)] == [[0, 1, 0, 1, 0]]
