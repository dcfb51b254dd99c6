"""Teaching for web_app.py's page: a classifier learns a few classes from a few photos of each.

This runs in the process that answers (web_answers.py), which ends if it takes too much memory. A lesson ends
in time with what has been learned by then.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpunn
from gpunn import vision

SLOTS = 3  # names that the page has room for
MOST_PHOTOS = 100  # of a lesson
EPOCHS, BATCH = 15, 8
ENOUGH = 5  # photos of each class, so that one of them can measure
SHARE = 0.8  # of the time for an answer in which a lesson trains; the rest is for reading and writing


class LessonError(Exception):
    """A lesson cannot be taught; the text says why."""


@dataclass(frozen=True)
class Lesson:
    """A classifier, photos by the names of their classes, and the file for the classifier that knows them.

    pixels: one of vision.RANGES; None leaves it to the file.
    """

    model: Path
    photos: dict[str, list[Path]]
    backend: str
    pixels: str | None
    output: Path

    @property
    def asked(self) -> dict[str, Any]:
        """Return the lesson as a JSON document."""
        photos = {name: list(map(str, files)) for name, files in self.photos.items()}
        paths = {"model": str(self.model), "output": str(self.output)}
        return {"lesson": {**paths, "photos": photos, "backend": self.backend, "pixels": self.pixels}}

    @classmethod
    def of(cls, document: dict[str, Any]) -> Lesson:
        """Return the lesson of a JSON document."""
        photos = {name: list(map(Path, files)) for name, files in document["photos"].items()}
        paths = Path(document["model"]), photos, document["backend"], document["pixels"]
        return cls(*paths, Path(document["output"]))


@dataclass(frozen=True)
class Taught:
    """The outcome of a lesson: loss and accuracy of each epoch; on_time: whether all epochs were trained."""

    labels: tuple[str, ...]
    trained: int
    measured: int
    epochs: tuple[tuple[float, float | None], ...]
    seconds: float
    on_time: bool
    skipped: int
    device: str


def lesson_of(names: list[str], files: list[list[str]], **options: Any) -> Lesson:
    """Return the lesson of a form: each name with its photos; empty rows do not count.

    Raises LessonError if there are too few names, or too many photos.
    """
    rows = [(name.strip(), list(map(Path, some))) for name, some in zip(names, files, strict=True)]
    rows = [row for row in rows if row[0] or row[1]]
    photos = dict(rows)
    if len(photos) < 2:
        raise LessonError("Give two different names, and some photos for each.")
    if len(photos) < len(rows):
        raise LessonError("Two names are the same.")
    for name, some in rows:
        if not name or not some:
            raise LessonError(f"{name} has no photos." if name else "A name is missing.")
    count = sum(map(len, photos.values()))
    if count > MOST_PHOTOS:
        raise LessonError(f"These are {count} photos; a lesson has up to {MOST_PHOTOS}.")
    return Lesson(photos=photos, **options)


def teach(lesson: Lesson, seconds: float, limits: gpunn.Limits | None) -> Taught:
    """Teach a lesson in so many seconds, and write the new classifier. Raises gpunn's errors and OSError."""
    finetune = gpunn.finetune  # whose modules are imported now, which is no part of the lesson
    start = time.monotonic()
    end = start + SHARE * seconds
    model = gpunn.load(lesson.model, limits=limits)
    mean, std = vision.RANGES[lesson.pixels] if lesson.pixels else (None, None)
    few = min(map(len, lesson.photos.values())) < ENOUGH
    found = finetune(
        model,
        lesson.photos,
        epochs=EPOCHS,
        batch=BATCH,
        validation=0 if few else 0.2,
        mean=mean,
        std=std,
        backend=lesson.backend,
        on_progress=lambda _: time.monotonic() < end,
    )
    found.model.save(lesson.output)
    return Taught(
        labels=found.labels,
        trained=found.trained,
        measured=found.measured,
        epochs=tuple((epoch.loss, epoch.accuracy) for epoch in found.epochs),
        seconds=time.monotonic() - start,
        on_time=len(found.epochs) == EPOCHS and time.monotonic() < end,
        skipped=len(found.skipped.no_photos) + len(found.skipped.unreadable),
        device=found.device,
    )
