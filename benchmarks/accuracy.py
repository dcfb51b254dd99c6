"""The distance between the backends on real classifiers: python -m benchmarks.accuracy FOLDER

FOLDER holds MANIFEST.json, which lists models with their tasks, inputs and normalisation, the models,
labels/, images/ and labelled/. Every .tflite classifier of pictures is compared with gpunn.compare: those
with ten classes on labelled pictures, the others on photos. Models of digits that take rows of numbers, not
pictures, are compared on these, without their accuracy. Prints two Markdown tables.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import gpunn
from benchmarks.command import command, program
from gpunn.comparison import Comparison, Pair
from gpunn.types import Array
from gpunn.vision import default_model
from gpunn.wording import counted

BACKENDS = ("webgpu", "cpu", "litert")
DIGITS = tuple("0123456789")
NORMALISED = {"mnist": (0.0, 255.0)}  # mean and std of kinds of input that state none


@dataclass(frozen=True)
class Case:
    """A model with the pictures that it is compared on; `truth`: their names state their classes.

    `shape`: of an input that is no picture but a grey one's numbers, 0 to 1.
    """

    model: Path
    pictures: Path
    truth: bool = False
    labels: tuple[str, ...] = ()
    mean: float | None = None
    std: float | None = None
    shape: tuple[int, ...] = ()


def cases(folder: Path) -> Iterator[Case]:
    """List gpunn's own classifier, and those of the manifest."""
    cifar, mnist = folder / "labelled" / "cifar10", folder / "labelled" / "mnist"
    labels = tuple((folder / "labels" / "cifar10.txt").read_text().split())
    yield Case(default_model(), cifar, truth=True, labels=labels)
    for entry in json.loads((folder / "MANIFEST.json").read_text())["models"]:
        model, shape = folder / entry["file"], tuple(entry["inputs"][0].get("shape", ()))
        if model.suffix != ".tflite":
            continue
        if entry["task"].startswith("MNIST") and len(shape) != 4:
            yield Case(model, mnist, labels=DIGITS, shape=shape)
        if len(shape) != 4:
            continue
        numbers = _numbers(entry)
        if entry["task"] == "classification":
            yield Case(model, folder / "images", False, (), *numbers)
        elif entry["task"] == "CIFAR-10":
            yield Case(model, cifar, True, labels, *numbers)
        elif entry["task"].startswith("MNIST"):
            yield Case(model, mnist, True, DIGITS, *numbers)


def _numbers(entry: dict[str, Any]) -> tuple[float | None, float | None]:
    """Return mean and std of a float model; a quantised one takes the pixels."""
    preprocessing = entry["preprocessing"]
    if "scale" in entry["inputs"][0]:
        return None, None
    return NORMALISED.get(preprocessing["kind"]) or (preprocessing.get("mean"), preprocessing.get("std"))


def compared(case: Case) -> Comparison:
    """Compare one model on all backends."""
    print(case.model.name, file=sys.stderr)
    return gpunn.compare(
        case.model,
        None if case.truth else _digits(case) if case.shape else _photos(case.pictures),
        BACKENDS,
        truth=case.pictures if case.truth else None,
        labels=case.labels,
        mean=case.mean,
        std=case.std,
    )


def _digits(case: Case) -> list[Array]:
    """Convert grey pictures to numbers in the model's input shape."""
    greys = (np.asarray(Image.open(path).convert("L"), np.float32) for path in _photos(case.pictures))
    return [(grey / 255).reshape(case.shape) for grey in greys]


def _photos(folder: Path) -> list[Path]:
    """List the photos of a folder, without its subfolders."""
    return sorted(path for path in folder.iterdir() if path.is_file())


def circumstances(found: Sequence[Comparison]) -> str:
    """Describe the backends and the versions."""
    versions = ", ".join(f"{name} {number}" for name, number in found[0].versions.items() if name != "system")
    devices = "; ".join(f"{side.name}: {side.device}" for side in found[0].sides)
    return f"{devices}. {versions}."


def agreement(found: Sequence[Comparison]) -> str:
    """Make the table of every pair of backends, model by model."""
    rows = [
        "| model | pictures | pair | largest error | of allowed | SNR, dB | same best class | best five |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for comparison in found:
        for pair in comparison.pairs:
            rows.append(f"| {comparison.model} | {comparison.inputs.samples} | {_pair(pair)} |")
    return "\n".join(rows)


def _pair(pair: Pair) -> str:
    (output,) = pair.outputs
    metrics, shares = output.metrics, pair.agreement
    assert shares is not None
    if metrics.identical:
        error, share = "equal to the bit", ""
    elif metrics.max_steps is not None:
        error, share = counted(metrics.max_steps, "step"), _share(metrics.max_steps, output.tolerance)
    else:
        error, share = f"{metrics.max_abs_error:.1e}", _share(metrics.max_abs_error, output.tolerance)
    decibels = "" if metrics.identical else f"{metrics.snr_db:.1f}"
    names = f"{pair.candidate} - {pair.reference}"
    return f"{names} | {error} | {share} | {decibels} | {shares.top1:.1%} | {shares.top_k:.1%}"


def _share(error: float, tolerance: float | None) -> str:
    return f"{error / tolerance:.1%}" if tolerance else "over it"


def accuracy(found: Sequence[Comparison]) -> str:
    """Make the table of accuracies, for pictures with known classes."""
    rows = ["| model | backend | right | of | share | 95 % interval |", "|---|---|---|---|---|---|"]
    for comparison in found:
        for row in comparison.accuracy:
            top1 = row.top1
            rows.append(
                f"| {comparison.model} | {row.backend} | {top1.hits} | {top1.count} | {top1.value:.1%} | "
                f"{top1.low:.1%} to {top1.high:.1%} |"
            )
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare and print."""
    parser = command("accuracy", __doc__)
    parser.add_argument("folder", type=Path)
    found = [compared(case) for case in cases(parser.parse_args(arguments).folder)]
    print(f"{circumstances(found)}\n\n{agreement(found)}\n\n{accuracy(found)}")


if __name__ == "__main__":
    program(main)
