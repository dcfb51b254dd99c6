"""finetune(): retrains a classifier on photos of other classes, or of the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from gpunn.errors import ModelError, RunCancelledError
from gpunn.files import Skipped
from gpunn.finetuning.layers import for_classes, front_and_head, last_layer, weights_in, weights_of_all
from gpunn.finetuning.photos import Examples, Photos, Told, full_batches, read_photos
from gpunn.graph.operation import Operand
from gpunn.graph.pixels import Numbers
from gpunn.model import Model
from gpunn.training.optimizers import SGD, Adam, Optimizer
from gpunn.training.step import with_values_of
from gpunn.training.trainer import Trainer
from gpunn.types import Array
from gpunn.vision import PhotoInput, ScoreOutput, mandatory, photo_input, score_output
from gpunn.vision.classes import MOST_NAMED

Layers = Literal["last", "all"]
Optimizers = Literal["adam", "sgd"]
LAYERS: tuple[Layers, ...] = get_args(Layers)
OPTIMIZERS: tuple[Optimizers, ...] = get_args(Optimizers)
RATES: dict[Optimizers, dict[Layers, float]] = {  # learning rates, unless another one is given
    "adam": {"last": 0.005, "all": 0.0003},
    "sgd": {"last": 0.05, "all": 0.003},
}
MOMENTUM = 0.9
LABEL_LENGTH = 200


@dataclass(frozen=True, slots=True)
class FinetuneProgress:
    """The progress of finetune(): photos read, features computed, or mini-batches trained in an epoch.

    `done` of `total` in the stage; `epoch` counts from 0. loss: of the last mini-batch; accuracy: on the
    photos that measure, behind the last mini-batch of an epoch.
    """

    stage: Literal["photos", "features", "training"]
    done: int
    total: int
    epoch: int | None = None
    loss: float | None = None
    accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch of finetune(): the mean loss of its mini-batches, and the accuracy after it.

    accuracy: the share of the photos that measure whose class is named rightly; None without such photos.
    """

    loss: float
    accuracy: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Finetuned:
    """A retrained classifier, and how it came about.

    `losses` are those of all mini-batches. trained, measured: numbers of photos. replaced: the last layer
    began with random weights. before: the accuracy of the model as it was given, on the same photos, if it
    has the same classes. backend, device: where it was trained.
    """

    model: Model
    labels: tuple[str, ...]
    epochs: tuple[Epoch, ...]
    losses: tuple[float, ...]
    trained: int
    measured: int
    skipped: Skipped
    replaced: bool
    before: float | None
    backend: str
    device: str


OnProgress = Callable[[FinetuneProgress], bool | None]


def finetune(
    model: Model,
    examples: Examples,
    *,
    epochs: int = 5,
    batch: int = 16,
    learning_rate: float | None = None,
    optimizer: Optimizers = "adam",
    layers: Layers = "last",
    validation: float = 0.2,
    seed: int = 0,
    keep_classes: bool = False,
    mean: Numbers | None = None,
    std: Numbers | None = None,
    backend: str = "auto",
    device: str | int | None = None,
    on_progress: OnProgress | None = None,
) -> Finetuned:
    """Retrain a classifier that was loaded from a file on photos; return the new one.

    examples: photos by the names of their classes: files, or pictures of Pillow's. Files that are no photos
    are skipped. If the names are not those of the model's classes, the last layer is exchanged for one of as
    many classes, with random weights. keep_classes: the model keeps its classes, among which the names must
    be. layers: "last" trains the weights of the last layer, and computes what comes before it once for each
    photo; "all" trains all convolutions and matrix products. optimizer: "adam", or "sgd" with
    momentum 0.9. learning_rate: None stands for that of RATES. validation: the share of the
    photos of each class that is not trained on, but measures the accuracy after each epoch; 0: none. seed: of
    the random weights, of the division of the photos, and of their order. mean, std: as for
    vision.photo_input(). on_progress: if it returns False, the training ends.

    All mini-batches have `batch` photos, or all photos if there are fewer: the first of an epoch fill up the
    last one. Raises ModelError for arguments and examples that do not fit, UnsupportedError for models that
    cannot be trained or written, DivergenceError if the loss is not finite.
    """
    _check(examples, epochs, batch, validation, layers, optimizer)
    rate = RATES[optimizer][layers] if learning_rate is None else learning_rate
    chosen: Optimizer = Adam(rate) if optimizer == "adam" else SGD(rate, MOMENTUM)
    random, told = np.random.default_rng(seed), on_progress or (lambda progress: None)
    wanted, labels = photo_input(model, mean, std), _labels(model, examples, keep_classes)
    changed = for_classes(model, labels, random)
    photos = read_photos(examples, labels, wanted, validation, random, _stage("photos", told))
    run = _Run.of(changed, wanted, photos, batch, layers, backend, device)
    run.compute_features(_stage("features", told))
    before = run.accuracy(run.subject) if labels == tuple(model.labels) else None
    found, losses, values = run.train(chosen, epochs, random, told)
    trained = Model.of(with_values_of(changed, run.places, values))
    trained.trained_from = changed
    return Finetuned(
        trained,
        labels,
        tuple(found),
        tuple(losses),
        photos.train.size,
        photos.measure.size,
        photos.skipped,
        labels != tuple(model.labels),
        before,
        *run.where,
    )


@dataclass(slots=True, eq=False)
class _Run:
    """A training: of the whole model, or of the rest behind a front that is computed once.

    `subject` is what is trained, for mini-batches of `size`, and `weights` are its weights; `places` are the
    same in the whole model. The classes are along the `axis` of the result. `where`: backend and device.
    """

    subject: Model
    weights: tuple[Operand, ...]
    places: tuple[Operand, ...]
    front: Model | None
    axis: int
    wanted: PhotoInput
    photos: Photos
    size: int
    loss: str
    backend: str
    device: str | int | None
    where: tuple[str, str] = ("", "")
    features: Array | None = None

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
    ) -> _Run:
        size = min(batch, photos.train.size)
        (given,) = mandatory(model)
        whole = model.reshaped({given.name: (size, *given.type.shape[1:])})
        number, classes = last_layer(model).number, score_output(model).classes
        parts = front_and_head(whole, number)
        front, subject, weights = None, whole, _weights(whole, number, layers)
        if layers == "last" and parts is not None:
            front, subject, weights = parts
        shape = subject.outputs[0].type.shape
        axis = max(k for k, extent in enumerate(shape) if extent == classes)  # the batch comes before
        logits = not _gives_probabilities(parts[1] if parts else whole, axis)
        loss = "cross_entropy_with_logits" if logits else "cross_entropy"
        places = _weights(model, number, layers)
        return cls(subject, weights, places, front, axis, wanted, photos, size, loss, backend, device)

    def compute_features(self, told: Told) -> None:
        """Compute the front for each photo, if there is one."""
        if self.front is None:
            return
        rows, found = np.arange(len(self.photos.pixels)), list[Array]()
        with self.front.compile(self.backend, device=self.device) as compiled:
            for batch in full_batches(rows, self.size):
                found.append(np.asarray(compiled(self.wanted.stored(self.photos.pixels[batch]))))
                told(min(self.size * len(found), rows.size), rows.size)
        self.features = np.concatenate(found)[: rows.size]

    def inputs(self, rows: Array) -> Array:
        """Return the subject's input for photos."""
        return self.wanted.stored(self.photos.pixels[rows]) if self.features is None else self.features[rows]

    def accuracy(self, subject: Model) -> float | None:
        """Return the share of the photos that measure whose class a model names rightly; None for none."""
        measure, right = self.photos.measure, 0
        with subject.compile(self.backend, device=self.device) as compiled:
            self.where = compiled.backend, compiled.device
            for start in range(0, measure.size, self.size):
                rows = measure[start : start + self.size]
                scores = np.asarray(compiled(self.inputs(np.resize(rows, self.size))))
                best = scores.argmax(self.axis).reshape(-1)[: rows.size]
                right += int((best == self.photos.classes[rows]).sum())
        return right / measure.size if measure.size else None

    def train(
        self, optimizer: Optimizer, epochs: int, random: np.random.Generator, told: OnProgress
    ) -> tuple[list[Epoch], list[float], tuple[Array, ...]]:
        """Train; return the epochs, the losses of all mini-batches, and the values of the weights."""
        found, losses, goes_on = list[Epoch](), list[float](), True
        with Trainer(
            self.subject,
            loss=self.loss,
            optimizer=optimizer,
            trainable=self.weights,
            axis=self.axis,
            backend=self.backend,
            device=self.device,
        ) as trainer:
            total = -(-self.photos.train.size // self.size)
            while goes_on and len(found) < epochs:
                now = list[float]()
                for rows in full_batches(random.permutation(self.photos.train), self.size):
                    now.append(trainer.step(self.inputs(rows), self._target(rows)))
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


def _labels(model: Model, examples: Examples, keep_classes: bool) -> tuple[str, ...]:
    """Return the classes of the new model, in their order: the model's, if they are the same."""
    for name in examples:
        if not name.isprintable() or name.strip() != name or not 0 < len(name) <= LABEL_LENGTH:
            raise ModelError(
                f"{name!r} is no name for a class: expected up to {LABEL_LENGTH} printable characters, "
                "without blanks around them"
            )
    if not keep_classes:
        same = {*examples} == {*model.labels} and len(examples) == len(model.labels)
        return tuple(model.labels) if same else tuple(examples)
    unknown = [name for name in examples if name not in model.labels]
    if unknown:
        known = ", ".join(model.labels[:MOST_NAMED]) or "no names"
        raise ModelError(f"{unknown[0]!r} is no class of {model.name}, which has {known}")
    return tuple(model.labels)


def _check(
    examples: Examples, epochs: int, batch: int, validation: float, layers: str, optimizer: str
) -> None:
    for what, value in (("epochs", epochs), ("batch", batch)):
        if value < 1:
            raise ModelError(f"{what} must be 1 or more, got {value}")
    if not 0 <= validation < 1:
        raise ModelError(f"validation must be from 0 to 1, without 1, got {validation}")
    if layers not in LAYERS:
        raise ModelError(f"layers are {' or '.join(LAYERS)}, got {layers!r}")
    if optimizer not in OPTIMIZERS:
        raise ModelError(f"the optimizer is {' or '.join(OPTIMIZERS)}, got {optimizer!r}")
    if len(examples) < 2:
        raise ModelError(f"a classifier tells two classes or more apart, got photos of {len(examples)}")


def _stage(stage: Literal["photos", "features"], told: OnProgress) -> Told:
    """Return what tells of a stage before the training. It raises RunCancelledError if that shall end."""

    def tell(done: int, total: int) -> None:
        if told(FinetuneProgress(stage, done, total)) is False:
            raise RunCancelledError("the fine-tuning ended before it trained anything")

    return tell
