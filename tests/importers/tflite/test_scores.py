"""Score calibration and score threshold in the TFLite metadata of a file."""

from __future__ import annotations

import copy
import math
import pickle
import struct

import numpy as np
import pytest

from gpunn import load, vision
from gpunn.graph.scores import Calibration, Scoring, Sigmoid
from gpunn.types import float32
from tests.metadata import AXIS_CALIBRATION, AXIS_LABELS, Scores, metadata, with_files
from tests.tflite_builder import Graph

FILE = "calibration.csv"
PARAMETERS = "1,2,0.5\n\n0.8,-1,0,0.25"
EXPECTED = (Sigmoid(1, 2, 0.5), None, Sigmoid(0.8, -1, 0, 0.25))


def file(scores: Scores | None, text: str | None = PARAMETERS, outputs: int = 1) -> bytes:
    graph = Graph()
    number = graph.input(float32(1, 3))
    ends = [graph.add("RELU", [number], [float32(1, 3)])[0] for _ in range(outputs)]
    made = graph.build(ends, metadata={"TFLITE_METADATA": metadata(None, scores=scores)})
    return made if text is None else with_files(made, {"labels.txt": "a\nb\nc\n", FILE: text})


def stated(transform: int = 2, default: float = 0.125, threshold: float | None = 0.9) -> Scores:
    return Scores((transform, default), threshold, {"labels.txt": AXIS_LABELS, FILE: AXIS_CALIBRATION})


@pytest.mark.parametrize("number", [0, 1, 2])
def test_calibration_and_threshold(number: int) -> None:
    transform = ("identity", "logarithm", "log odds")[number]
    found = load(file(stated(number))).scoring
    assert found == Scoring(Calibration(transform, EXPECTED, 0.125), 0.9)  # type: ignore[arg-type]


def test_one_without_the_other() -> None:
    assert load(file(Scores(threshold=0.25))).scoring == Scoring(None, 0.25)
    found = load(file(stated(threshold=None))).scoring
    assert found is not None and found.calibration is not None and found.threshold is None
    assert load(file(None)).scoring is None
    assert load(file(Scores())).scoring is None
    assert load(file(stated(), outputs=2)).scoring is None  # of which output?


@pytest.mark.parametrize(
    "text",
    [
        None,
        "1,2,0.5",
        "1,2,0.5\n\n0.8,-1,0\n\n",
        "1,2\n\n0.8,-1,0",
        "1,2,0.5,0,7\n\n0.8,-1,0",
        "one,2,0.5\n\n0.8,-1,0",
        "-1,2,0.5\n\n0.8,-1,0",
        "1,nan,0.5\n\n0.8,-1,0",
        "1,2,inf\n\n0.8,-1,0",
    ],
)
def test_parameters_that_cannot_be_used_count_as_none(text: str | None) -> None:
    model = load(file(stated(), text))
    assert model.scoring == Scoring(None, 0.9)
    (warning,) = model.warnings
    assert warning.startswith("the scoring in the TFLite metadata cannot be used, and is ignored: ")


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_last_line_may_end(end: str) -> None:
    found = load(file(stated(), PARAMETERS + end)).scoring
    assert found is not None and found.calibration is not None
    assert found.calibration.sigmoids == EXPECTED


def test_statements_that_cannot_be_used_count_as_none() -> None:
    assert load(file(stated(transform=3))).scoring == Scoring(None, 0.9)
    assert load(file(stated(default=math.inf))).scoring == Scoring(None, 0.9)
    assert load(file(Scores(threshold=math.nan))).scoring is None
    unnamed = Scores((0, 0.0), None, {"other.csv": AXIS_CALIBRATION})
    assert load(file(unnamed)).scoring is None
    assert load(file(Scores((0, 0.0), None))).scoring is None
    assert load(file(stated())).warnings == ()


def test_damaged_metadata_is_no_obstacle() -> None:
    whole = file(stated())
    found = metadata(None, scores=stated())
    start = whole.index(found)
    for place in range(start, start + len(found), 4):
        damaged = bytearray(whole)
        struct.pack_into("<I", damaged, place, 0xFFFFFFFF)
        assert len(load(bytes(damaged)).operations) == 1


def test_the_scoring_stays_with_the_model() -> None:
    model = load(file(stated()))
    assert model.scoring is not None
    for other in (
        model.reshaped({model.inputs[0].name: (4, 3)}),
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
    ):
        assert other.scoring == model.scoring


@pytest.mark.parametrize(
    ("transform", "score", "expected"),
    [
        ("identity", 0.5, 1 / (1 + math.exp(-1.5))),
        ("logarithm", math.exp(-1), 1 / (1 + math.exp(1.5))),
        ("log odds", 0.75, 1 / (1 + math.exp(-2 * math.log(3) - 0.5))),
        # 0 and 1 have no finite odds: their logarithm goes on below 1e-16, to log(1e-16 / 2) at 0.
        ("logarithm", 0.0, 1 / (1 + math.exp(-2 * math.log(0.5e-16) - 0.5))),
        ("log odds", 1.0, 1.0),
    ],
)
def test_the_formula_of_the_metadata(transform: str, score: float, expected: float) -> None:
    convert = Calibration(transform, (Sigmoid(1, 2, 0.5), None), 0.125)  # type: ignore[arg-type]
    found = convert(np.float32([[score, score]]))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[expected, 0.125]], rtol=1e-6)


def test_scores_below_the_least_get_the_default() -> None:
    convert = Calibration("identity", (Sigmoid(0.8, 1, 0, 0.25),), 0.5)
    half = 0.8 / (1 + math.exp(-0.25))
    np.testing.assert_allclose(convert(np.float32([[0.25], [0.2499]])), [[half], [0.5]], rtol=1e-6)


def test_calibration_keeps_the_order_of_scores() -> None:
    """With one slope for all classes: as packaged models have it."""
    scores = np.sort(np.random.default_rng(0).dirichlet([0.2] * 10, 200).astype(np.float32), axis=1)
    found = Calibration("log odds", (Sigmoid(1, 1.1, 0),) * 10)(scores)
    assert (np.diff(found, axis=1) >= 0).all()
    assert ((found >= 0) & (found <= 1)).all()


def test_vision_reads_scores_as_the_file_says() -> None:
    graph = Graph()
    number = graph.input(float32(1, 2, 2, 3))
    (end,) = graph.add("MEAN", [number, graph.constant(np.int32([1, 2]))], [float32(1, 3)])
    made = graph.build([end], metadata={"TFLITE_METADATA": metadata(None, scores=stated(0, 0.0, 0.7))})
    model = load(with_files(made, {FILE: "1,1,0\n1,1,0\n1,1,0", "labels.txt": "a\nb\nc\n"}))
    output = vision.score_output(model)
    scores = output.scores(np.float32([0, 1, 0.5]))
    np.testing.assert_allclose(scores, 1 / (1 + np.exp([0, -1, -0.5])), rtol=1e-6)
    assert output.are_probabilities(scores)
    assert output.knows(scores) is True
    assert output.knows(output.scores(np.float32([0, 0.8, 0.5]))) is False
    (best,) = vision.top_k(scores, model.labels, 1)
    assert vision.verdict(best, True) == "b 73%"
    assert vision.verdict(best, None) == "b 73%"
    assert vision.verdict(best, False) == "nothing I know for sure (most like: b 73%)"
    assert vision.known_classes(model, model.labels) == "model knows 3 classes: a, b, c"
    assert vision.known_classes(model, ["x"] * 13) == "model knows 13 classes"
