"""The inputs of a comparison: photos, arrays from files, or seeded random tensors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gpunn import vision
from gpunn.arguments import expect_integer
from gpunn.comparison.arrays import SUFFIXES, read_arrays
from gpunn.comparison.classes import true_class
from gpunn.errors import FormatError, ModelError
from gpunn.files import Skipped, files_in
from gpunn.graph.draw import drawn, drawn_range
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.pixels import GivenNumbers
from gpunn.graph.reshape import as_input
from gpunn.types import Array
from gpunn.wording import counted

_NUMBERED = re.compile(r"arr_\d+")  # arrays that numpy.savez() got without names


@dataclass(frozen=True, slots=True)
class Sample:
    """The inputs of one run, in the order of the model's inputs.

    names: one for each row of the batch; the remaining rows are filled up. photos: the files, if the rows are
    photos. truth: the classes, if they are known.
    """

    arrays: tuple[Array, ...]
    names: tuple[str, ...]
    photos: tuple[Path, ...] = ()
    truth: tuple[int, ...] = ()


@dataclass(slots=True)
class Source:
    """Samples in order, with a description.

    skipped: files in folders that are not photos, or cannot be read. A source can be read once. `count` is
    the number of samples, if it is known. pixels: what becomes of the pixels of photos, if there are any.
    """

    description: str
    samples: Iterator[Sample]
    count: int | None
    skipped: Skipped = field(default_factory=Skipped)
    pixels: vision.PhotoInput | None = None


def expect_photos(source: Source, mean: GivenNumbers | None, std: GivenNumbers | None) -> None:
    """Raise ModelError for a scale of pixels, if there are no photos that it could be for."""
    if source.pixels is None and not mean is std is None:
        raise ModelError("mean and std are for the pixels of photos, and there are no photos")


def first_samples(source: Source, count: int = 1) -> list[Sample]:
    """Take up to so many samples; raise ModelError if there are none."""
    found = list(itertools.islice(source.samples, count))
    if not found:
        raise ModelError("there is nothing to run the model on: no inputs")
    return found


def random_source(model: Graph, count: int = 1, seed: int = 0) -> Source:
    """Draw seeded random tensors in the ranges of the inputs; the description states the ranges.

    Quantised types: every stored integer. Real numbers and both parts of complex ones: -1 to 1, for grey
    images 0 to 1. Integers: those that the operations which check them allow, as they do row numbers of a
    table, else 0 to 9. bool: both. All are evenly distributed. Raises ModelError for inputs of strings, and
    where no integer is allowed, or for a seed below 0.
    """
    seed = expect_integer("seed", seed, 0)
    ranges = {o: drawn_range(model, o) for o in model.inputs}
    parts = [f"{o.name} {o.type} in {low:g} to {high:g}" for o, (low, high) in ranges.items()]
    samples = (_draw(ranges, seed + number, number) for number in range(count))
    return Source(f"random, seed {seed}: {', '.join(parts)}", samples, count)


def random_photos(model: Graph, wanted: vision.PhotoInput, count: int, seed: int) -> Source:
    """Draw seeded random pixels, evenly distributed, in the form that a model takes.

    Raises ModelError for a seed below 0.
    """
    seed = expect_integer("seed", seed, 0)

    def samples() -> Iterator[Sample]:
        for number in range(count):
            pixels = np.random.default_rng(seed + number).integers(0, 256, wanted.type.shape, np.uint8)
            yield Sample(completed(model, [wanted.stored(pixels)]), (f"random {number}",))

    return Source(f"random pixels, seed {seed}, as {wanted.type}", samples(), count)


def _draw(ranges: Mapping[Operand, tuple[float, float]], seed: int, number: int) -> Sample:
    generator = np.random.default_rng(seed)
    arrays = tuple(drawn(operand.type, bounds, generator) for operand, bounds in ranges.items())
    return Sample(arrays, (f"random {number}",))


def file_source(
    model: Graph,
    paths: Sequence[Path],
    *,
    truth: Path | None = None,
    labels: Sequence[str] = (),
    mean: GivenNumbers | None = None,
    std: GivenNumbers | None = None,
) -> Source:
    """Read photos, folders of photos, .npy and .npz files.

    truth: a folder of photos whose names state their classes (classes.true_class, with `labels`). mean, std:
    see vision.photo_input. Files in folders that are not photos, or cannot be read, are skipped. A named file
    that is not a photo, and an array that does not fit, raises FormatError or ModelError.
    """
    arrays = [p for p in paths if p.suffix.lower() in SUFFIXES]
    named = [p for p in paths if p not in arrays and not p.is_dir()]
    found = [*named, *_inside([p for p in paths if p.is_dir()])]
    known = _inside([truth]) if truth is not None else []
    skipped = Skipped()
    wanted = vision.photo_input(model, mean, std) if found or known else None

    def samples() -> Iterator[Sample]:
        for path in arrays:
            yield from _array_samples(model, path)
        for files, judged in ((found, False), (known, True)):
            if wanted is not None and files:
                photos = _Photos(model, labels, wanted, set(named), skipped)
                yield from photos.samples(files, judged)

    photos = len(found) + len(known)
    counts = [counted(photos, "photo")] if photos else []
    counts += [f"arrays of {path.name}" for path in arrays]
    total = None if arrays else photos
    return Source(", ".join(counts), samples(), total, skipped, wanted)


def _inside(folders: Sequence[Path]) -> list[Path]:
    """List the files of folders and their subfolders, sorted; FormatError for a folder without files."""
    return [path for folder in folders for path in files_in(folder)]


def completed(model: Graph, given: Sequence[Array]) -> tuple[Array, ...]:
    """Return arrays for all inputs: those that must be given, and the defaults of the others."""
    arrays = iter(given)
    return tuple(next(arrays) if o.default is None else as_input(o, None) for o in model.inputs)


@dataclass(slots=True)
class _Photos:
    """A reader of photos into batches."""

    model: Graph
    labels: Sequence[str]
    wanted: vision.PhotoInput
    named: set[Path]
    skipped: Skipped

    def samples(self, files: Sequence[Path], judged: bool) -> Iterator[Sample]:
        batch: list[tuple[Path, Array]] = []
        for path in files:
            value = self._read(path)
            if value is not None:
                batch.append((path, value))
            if len(batch) == self.wanted.batch:
                yield self._sample(batch, judged)
                batch = []
        if batch:
            yield self._sample(batch, judged)

    def _read(self, path: Path) -> Array | None:
        try:
            return self.wanted.values(vision.load_photo(path))
        except (FormatError, OSError) as error:
            if path in self.named:
                raise
            self.skipped.add(path, error)
            return None

    def _sample(self, batch: Sequence[tuple[Path, Array]], judged: bool) -> Sample:
        photos = tuple(path for path, _ in batch)
        (full,) = self.wanted.batches(value for _, value in batch)
        truth: tuple[int, ...] = ()
        if judged:
            classes = vision.score_output(self.model).classes
            truth = tuple(true_class(path, self.labels, classes) for path in photos)
        return Sample(completed(self.model, [full]), tuple(p.name for p in photos), photos, truth)


def _array_samples(model: Graph, path: Path) -> Iterator[Sample]:
    """Yield one sample of arrays with the inputs' shapes, or many of arrays with one more axis in front."""
    arrays = _in_order(model, path, read_arrays(path))
    many = [a.ndim == o.type.rank + 1 for a, o in zip(arrays, model.inputs, strict=True)]
    if not any(many):
        yield array_sample(model, arrays, path.name)
        return
    lengths = {len(a) for a, stacked in zip(arrays, many, strict=True) if stacked}
    if len(lengths) != 1:
        raise FormatError(f"{path}: its arrays hold different numbers of samples: {sorted(lengths)}")
    for number in range(lengths.pop()):
        rows = [a[number] if stacked else a for a, stacked in zip(arrays, many, strict=True)]
        yield array_sample(model, rows, f"{path.name}[{number}]")


def array_sample(model: Graph, arrays: Sequence[Array], name: str) -> Sample:
    """Make a Sample of arrays in the order of the inputs; raise ModelError if they do not fit.

    Inputs with a default may be left out at the end.
    """
    left = model.inputs[len(arrays) :]
    if len(arrays) > len(model.inputs) or any(operand.default is None for operand in left):
        wanted, given = counted(len(model.inputs), "input"), counted(len(arrays), "array")
        raise ModelError(f"{name}: the model has {wanted}, got {given}")
    pairs = zip(model.inputs, (*arrays, *(None for _ in left)), strict=True)
    fitting = tuple(as_input(operand, value) for operand, value in pairs)
    for operand, array in zip(model.inputs, fitting, strict=True):
        if array.shape != operand.type.shape:
            raise ModelError(
                f"{name}: input {operand.name!r} is compared at shape {list(operand.type.shape)}, "
                f"got {list(array.shape)}: give the model that shape first, with reshaped()"
            )
    return Sample(fitting, (name,))


def _in_order(model: Graph, path: Path, arrays: dict[str, Array]) -> list[Array]:
    """Order arrays by the names of the inputs; keep their order if numpy.savez() named them, or there is one.

    Inputs with a default may be absent. Raises FormatError for other names.
    """
    names = [o.name for o in model.inputs]
    needed = {o.name for o in model.inputs if o.default is None} or set(names)
    if needed <= arrays.keys():
        return [arrays[o.name] if o.name in arrays else as_input(o, None) for o in model.inputs]
    by_place = len(arrays) == 1 or all(map(_NUMBERED.fullmatch, arrays))
    if by_place and len(arrays) == len(names):
        return list(arrays.values())
    if by_place and len(arrays) == len(needed):
        rest = iter(arrays.values())
        return [next(rest) if o.default is None else as_input(o, None) for o in model.inputs]
    raise FormatError(
        f"{path}: holds {', '.join(arrays) or 'nothing'}; the model's inputs are {', '.join(names)}"
    )
