"""gpunn finetune: retrains a classifier on a person's own photos."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import gpunn
from gpunn import vision
from gpunn.cli.columns import Column, Row, print_table
from gpunn.cli.commands import subcommand
from gpunn.cli.pixels import OPTION, Mean, PixelRange, Std, mean_and_std
from gpunn.cli.plot import check_plot, plot_losses
from gpunn.cli.progress import progress_bars
from gpunn.cli.show import (
    BackendName,
    DeviceName,
    ModelFile,
    duration,
    json_text,
    plain,
    size,
    stdout,
)
from gpunn.cli.text import remark
from gpunn.cli.wrap import say
from gpunn.errors import FormatError, UnsupportedError
from gpunn.files import describe_skipped, expect_writable
from gpunn.finetuning.finetune import RATES, Optimizers
from gpunn.finetuning.photos import examples_in
from gpunn.finetuning.run import Layers
from gpunn.importers import FORMATS
from gpunn.importers.common.format import Format
from gpunn.vision.classes import MOST_NAMED
from gpunn.wording import counted

app = subcommand()

_RATES = "; ".join(
    f"{optimizer}: {rates['last']:g}, {rates['all']:g} for all layers" for optimizer, rates in RATES.items()
)

_UNSCORED = (
    "left out: the calibration and the threshold of scores, which were measured for other weights. So the "
    "new model names a class for every photo, however unsure"
)


@app.command()
def finetune(
    model: ModelFile,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            show_default=False,
            help="A folder with a subfolder of photos for each class, named like the class.",
        ),
    ],
    labels_from_folders: Annotated[
        bool,
        typer.Option(
            "--labels-from-folders",
            help="The classes are the subfolders. Without this the model keeps its classes, and the "
            "subfolders are some of these.",
        ),
    ] = False,
    epochs: Annotated[int, typer.Option(metavar="N", min=1, help="How often to go through the photos.")] = 5,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Photos in a step of the training.")] = 16,
    layers: Annotated[
        Layers,
        typer.Option(help="Train the last layer, or all convolutions and products; that takes longer."),
    ] = "last",
    optimizer: Annotated[Optimizers, typer.Option(help="How weights change; sgd has momentum 0.9.")] = "adam",
    learning_rate: Annotated[
        float | None,
        typer.Option(metavar="RATE", min=0, show_default=False, help=f"[default: {_RATES}]"),
    ] = None,
    validation: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0,
            max=0.9,
            help="Share of each class's photos that is not trained on: they measure the accuracy.",
        ),
    ] = 0.2,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Seed of new weights, and of the order of the photos.")
    ] = 0,
    augment: Annotated[
        bool,
        typer.Option("--augment", help="Mirror and shift the photos at random, anew in each epoch."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="The file to write.  [default: MODEL with _finetuned behind its name, in this folder]",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the loss: .png, .svg or .pdf (extra: demo).")
    ] = None,
    backend: Annotated[BackendName, typer.Option(help="Where to train.")] = "auto",
    device: DeviceName = None,
    pixels: PixelRange = None,
    mean: Mean = None,
    std: Std = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> None:
    """Retrain a classifier on your own photos, and write the new model.

    If the classes are others than those of the model, it gets a new last layer with random weights. With
    --layers last, what comes before the last layer is computed once for each photo; with --augment in each
    epoch.
    """
    if plot is not None:
        check_plot(plot)
    loaded = gpunn.load(model)
    target = _target(loaded, model, output)
    scale = mean_and_std(pixels, mean, std)
    wanted = vision.photo_input(loaded, *scale)
    examples = examples_in(folder)
    start = time.perf_counter()
    with progress_bars(quiet=as_json) as bars:

        def told(progress: gpunn.FinetuneProgress) -> None:
            done, total = progress.done, progress.total
            if progress.epoch is not None:
                done, total = done + total * progress.epoch, total * epochs
            bars(progress.stage, done, total)

        found = gpunn.finetune(
            loaded,
            examples,
            epochs=epochs,
            batch=batch,
            learning_rate=learning_rate,
            optimizer=optimizer,
            layers=layers,
            validation=validation,
            seed=seed,
            keep_classes=not labels_from_folders,
            augment=augment,
            mean=scale[0],
            std=scale[1],
            backend=backend,
            device=device,
            on_progress=told,
        )
    seconds = time.perf_counter() - start
    labels = _write(found, target)
    if plot is not None:
        plot_losses(found, loaded.name, plot)
    if as_json:
        print(json_text(_document(found, loaded.name, wanted, target, labels, seconds)))
        return
    _print(stdout(), found, loaded.name, wanted, seconds)
    written = f"wrote {target} ({size(target.stat().st_size)})"
    say(stdout(), plain(f"{written}, and its class names to {labels}" if labels else written))
    if left := describe_skipped(len(found.skipped.no_photos), [*found.skipped.unreadable.values()]):
        remark(left)


def _target(model: gpunn.Model, file: Path, output: Path | None) -> Path:
    """Return the file to write; raise an error if that is not possible, before anything is trained."""
    if model.template is None or model.template.contents is None:
        raise UnsupportedError(f"{file}: cannot be written again")
    data, _ = model.template.contents()
    format: Format = next(f for f in FORMATS if f.recognise(data))
    target = output or Path(f"{file.stem}_finetuned{format.suffixes[0]}")
    if target.suffix.lower() not in format.suffixes:
        raise FormatError(f"{target}: {file.name} is written as {', '.join(format.suffixes)}")
    expect_writable(target)
    if not model.labels:  # then its kind of file may have no place for the names of the classes
        expect_writable(_beside(target))
    return target


def _beside(target: Path) -> Path:
    """Return the file of the class names of a model that has no place for them."""
    return target.with_name(f"{target.stem}_labels.txt")


def _write(found: gpunn.Finetuned, target: Path) -> Path | None:
    """Write the model; also its class names if its kind of file has no place for them: return their file."""
    found.model.save(target)
    if gpunn.load(target).labels:
        return None
    labels = _beside(target)
    labels.write_text("".join(f"{label}\n" for label in found.labels), encoding="utf-8")
    return labels


def _print(
    console: Console, found: gpunn.Finetuned, model: str, wanted: vision.PhotoInput, seconds: float
) -> None:
    say(console, plain(model), style="bold")
    names = f": {', '.join(found.labels)}" if len(found.labels) <= MOST_NAMED else ""
    layer = "; the last layer is new" if found.replaced else ""
    say(console, plain(f"{counted(len(found.labels), 'class', 'classes')}{names}{layer}"))
    mixed = ", mirrored and shifted at random" if found.augmented else ""
    measured = f"{found.measured} that {'measures' if found.measured == 1 else 'measure'} the accuracy"
    say(console, f"{counted(found.trained, 'photo')} to train on{mixed}, {measured}")
    say(console, plain(wanted.described(OPTION)))
    console.print()
    headings = ("epoch", "loss", *(("accuracy",) if found.measured else ()))
    rows = [
        (str(number), f"{epoch.loss:.4f}", "" if epoch.accuracy is None else f"{epoch.accuracy:.1%}")
        for number, epoch in enumerate(found.epochs, 1)
    ]
    if found.before is not None:
        rows.insert(0, ("before", "", f"{found.before:.1%}"))
    cells = [Row(tuple(map(plain, row[: len(headings)]))) for row in rows]
    print_table(console, [Column(heading, number=True) for heading in headings], cells)
    console.print()
    say(console, plain(f"{duration(seconds)} on {found.device}, backend {found.backend}"))
    if found.unscored:
        say(console, _UNSCORED)


def _document(
    found: gpunn.Finetuned,
    model: str,
    wanted: vision.PhotoInput,
    target: Path,
    labels: Path | None,
    seconds: float,
) -> dict[str, Any]:
    return {
        "model": model,
        "output": str(target),
        "labels_file": None if labels is None else str(labels),
        "labels": list(found.labels),
        "new_last_layer": found.replaced,
        "backend": found.backend,
        "device": found.device,
        "trained": found.trained,
        "measured": found.measured,
        "pixels": wanted.to_json(),
        "augmented": found.augmented,
        "before": found.before,
        "scoring_dropped": found.unscored,
        "epochs": [{"loss": epoch.loss, "accuracy": epoch.accuracy} for epoch in found.epochs],
        "losses": list(found.losses),
        "seconds": seconds,
        "skipped": [
            {"file": str(path), "reason": reason}
            for left in (found.skipped.no_photos, found.skipped.unreadable)
            for path, reason in left.items()
        ],
    }
