"""vision.classifier(): a run takes bytes and gives the best classes, as the road by way of the host does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn import Model, ModelError, vision
from gpunn.graph.scores import Calibration, Scoring, Sigmoid
from gpunn.types import Array, DType, Quantization, TensorType, float32

CLASSES = 7
# A float32 network of some 30 layers, each rounded to 2^-24: as 0.02 is for layers rounded to 2^-11
# (tests/cli/test_classify.py).
MANY_LAYERS = 0.02 * 2**-13


def bytes_of(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def quantised(dtype: DType, *shape: int, scale: float = 1 / 128, zero: int = 0) -> TensorType:
    return TensorType(dtype, shape, Quantization((scale,), (zero,)))


def passing_on(type: TensorType) -> Model:
    """Return a model whose result is its input with the height turned round."""
    model = Model("pass on")
    axes = model.constant("axes", np.int32([1]))
    model.output(*model.add("reverse", [model.input("image", type), axes]))
    return model


FLOATS = (float32(2, 5, 3, 3), float32(1, 4, 7, 1))
SCALES: tuple[tuple[Any, Any], ...] = ((None, None), (0.0, 255.0), (0.0, 1.0), (127.5, 1.0), (3.25, -0.7))
EACH = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
STORED = (quantised(DType.UINT8, 1, 5, 3, 3, zero=100), quantised(DType.INT8, 2, 5, 3, 3, zero=-3))


@pytest.mark.parametrize(
    ("type", "scale"),
    [
        *((type, scale) for type in FLOATS for scale in SCALES),
        (FLOATS[0], EACH),
        *((type, scale) for type in STORED for scale in ((None, None), (127.5, 127.5), EACH)),
    ],
    ids=str,
)
def test_bytes_become_the_values_that_the_host_computes(
    type: TensorType, scale: tuple[Any, Any], backend: str
) -> None:
    """To the bit on the CPU; a GPU may divide with an error of 2.5 units in the last place (WGSL)."""
    model, pixels = passing_on(type), bytes_of(*type.shape)
    wanted = vision.photo_input(model, *scale)
    made = vision.takes_bytes(model, wanted)
    assert made.inputs[0].type.dtype is DType.UINT8
    assert (made.inputs[0].name, made.outputs[0].type) == ("image", type)
    expected = wanted.stored(pixels)[:, ::-1]
    with made.compile(backend) as compiled:
        found = np.asarray(compiled(pixels))
        assert compiled.stats.bytes_uploaded in (0, pixels.size)
    assert found.dtype == expected.dtype
    if backend == "cpu" or type.quantization is not None:
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_array_max_ulp(found, expected, 2.5)


@pytest.mark.parametrize("type", [*FLOATS, *STORED], ids=str)
def test_photos_become_the_bytes_that_such_a_model_takes(type: TensorType) -> None:
    made = vision.takes_bytes(passing_on(type), vision.photo_input(passing_on(type)))
    given = vision.photo_input(made)
    assert (given.scale, given.channels) == ("bytes", type.shape[3])
    pixels = bytes_of(*type.shape)
    np.testing.assert_array_equal(given.stored(pixels), pixels)
    assert vision.takes_bytes(made, given) is made


def test_a_convolution_takes_the_division_into_its_weights(backend: str) -> None:
    """Each of the 27 products has three more roundings at most: of the quotient, the weight, the product."""
    rng = np.random.default_rng(5)
    filter = rng.normal(size=(6, 3, 3, 3)).astype(np.float32)
    model = Model("conv")
    image = model.input("image", float32(1, 9, 11, 3))
    constants = [model.constant("w", filter), model.constant("b", np.zeros(6, np.float32))]
    attrs = {"stride": (2, 2), "padding": "same"}
    model.output(*model.add("conv2d", [image, *constants], attrs))
    wanted, pixels = vision.photo_input(model, *EACH), bytes_of(1, 9, 11, 3)
    with vision.takes_bytes(model, wanted).compile(backend) as compiled:
        found = np.asarray(compiled(pixels))
    values = wanted.stored(pixels)
    (expected,), (size,) = (
        Model.evaluate(model, [values]),
        _with_filter(model, np.abs(filter)).evaluate([np.abs(values)]),
    )
    assert (np.abs(found - expected) <= (2 * 27 + 3 + 3) * 2**-24 * size).all()


def _with_filter(model: Model, filter: Array) -> Model:
    made = Model("absolute values")
    (operation,) = model.operations
    inputs = [
        made.input("image", model.inputs[0].type),
        made.constant("w", filter),
        made.constant("b", np.zeros(filter.shape[0], np.float32)),
    ]
    made.output(*made.add("conv2d", inputs, operation.attrs))
    return made


def scoring_model(kind: str, batch: int = 1, classes: int = CLASSES, scoring: Scoring | None = None) -> Model:
    """Return a classifier of pictures of 2 x 3 pixels: a product, and what gives scores.

    Its input are the bytes as real numbers, so products of small integers are exact.
    """
    model = Model(kind, labels=tuple(f"class {k}" for k in range(classes)))
    model.scoring = scoring
    image = model.input("image", float32(batch, 2, 3, 3))
    (row,) = model.add("reshape", [image], {"shape": (batch, 18)})
    weights = np.random.default_rng(classes).integers(-3, 4, (classes, 18)).astype(np.float32) / 128
    (logits,) = model.add("fully_connected", [row, model.constant("w", weights), None])
    model.output(*_END[kind](model, logits))
    return model


def _softmax(model: Model, logits: Any) -> Any:
    return model.add("softmax", [logits])


def _shares(model: Model, logits: Any) -> Any:
    """Add a softmax that is written in other operations."""
    (powers,) = model.add("exp", model.add("mul", [logits, model.constant("0.1", np.float32(0.1))]))
    (total,) = model.add("reduce_sum", [powers], {"axes": (1,), "keep_dims": True})
    return model.add("div", [powers, total])


def _in_bytes(model: Model, logits: Any) -> Any:
    attrs = {"dtype": "int8", "scale": 1 / 256, "zero_point": -128}
    return model.add("quantize", model.add("logistic", [logits]), attrs)


def _flattened(model: Model, logits: Any) -> Any:
    (found,) = model.add("softmax", [logits])
    return model.add("reshape", [found], {"shape": (found.type.shape[0], 1, 1, found.type.shape[1])})


_END = {
    "logits": lambda model, logits: [logits],
    "softmax": _softmax,
    "shares": _shares,
    "in bytes": _in_bytes,
    "flattened": _flattened,
    "dequantised": lambda model, logits: model.add("dequantize", _in_bytes(model, logits)),
}


def on_host(model: Model, results: Array, top: int) -> list[vision.Answer]:
    """Return the answers as the host finds them among all scores of each photo."""
    output, labels = vision.score_output(model), vision.class_labels(model)
    found = []
    for row in results.reshape(-1, output.classes):
        scores = output.scores(row)
        best = vision.top_k(scores, labels, top)
        found.append(vision.Answer(best, output.are_probabilities(scores), output.knows(scores)))
    return found


def same(found: Sequence[vision.Answer], expected: Sequence[vision.Answer], atol: float) -> None:
    """Assert that answers are the same, and their scores up to `atol`."""
    for one, other in zip(found, expected, strict=True):
        assert [g.index for g in one.best] == [g.index for g in other.best]
        assert [g.label for g in one.best] == [g.label for g in other.best]
        assert (one.probabilities, one.known) == (other.probabilities, other.known)
        scores = ([g.score for g in answer.best] for answer in (one, other))
        np.testing.assert_allclose(*scores, rtol=0, atol=atol)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("kind", _END)
def test_answers_are_those_of_all_scores(kind: str, batch: int, backend: str) -> None:
    model, pixels = scoring_model(kind, batch), bytes_of(batch, 2, 3, 3)
    classifier = vision.classifier(model, top=3, mean=0, std=1)
    with model.compile(backend) as whole, classifier.model.compile(backend) as compiled:
        scores = np.asarray(whole(pixels.astype(np.float32)))
        found = classifier.answers(compiled(pixels))
    # Both are the same operations on the same numbers.
    same(found, on_host(model, scores, 3), 0)
    assert [answer.probabilities for answer in found] == [kind in ("softmax", "shares", "flattened")] * batch


@pytest.mark.parametrize(("top", "named"), [(1, 1), (5, 5), (50, CLASSES)])
def test_a_run_takes_bytes_and_gives_few_numbers(top: int, named: int, gpu: str) -> None:
    classifier = vision.classifier(scoring_model("softmax", 2), top=top)
    pixels = bytes_of(2, 2, 3, 3)
    with classifier.model.compile(gpu) as compiled:
        compiled(pixels)
        before = compiled.stats.bytes_uploaded, compiled.stats.bytes_read_back
        (first, second) = classifier.answers(compiled(pixels))
        assert compiled.stats.bytes_uploaded - before[0] == pixels.size
        assert compiled.stats.bytes_read_back - before[1] == 2 * named * 8
    assert len(first.best) == len(second.best) == named


@pytest.mark.parametrize("quantised", [False, True])
def test_the_packaged_classifier_answers_as_by_way_of_the_host(quantised: bool, backend: str) -> None:
    model = gpunn.load(vision.default_model(quantised=quantised))
    classifier = vision.classifier(model)
    wanted, pictures = vision.photo_input(model), bytes_of(4, 1, 32, 32, 3)
    with model.compile(backend) as whole, classifier.model.compile(backend) as compiled:
        for pixels in pictures:
            scores = np.asarray(whole(wanted.stored(pixels)))
            same(
                classifier.answers(compiled(pixels)),
                on_host(model, scores, 5),
                0 if quantised else MANY_LAYERS,
            )
        assert all(row.backend != "cpu" for row in compiled.placement) or backend == "cpu"
        assert compiled.stats.dispatches <= (whole.stats.dispatches // 4 + 2) * 4
        if backend == "webgpu":
            assert compiled.stats.bytes_uploaded == pictures.size
            assert compiled.stats.bytes_read_back == 4 * 5 * 8


CALIBRATIONS = {
    "one for all": Calibration("log odds", (Sigmoid(1, 1.1, 0),) * CLASSES),
    "of each class": Calibration("logarithm", tuple(Sigmoid(1, 1 - k / 9, k) for k in range(CLASSES))),
    "some unknown": Calibration("identity", (None, *(Sigmoid(1, 1, 0),) * (CLASSES - 1)), 0.75),
    "falling": Calibration("identity", (Sigmoid(1, -1, 0),) * CLASSES),
    "with a least": Calibration("identity", (Sigmoid(1, 1, 0, 0.2),) * CLASSES, 0.1),
    "too large": Calibration("identity", (Sigmoid(1.9, 1, 0.5),) * CLASSES),
}


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_scores_are_calibrated_as_on_the_host(name: str) -> None:
    """All scores are read back where only calibrated ones have an order."""
    scoring = Scoring(CALIBRATIONS[name], 0.8)
    model, pixels = scoring_model("softmax", 4, scoring=scoring), bytes_of(4, 2, 3, 3)
    classifier = vision.classifier(model, top=4, mean=0, std=64)
    rises = name in ("one for all", "too large")
    assert len(classifier.model.outputs) == (2 if rises else 1)
    with model.compile("cpu") as whole, classifier.model.compile("cpu") as compiled:
        scores = np.asarray(whole(pixels.astype(np.float32) / 64))
        same(classifier.answers(compiled(pixels)), on_host(model, scores, 4), 0)


def test_where_calibrated_scores_saturate_the_best_classes_before_are_taken() -> None:
    """All of the seven become 1: of these are named the four that were the best, in the order of classes."""
    scoring = Scoring(Calibration("identity", (Sigmoid(1, 900, 100),) * CLASSES))
    model, pixels = scoring_model("softmax", scoring=scoring), bytes_of(1, 2, 3, 3)
    classifier = vision.classifier(model, top=4, mean=0, std=64)
    (scores,) = model.evaluate([pixels.astype(np.float32) / 64])
    (answer,) = classifier.answers(classifier.model.evaluate([pixels]))
    assert {guess.score for guess in answer.best} == {1}
    assert [guess.index for guess in answer.best] == sorted(np.argsort(-scores[0], kind="stable")[:4])


@pytest.mark.parametrize("kind", ["softmax", "logits"])
def test_equal_scores_are_in_the_order_of_the_classes(kind: str, backend: str) -> None:
    classifier = vision.classifier(scoring_model(kind, classes=40), top=6)
    equal = vision.classifier(scoring_model(kind, classes=40), top=6, mean=0, std=1)
    black = np.zeros((1, 2, 3, 3), np.uint8)
    with equal.model.compile(backend) as compiled:
        (answer,) = equal.answers(compiled(black))
    assert [guess.index for guess in answer.best] == [0, 1, 2, 3, 4, 5]
    assert {guess.score for guess in answer.best} == {np.float32(1 / 40) if kind == "softmax" else 0}
    assert len(classifier.labels) == 40


def test_numbers_that_are_none_come_last_and_are_no_probabilities() -> None:
    """Of equal scores, and among numbers that are none, the first class comes first."""
    classifier = vision.classifier(scoring_model("softmax", classes=3), top=3)
    scores = np.float32([[np.nan, np.nan, np.nan]])
    (answer,) = classifier.answers((np.int32([[0, 1, 2]]), scores))
    assert [guess.index for guess in answer.best] == [0, 1, 2]
    assert answer.probabilities is False


def test_another_batch_is_asked_for_before() -> None:
    model = gpunn.load(vision.default_model()).reshaped({"image": (3, 32, 32, 3)})
    classifier = vision.classifier(model, top=2)
    assert [o.type.shape for o in (*classifier.model.inputs, *classifier.model.outputs)] == [
        *((3, 32, 32, 3), (3, 2), (3, 2))
    ]
    assert len(classifier.answers((np.zeros((3, 2), np.int32), np.zeros((3, 2), np.float32)))) == 3


@pytest.mark.parametrize("top", [0, -1])
def test_no_class_is_no_answer(top: int) -> None:
    with pytest.raises(ModelError, match="1 or more"):
        vision.classifier(scoring_model("softmax"), top=top)


@pytest.mark.parametrize("other", [5, b"cat.jpg", ["cat.jpg"]])
def test_files_are_named_by_paths(other: Any) -> None:
    model = scoring_model("softmax")
    with pytest.raises(ModelError, match="the file of class names must be a path, got"):
        vision.classifier(model, labels=other)
    with pytest.raises(ModelError, match="a photo must be a path, got"):
        vision.preprocess(model, other)
