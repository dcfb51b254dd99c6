"""classifier(): photos in, the best classes out, with all that a device can do of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpunn.graph.pixels import GivenNumbers
from gpunn.model import Model
from gpunn.types import Array
from gpunn.vision.classes import Guess, ScoreOutput, class_labels, ranked, score_output, verdict
from gpunn.vision.photos import PhotoInput, photo_input
from gpunn.vision.steps import gives_best, takes_bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one photo: its best classes, best first.

    probabilities: whether the scores are probabilities; known: what ScoreOutput.knows() says of them.
    """

    best: tuple[Guess, ...]
    probabilities: bool
    known: bool | None

    @property
    def said(self) -> str:
        """Say in a few words what the photo shows."""
        return verdict(self.best[0], self.known, probability=self.probabilities)


@dataclass(frozen=True, slots=True, eq=False)
class Classifier:
    """A `model` that takes the bytes of photos and gives the best classes; see classifier().

    photos: its input, whose values() are the bytes of a photo in the size of the model. wanted: how bytes
    become values inside. given: the scores of all classes; best: of the `top` ones that the model gives.
    labels: a name for each class.
    """

    model: Model
    photos: PhotoInput
    wanted: PhotoInput
    given: ScoreOutput
    best: ScoreOutput
    labels: tuple[str, ...]
    top: int

    def answers(self, results: Array | Sequence[Array]) -> tuple[Answer, ...]:
        """Return the answer to each photo of a batch; `results` are what a run of the model gives."""
        if len(self.model.outputs) == 1:
            rows = np.asarray(results).reshape(-1, self.given.classes)
            return tuple(self._of_all(self.given.calibrated(row)) for row in rows)
        return tuple(self._of_best(*row) for row in zip(*results, strict=True))

    def _of_all(self, scores: Array) -> Answer:
        best = ranked(np.arange(scores.size), scores, self.labels)[: self.top]
        return Answer(best, self.given.are_probabilities(scores), self.given.knows(scores))

    def _of_best(self, indices: Array, scores: Array, *sums: Array) -> Answer:
        found = self.best.calibrated(scores)
        if sums:
            probabilities = self.best.is_distribution(*map(float, sums))
        elif self.best.is_calibrated:
            probabilities = self.best.are_probabilities(found)
        else:  # of a softmax
            probabilities = self.best.fits_shares and bool(np.isfinite(found).all())
        return Answer(ranked(indices, found, self.labels), probabilities, self.best.knows(found))


def classifier(
    model: Model,
    *,
    top: int = 5,
    labels: Path | None = None,
    mean: GivenNumbers | None = None,
    std: GivenNumbers | None = None,
) -> Classifier:
    """Make of a classifier's model one that takes bytes of photos and gives only the best classes.

    The model that is to be compiled, Classifier.model, takes uint8 [batch, height, width, channels], scales
    the bytes itself (takes_bytes()), and gives the `top` best classes and their scores (gives_best()): a run
    uploads a byte for each channel of a pixel, and reads back 8 bytes for each of these classes, if the model
    ends in a softmax or states how its scores are calibrated. For other batches call model.reshaped() first.

    labels: a file of class names; mean, std: as for photo_input(). Raises ModelError unless top is 1 or more,
    and what photo_input(), score_output() and class_labels() raise.
    """
    wanted, given = photo_input(model, mean, std), score_output(model)
    names = class_labels(model, labels)
    made = gives_best(takes_bytes(model, wanted), given, top)
    return Classifier(made, photo_input(made), wanted, given, given.of_best(top), names, top)
