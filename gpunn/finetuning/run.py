"""Run: the training of a classifier, or of what is behind a front that does not change."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from gpunn.compilation.base import Compilation
from gpunn.finetuning.augment import augmented
from gpunn.finetuning.layers import front_and_head, last_layer, weights_in, weights_of_all
from gpunn.finetuning.photos import Photos, Told, full_batches
from gpunn.finetuning.progress import Epoch, FinetuneProgress, OnProgress
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.training.optimizers import Optimizer
from gpunn.training.trainer import Trainer
from gpunn.types import Array
from gpunn.vision import PhotoInput, ScoreOutput, gives_best, mandatory, score_output, takes_bytes

Layers = Literal["last", "all"]
LAYERS: tuple[Layers, ...] = get_args(Layers)


@dataclass(slots=True, eq=False)
class Run:
    """A training: of the whole model, or of the rest behind a front that is computed once. Photos are bytes.

    `subject` is what is trained, for mini-batches of `size`, and `weights` are its weights; `places` are the
    same in the whole model. The classes are along the `axis` of the result. `where`: backend and device.
    `random`: photos to train on are changed at random. `features` are those of the photos `computed`.
    """

    subject: Model
    weights: tuple[Operand, ...]
    places: tuple[Operand, ...]
    front: Model | None
    axis: int
    photos: Photos
    size: int
    loss: str
    backend: str
    device: str | int | None
    where: tuple[str, str] = ("", "")
    random: np.random.Generator | None = None
    features: Array | None = None
    computed: Array | None = None

    @classmethod
    def of(
        cls,
        model: Model,
        wanted: PhotoInput,
        photos: Photos,
        batch: int,
        layers: Layers,
        backend: str,
        device: str | int | None,
    ) -> Run:
        size = min(batch, photos.train.size)
        (given,) = mandatory(model)
        whole = model.reshaped({given.name: (size, *given.type.shape[1:])})
        number, classes = last_layer(model).number, score_output(model).classes
        parts = front_and_head(whole, number)
        front, subject, weights = None, whole, _weights(whole, number, layers)
        if layers == "last" and parts is not None:
            front, subject, weights = parts
            front = takes_bytes(front, wanted)
        else:
            subject = takes_bytes(whole, wanted)
        shape = subject.outputs[0].type.shape
        axis = max(k for k, extent in enumerate(shape) if extent == classes)  # the batch comes before
        logits = not _gives_probabilities(parts[1] if parts else whole, axis)
        loss = "cross_entropy_with_logits" if logits else "cross_entropy"
        places = _weights(model, number, layers)
        return cls(subject, weights, places, front, axis, photos, size, loss, backend, device)

    def compute_features(self, told: Told) -> None:
        """Compute the front for each photo that does not change, if there is a front."""
        photos = self.photos
        rows = np.arange(len(photos.pixels)) if self.random is None else np.sort(photos.measure)
        found = list[Array]()
        if self.front is None or not rows.size:
            return
        with self.front.compile(self.backend, device=self.device) as compiled:
            for batch in full_batches(rows, self.size):
                found.append(np.asarray(compiled(self.photos.pixels[batch])))
                told(min(self.size * len(found), rows.size), rows.size)
        self.features, self.computed = np.concatenate(found)[: rows.size], rows

    def inputs(self, rows: Array) -> Array:
        """Return the subject's input for photos as they are."""
        if self.features is None or self.computed is None:
            return self.photos.pixels[rows]
        return self.features[np.searchsorted(self.computed, rows)]

    def _seen(self, rows: Array, front: Compilation | None) -> Array:
        """Return the subject's input for photos to train on, which may be changed at random."""
        if self.random is None:
            return self.inputs(rows)
        pixels = augmented(self.photos.pixels[rows], self.random)
        return pixels if front is None else np.asarray(front(pixels))

    def accuracy(self, subject: Model) -> float | None:
        """Return the share of the photos that measure whose class a model names rightly; None for none."""
        measure, right = self.photos.measure, 0
        given = ScoreOutput(subject.outputs[0].type, subject.outputs[0].type.shape[self.axis])
        with gives_best(subject, given, 1).compile(self.backend, device=self.device) as compiled:
            self.where = compiled.backend, compiled.device
            for start in range(0, measure.size, self.size):
                rows = measure[start : start + self.size]
                best, *_ = compiled(self.inputs(np.resize(rows, self.size)))
                right += int((best.reshape(-1)[: rows.size] == self.photos.classes[rows]).sum())
        return right / measure.size if measure.size else None

    def train(
        self, optimizer: Optimizer, epochs: int, random: np.random.Generator, told: OnProgress
    ) -> tuple[list[Epoch], list[float], tuple[Array, ...]]:
        """Train; return the epochs, the losses of all mini-batches, and the values of the weights."""
        found, losses, goes_on = list[Epoch](), list[float](), True
        with ExitStack() as stack:
            trainer = stack.enter_context(self._trainer(optimizer))
            front = None
            if self.front is not None and self.random is not None:
                front = stack.enter_context(self.front.compile(self.backend, device=self.device))
            total = -(-self.photos.train.size // self.size)
            while goes_on and len(found) < epochs:
                now = list[float]()
                for rows in full_batches(random.permutation(self.photos.train), self.size):
                    now.append(trainer.step(self._seen(rows, front), self._target(rows)))
                    goes_on = (
                        told(FinetuneProgress("training", len(now), total, len(found), now[-1])) is not False
                    )
                    if not goes_on:
                        break
                losses += now
                found.append(Epoch(float(np.mean(now)), self.accuracy(trainer.model())))
                last = FinetuneProgress(
                    "training", len(now), total, len(found) - 1, now[-1], found[-1].accuracy
                )
                goes_on = told(last) is not False and goes_on
            return found, losses, trainer.weights()

    def _trainer(self, optimizer: Optimizer) -> Trainer:
        return Trainer(
            self.subject,
            loss=self.loss,
            optimizer=optimizer,
            trainable=self.weights,
            axis=self.axis,
            backend=self.backend,
            device=self.device,
        )

    def _target(self, rows: Array) -> Array:
        shape = self.subject.outputs[0].type.shape
        return self.photos.classes[rows].reshape(shape[: self.axis] + shape[self.axis + 1 :])


def _weights(model: Model, last: int, layers: Layers) -> tuple[Operand, ...]:
    return weights_of_all(model) if layers == "all" else tuple(weights_in(model, model.operations[last]))


def _gives_probabilities(subject: Model, axis: int) -> bool:
    """Tell whether a model gives probabilities along an axis for random numbers, as behind a softmax."""
    (given,) = subject.inputs
    random = np.random.default_rng(0).uniform(0, 4, given.type.shape)
    (scores,) = subject.evaluate([random.astype(given.type.dtype.numpy)])
    rows = np.moveaxis(scores, axis, -1).reshape(-1, scores.shape[axis])
    output = ScoreOutput(subject.outputs[0].type, rows.shape[1])
    return all(map(output.are_probabilities, rows))
