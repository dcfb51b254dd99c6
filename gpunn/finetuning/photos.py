"""Photos with their classes: read, divided into those to train on and those that measure, and batched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from gpunn.errors import FormatError, ModelError
from gpunn.files import Skipped, describe_skipped, files_in
from gpunn.types import Array
from gpunn.vision import PhotoInput, load_photo
from gpunn.vision.pictures import eight_bit_rgb
from gpunn.wording import counted

Photo = str | os.PathLike[str] | Image.Image
Examples = Mapping[str, Sequence[Photo]]
Told = Callable[[int, int], None]  # how many are done, of how many


@dataclass(frozen=True, slots=True, eq=False)
class Photos:
    """Photos in the size of a model's input: bytes [N, height, width, channels], and numbers of classes [N].

    `train` and `measure` are numbers of photos: those to train on, and those that measure the accuracy.
    """

    pixels: Array
    classes: Array
    train: Array
    measure: Array
    skipped: Skipped


def examples_in(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each subfolder of a folder, by the subfolder's name, sorted.

    Raises FormatError if it has no subfolders, or one without files, and OSError for what cannot be listed.
    """
    if not folder.is_dir():
        raise FormatError(f"{folder}: is no folder")
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not inside:
        raise FormatError(f"{folder}: has no subfolders; each class needs one with its photos")
    return {path.name: files_in(path) for path in inside}


def read_photos(
    examples: Examples,
    labels: Sequence[str],
    wanted: PhotoInput,
    share: float,
    random: np.random.Generator,
    told: Told,
) -> Photos:
    """Read the photos of classes, whose numbers are those of `labels`, and divide them.

    `share` of the photos of each class measure, at least one; none if it is 0. Files that are no photos are
    skipped. Raises ModelError for a class with too few photos.
    """
    pixels, classes, skipped = list[Array](), list[int](), Skipped()
    total = sum(map(len, examples.values()))
    done = 0
    for name, photos in examples.items():
        for photo in photos:
            found = _read(photo, skipped)
            if found is not None:
                pixels.append(wanted.resized(found))
                classes.append(labels.index(name))
            done += 1
            told(done, total)
    numbers = np.array(classes, np.int64)
    left = describe_skipped(len(skipped.no_photos), [*skipped.unreadable.values()])
    sides = [
        _divided(name, np.flatnonzero(numbers == labels.index(name)), share, random, left)
        for name in examples
    ]
    train, measure = (np.concatenate(side) for side in zip(*sides, strict=True))
    return Photos(np.stack(pixels), numbers, train, measure, skipped)


def _read(photo: Photo, skipped: Skipped) -> Image.Image | None:
    if isinstance(photo, Image.Image):
        return eight_bit_rgb(photo)
    try:
        return load_photo(photo)
    except (FormatError, OSError) as error:
        skipped.add(Path(photo), error)
        return None


def _divided(
    name: str, photos: Array, share: float, random: np.random.Generator, left: str
) -> tuple[Array, Array]:
    """Divide the photos of a class into those to train on and those that measure. left: what was skipped."""
    least = 2 if share else 1
    if photos.size < least:
        why = f"; with validation on {share:.0%} of them it needs {least}" if photos.size else ""
        skipped = f"; {left}" if left else ""
        raise ModelError(f"class {name!r} has {counted(photos.size, 'photo')}{why}{skipped}")
    mixed = random.permutation(photos)
    count = min(max(round(share * photos.size), 1), photos.size - 1) if share else 0
    return mixed[count:], mixed[:count]


def full_batches(rows: Array, size: int) -> Iterator[Array]:
    """Yield numbers of photos in mini-batches of one size; the first ones fill up the last."""
    for start in range(0, rows.size, size):
        yield np.resize(np.concatenate([rows[start : start + size], rows]), size)
