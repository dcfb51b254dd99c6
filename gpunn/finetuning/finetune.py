"""finetune(): retrains a classifier on photos of other classes, or of the same."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from PIL import Image

from gpunn.arguments import expect_flag, expect_function, expect_integer, expect_model, expect_number
from gpunn.errors import ModelError, RunCancelledError
from gpunn.files import Skipped
from gpunn.finetuning.layers import for_classes
from gpunn.finetuning.photos import Examples, Told, read_photos
from gpunn.finetuning.progress import Epoch, FinetuneProgress, OnProgress
from gpunn.finetuning.run import LAYERS, Layers, Run
from gpunn.graph.pixels import GivenNumbers
from gpunn.model import Model
from gpunn.training.optimizers import SGD, Adam, Optimizer
from gpunn.training.step import with_values_of
from gpunn.vision import photo_input
from gpunn.vision.classes import MOST_NAMED

Optimizers = Literal["adam", "sgd"]
OPTIMIZERS: tuple[Optimizers, ...] = get_args(Optimizers)
RATES: dict[Optimizers, dict[Layers, float]] = {  # learning rates, unless another one is given
    "adam": {"last": 0.005, "all": 0.0003},
    "sgd": {"last": 0.05, "all": 0.003},
}
MOMENTUM = 0.9
LABEL_LENGTH = 200


@dataclass(frozen=True, slots=True, eq=False)
class Finetuned:
    """A retrained classifier, and how it came about.

    `losses` are those of all mini-batches. trained, measured: numbers of photos. replaced: the last layer
    began with random weights. before: the accuracy of the model as it was given, on the same photos, if it
    has the same classes. augmented: photos to train on were mirrored and shifted. unscored: the file's
    calibration and threshold of scores are not in the new model. backend, device: where it was trained.
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
    augmented: bool
    unscored: bool
    backend: str
    device: str


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
    augment: bool = False,
    mean: GivenNumbers | None = None,
    std: GivenNumbers | None = None,
    backend: str = "auto",
    device: str | int | None = None,
    on_progress: OnProgress | None = None,
) -> Finetuned:
    """Retrain a classifier that was loaded from a file on photos; return the new one.

    examples: photos by the names of their classes: files, or pictures of Pillow's. Files that are no photos
    are skipped. If the names are not those of the model's classes, the last layer is exchanged for one of as
    many classes, with random weights. keep_classes: the model keeps its classes, among which the names must
    be. layers: "last" trains the weights of the last layer, and computes what comes before it once for each
    photo; "all" trains all convolutions and matrix products. augment: photos to train on are mirrored and
    shifted at random, anew in each epoch, by MIRRORED and SHIFT of finetuning/augment.py; what comes before
    the last layer is then computed in each epoch. optimizer: "adam", or "sgd" with momentum 0.9.
    learning_rate: None stands for that of RATES. validation: the share of the photos of each class that is
    not trained on, but measures the accuracy after each epoch; 0: none. seed: of the random weights, of the
    division of the photos, of their order, and of the augmentation. mean, std: as for vision.photo_input().
    on_progress: if it returns False, the training ends.

    The calibration and the threshold of scores that a file states are left out, as they are of other weights.
    All mini-batches have `batch` photos, or all photos if there are fewer: the first of an epoch fill up the
    last one. Raises ModelError for arguments and examples that do not fit, UnsupportedError for models that
    cannot be trained or written, DivergenceError if the loss is not finite.
    """
    _check(model, examples, epochs, batch, validation, seed, layers, optimizer)
    keep_classes, augment = expect_flag("keep_classes", keep_classes), expect_flag("augment", augment)
    expect_function("on_progress", on_progress)
    rate = RATES[optimizer][layers] if learning_rate is None else learning_rate
    chosen: Optimizer = Adam(rate) if optimizer == "adam" else SGD(rate, MOMENTUM)
    random, told = np.random.default_rng(seed), on_progress or (lambda progress: None)
    wanted, labels = photo_input(model, mean, std), _labels(model, examples, keep_classes)
    changed = for_classes(model, labels, random)
    photos = read_photos(examples, labels, wanted, validation, random, _stage("photos", told))
    run = Run.of(changed, wanted, photos, batch, layers, backend, device)
    run.random = np.random.default_rng((seed, 1)) if augment else None
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
        augment,
        model.scoring is not None,
        *run.where,
    )


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
    model: Model,
    examples: Examples,
    epochs: int,
    batch: int,
    validation: float,
    seed: int,
    layers: str,
    optimizer: str,
) -> None:
    expect_model(model, Model)
    for what, value, least in (("epochs", epochs, 1), ("batch", batch, 1), ("seed", seed, 0)):
        expect_integer(what, value, least)
    expect_number("validation", validation, 1)
    if layers not in LAYERS:
        raise ModelError(f"layers are {' or '.join(LAYERS)}, got {layers!r}")
    if optimizer not in OPTIMIZERS:
        raise ModelError(f"the optimizer is {' or '.join(OPTIMIZERS)}, got {optimizer!r}")
    if not isinstance(examples, Mapping) or not all(
        isinstance(name, str) and _lists_photos(photos) for name, photos in examples.items()
    ):
        raise ModelError("examples must be a mapping from names of classes to lists of photos")
    if len(examples) < 2:
        raise ModelError(f"a classifier tells two classes or more apart, got photos of {len(examples)}")


def _lists_photos(value: Any) -> bool:
    """Tell whether a value is a list or the like of files and pictures."""
    return (
        isinstance(value, Collection)
        and not isinstance(value, (str, bytes))
        and all(isinstance(photo, (str, os.PathLike, Image.Image)) for photo in value)
    )


def _stage(stage: Literal["photos", "features"], told: OnProgress) -> Told:
    """Return what tells of a stage before the training. It raises RunCancelledError if that shall end."""

    def tell(done: int, total: int) -> None:
        if told(FinetuneProgress(stage, done, total)) is False:
            raise RunCancelledError("the fine-tuning ended before it trained anything")

    return tell
