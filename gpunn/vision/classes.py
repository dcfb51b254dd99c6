"""Class names as output of image classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np

from gpunn.arguments import expect_path
from gpunn.errors import FormatError, ModelError
from gpunn.files import open_regular
from gpunn.graph.graph import Graph
from gpunn.graph.scores import Scoring
from gpunn.ops.fixed_point.affine import dequantize
from gpunn.types import Array, TensorType
from gpunn.vision.photos import expect_numbers, only, photo_input
from gpunn.wording import counted

ROUNDING = 1e-3  # that float32 scores may be from 1 in sum
MAX_LABEL_BYTES = 1 << 24
MOST_NAMED = 12  # classes that fit into a line or two


@dataclass(frozen=True, slots=True)
class ScoreOutput:
    """The output of a classifier: tensors `type` with a score for each of `classes`.

    `scoring` is what the model's file states of them (`model.scoring`).
    """

    type: TensorType
    classes: int
    scoring: Scoring | None = None

    def scores(self, stored: Array) -> Array:
        """Convert the scores of one photo to float32, calibrated if the model's file says how."""
        return self.calibrated(dequantize(stored, self.type.with_shape(stored.shape)))

    def calibrated(self, scores: Array) -> Array:
        """Calibrate the real scores of one photo, if the model's file says how."""
        calibration = None if self.scoring is None else self.scoring.calibration
        return scores if calibration is None else calibration(scores)

    def of_best(self, top: int) -> ScoreOutput:
        """Return what describes the scores of the `top` best classes, if all classes are calibrated alike."""
        calibration = None if self.scoring is None else self.scoring.calibration
        if self.scoring is None or calibration is None or not calibration.rises:
            return self
        some = replace(calibration, sigmoids=calibration.sigmoids[:top])
        return replace(self, scoring=replace(self.scoring, calibration=some))

    def knows(self, scores: Array) -> bool | None:
        """Tell whether the best of the scores reaches the threshold; None if the model states none.

        If it does not, the photo shows none of the classes, or none of them clearly enough.
        """
        threshold = None if self.scoring is None else self.scoring.threshold
        return None if threshold is None else bool(scores.max() >= threshold)

    def are_probabilities(self, scores: Array) -> bool:
        """Tell whether scores are a distribution: see is_distribution().

        Calibrated scores are probabilities of each class by itself: from 0 to 1, with nearly any sum.
        """
        if self.is_calibrated:
            return bool(((scores >= 0) & (scores <= 1)).all())
        total = float(scores.sum(dtype=np.float64))
        return self.is_distribution(float(scores.min()), total, float(np.count_nonzero(scores)))

    def is_distribution(self, least: float, total: float, nonzero: float = 0) -> bool:
        """Tell whether scores are a distribution by the least, their sum, and how many are not 0.

        None is negative, and the sum is 1 up to quantisation: a quantised score is off by at most half a
        step, the largest one by a whole step, because 1 itself cannot be stored. Scores stored as 0 cannot
        have made the sum larger.
        """
        low, high = 1 - self.step / 2 * (self.classes + 1), 1 + self.step / 2 * nonzero
        return self.fits_shares and least >= 0 and low - ROUNDING < total < high + ROUNDING

    @property
    def is_calibrated(self) -> bool:
        """Tell whether the model's file says how scores are calibrated."""
        return self.scoring is not None and self.scoring.calibration is not None

    @property
    def step(self) -> float:
        """Return the step of quantised scores, else 0."""
        return 0.0 if self.type.quantization is None else self.type.quantization.scale[0]

    @property
    def fits_shares(self) -> bool:
        """Tell whether the type of the scores is made for 0 to 1, and not for more."""
        return 255 * self.step <= 1 + ROUNDING


@dataclass(frozen=True, slots=True)
class Guess:
    """One class and its score."""

    index: int
    label: str
    score: float


def default_model(*, quantised: bool = False) -> Path:
    """Return the classifier in the package: ten classes of CIFAR-10, float32 or `quantised` to int8."""
    name = "cifar10_mobilenet_int8.tflite" if quantised else "cifar10_mobilenet.tflite"
    return Path(str(files("gpunn") / "data" / name))


def score_output(model: Graph) -> ScoreOutput:
    """Describe the scores that `model` gives; ModelError or UnsupportedError if it is not a classifier."""
    batch = photo_input(model).batch
    operand = only(model, model.outputs, "output")
    shape = operand.type.shape
    if not shape or shape[-1] < 2 or operand.type.size != batch * shape[-1]:
        raise ModelError(
            f"{model.name} is not a classifier: its output {operand.name!r} has shape {list(shape)}, "
            "expected [batch, classes]"
        )
    expect_numbers(model, operand, "output")
    return ScoreOutput(operand.type, shape[-1], model.scoring)


def class_labels(model: Graph, file: Path | None = None) -> tuple[str, ...]:
    """Return a name for each class: from `file`, else from the model, else "class 0", "class 1" ..."""
    count = score_output(model).classes
    if file is not None:
        expect_path("the file of class names", file)
    if file is None and not model.labels:
        return tuple(f"class {index}" for index in range(count))
    labels = model.labels if file is None else _read_labels(file)
    if len(labels) != count:
        classes = counted(count, "class", "classes")
        raise FormatError(
            f"{file or model.name} has {counted(len(labels), 'label')}, the model has {classes}"
        )
    return labels


def _read_labels(file: Path) -> tuple[str, ...]:
    with open_regular(file) as stream:
        data = stream.read(MAX_LABEL_BYTES + 1)
    if len(data) > MAX_LABEL_BYTES:
        raise FormatError(f"{file}: more than {MAX_LABEL_BYTES} bytes, expected one label a line")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{file}: not UTF-8 text, expected one label a line: {error.reason}") from None
    return tuple(line.strip() for line in text.rstrip().splitlines())


def top_k(scores: Array, labels: Sequence[str], count: int) -> tuple[Guess, ...]:
    """Return the `count` classes with the highest scores, best first; for equal scores the first class.

    Raises ModelError unless the scores are those of one photo and the count is 1 or more.
    """
    if scores.ndim != 1 or count < 1:
        raise ModelError(
            "the best classes need scores of one axis and a count of 1 or more, got shape "
            f"{list(scores.shape)} and count {count}"
        )
    return ranked(np.arange(scores.size), scores, labels)[:count]


def ranked(indices: Array, scores: Array, labels: Sequence[str]) -> tuple[Guess, ...]:
    """Return classes with these scores, best first; for equal scores the first class."""
    order = np.lexsort((indices, -scores))
    found = zip(indices[order].tolist(), scores[order].tolist(), strict=True)
    return tuple(Guess(index, labels[index], score) for index, score in found)


def known_classes(model: Graph, labels: Sequence[str]) -> str:
    """Say in one line which classes a classifier knows: the names of few, the number of many."""
    knows = f"{model.name} knows {counted(len(labels), 'class', 'classes')}"
    return f"{knows}: {', '.join(labels)}" if len(labels) <= MOST_NAMED else knows


def verdict(best: Guess, known: bool | None, *, probability: bool = True) -> str:
    """Say in a few words what a photo shows; `known` is what ScoreOutput.knows() says of its scores."""
    figure = f"{best.score:.0%}" if probability else f"{best.score:.4g}"
    if known is False:
        return f"nothing I know for sure (most like: {best.label} {figure})"
    return f"{best.label} {figure}"
