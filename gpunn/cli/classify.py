"""gpunn classify: names what photos show."""

from __future__ import annotations

import mimetypes
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.progress_bar import ProgressBar
from rich.text import Text

import gpunn
from gpunn import vision
from gpunn.cli.columns import Column, Row, print_table
from gpunn.cli.commands import subcommand
from gpunn.cli.paths import files, one_file, shown
from gpunn.cli.pixels import OPTION, Mean, PixelRange, Std, mean_and_std
from gpunn.cli.show import (
    KINDS,
    BackendName,
    DeviceName,
    Isolate,
    LabelsFile,
    PreferenceName,
    Relaxed,
    duration,
    json_text,
    plain,
    stderr,
    stdout,
)
from gpunn.cli.text import remark
from gpunn.cli.wrap import say
from gpunn.errors import FormatError, MissingFileError, UnsupportedError
from gpunn.files import Skipped, describe_skipped, files_in
from gpunn.types import Array
from gpunn.wording import counted

app = subcommand()

LEAST_LABEL = 18  # columns of the terminal to which names of classes may be shortened


@dataclass(frozen=True, slots=True)
class _Candidate:
    path: Path
    named: bool  # on the command line, as against found in a folder


@dataclass(frozen=True, slots=True)
class _Result:
    photo: Path
    answer: vision.Answer


@dataclass(slots=True)
class _Report:
    """The results of a run, printed at the end as text or JSON."""

    model: str
    knows: str
    classifier: vision.Classifier
    backend: str
    device: str
    preference: str
    compile_seconds: float
    photo_seconds: float = 0.0
    results: list[_Result] = field(default_factory=list)
    skipped: Skipped = field(default_factory=Skipped)


@app.command()
def classify(
    photos: Annotated[
        list[Path],
        typer.Argument(
            metavar="PHOTO",
            show_default=False,
            callback=files,
            help="Photos in any format that Pillow reads, - for one from standard input, or folders, "
            "which are searched with all their subfolders; files in them that are not photos are skipped "
            "and counted.",
        ),
    ],
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=one_file,
            help=f"An image classifier, a {KINDS} file.  [default: gpunn's own, CIFAR-10]",
        ),
    ] = None,
    labels: LabelsFile = None,
    top: Annotated[
        int, typer.Option(metavar="K", min=1, help="Number of classes to show for each photo.")
    ] = 5,
    backend: Annotated[
        BackendName,
        typer.Option(help="Where to run; auto takes what was measured as fastest: a real GPU or the CPU."),
    ] = "auto",
    preference: Annotated[
        PreferenceName | None,
        typer.Option(
            help="What to save: power, the time to one answer, or the time for many.  "
            "[default: fast-single-answer for one photo, sustained-speed for more]",
            show_default=False,
        ),
    ] = None,
    device: DeviceName = None,
    relaxed: Relaxed = False,
    isolate: Isolate = False,
    batch: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Photos in one run; the last batch is filled up.  [default: as in the model file, mostly 1]",
        ),
    ] = None,
    pixels: PixelRange = None,
    mean: Mean = None,
    std: Std = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> None:
    """Name what photos show.

    Each photo is turned upright, gets a white background if it is transparent, and is resized to the
    model's input size.
    """
    candidates = _gather(photos)
    chosen = preference or ("fast-single-answer" if len(candidates) == 1 else "sustained-speed")
    loaded = gpunn.load(model or vision.default_model())
    if batch is not None:
        loaded = loaded.reshaped({i.name: (batch, *i.type.shape[1:]) for i in loaded.inputs})
    scale = mean_and_std(pixels, mean, std)
    classifier = vision.classifier(loaded, top=top, labels=labels, mean=scale[0], std=scale[1])
    start = time.perf_counter()
    asked = classifier.model
    with asked.compile(backend, chosen, relaxed=relaxed, device=device, isolate=isolate) as compiled:
        compiled_at = time.perf_counter()
        report = _Report(
            model=loaded.name,
            knows=vision.known_classes(loaded, classifier.labels),
            classifier=classifier,
            backend=compiled.backend,
            device=compiled.device,
            preference=chosen,
            compile_seconds=compiled_at - start,
        )
        report.results += _results(compiled, candidates, report)
        report.photo_seconds = time.perf_counter() - compiled_at
    if not report.results:
        left = describe_skipped(0, [*report.skipped.unreadable.values()])
        reason = f": {left}" if left else ""
        raise FormatError(f"no photo among {counted(len(candidates), 'file')}{reason}")
    if as_json:
        print(json_text(_document(report)))
    else:
        _print_report(stdout(), report)


def _gather(paths: Sequence[Path]) -> list[_Candidate]:
    """List the files to classify; folders are searched in sorted order."""
    found: list[_Candidate] = []
    for path in paths:
        if path.is_dir():
            found += [_Candidate(inside, named=False) for inside in files_in(path)]
        else:
            _expect_photo(path)
            found.append(_Candidate(path, named=True))
    return found


def _expect_photo(path: Path) -> None:
    """Raise an error for a file that is certainly no photo, before the model is compiled."""
    if not path.exists():
        raise MissingFileError(path)
    if (mimetypes.guess_type(path.name)[0] or "").startswith("video/"):
        raise UnsupportedError(
            f"{path}: is a video; demos/stream.py classifies the frames of videos and cameras"
        )


def _results(
    compiled: gpunn.Compilation, candidates: Sequence[_Candidate], report: _Report
) -> Iterator[_Result]:
    """Yield each photo's result, in order."""
    read: list[Path] = []
    classifier, photos = report.classifier, report.classifier.photos
    batches = photos.batches(_read_photos(candidates, photos, read, report))
    sustained = report.preference == "sustained-speed"
    results = compiled.stream(batches) if sustained else (compiled(batch) for batch in batches)
    answers = (answer for result in results for answer in classifier.answers(result))
    # An answer comes after its photo was read, so `read` grows ahead; what fills up a batch has no photo.
    return (_Result(path, answer) for answer, path in zip(answers, read, strict=False))


def _read_photos(
    candidates: Sequence[_Candidate], photos: vision.PhotoInput, read: list[Path], report: _Report
) -> Iterator[Array]:
    """Yield the photos' bytes. Their paths go to `read`; files in folders that are not photos go to the
    report.
    """
    console = stderr()
    quiet = len(candidates) == 1 or not console.is_terminal
    for candidate in track(candidates, "classifying", console=console, disable=quiet, transient=True):
        try:
            photo = vision.load_photo(candidate.path)
        except (FormatError, OSError) as error:
            if candidate.named:
                raise
            report.skipped.add(candidate.path, error)
            continue
        read.append(candidate.path)
        yield photos.values(photo)


def _print_report(console: Console, report: _Report) -> None:
    for result in report.results:
        heading = "probability" if result.answer.probabilities else "score"
        say(console, plain(shown(result.photo)), style="bold")
        if result.answer.known is False:
            text = result.answer.said
            say(console, plain(text), style="yellow")
        columns = (
            Column("#", number=True),
            Column("class", least=LEAST_LABEL),
            Column(heading, number=True),
            Column("", spare=1),
        )
        rows = []
        for rank, guess in enumerate(result.answer.best, 1):
            figure = f"{guess.score:.1%}" if result.answer.probabilities else f"{guess.score:.4g}"
            bar = _bar(console, guess.score) if result.answer.probabilities else Text()
            rows.append(Row((Text(str(rank)), plain(guess.label), Text(figure), bar)))
        print_table(console, columns, rows)
        console.print()
    count = len(report.results)
    each = f" ({duration(report.photo_seconds / count)} each)" if count > 1 else ""
    summary = (
        f"{counted(count, 'photo')} in {duration(report.photo_seconds)}{each} on "
        f"{report.device}, backend {report.backend}; model compiled in {duration(report.compile_seconds)}"
    )
    say(console, plain(report.knows))
    say(console, plain(report.classifier.wanted.described(OPTION)))
    say(console, plain(summary))
    if left := describe_skipped(len(report.skipped.no_photos), [*report.skipped.unreadable.values()]):
        remark(left)


def _bar(console: Console, share: float) -> Text:
    bar = ProgressBar(1.0, share, width=24, complete_style="cyan", finished_style="cyan")
    return Text.assemble(*((part.text, part.style or "") for part in console.render(bar)))


def _document(report: _Report) -> dict[str, Any]:
    scoring = report.classifier.given.scoring
    return {
        "model": report.model,
        "knows": report.knows,
        "threshold": None if scoring is None else scoring.threshold,
        "backend": report.backend,
        "device": report.device,
        "preference": report.preference,
        "pixels": report.classifier.wanted.to_json(),
        "seconds": {"compile": report.compile_seconds, "photos": report.photo_seconds},
        "photos": [
            {
                "photo": shown(result.photo),
                "scores": "probabilities" if result.answer.probabilities else "raw",
                "known": result.answer.known,
                "top": [{"rank": rank, **asdict(guess)} for rank, guess in enumerate(result.answer.best, 1)],
            }
            for result in report.results
        ],
        "skipped": [
            {"file": str(path), "reason": reason}
            for found in (report.skipped.no_photos, report.skipped.unreadable)
            for path, reason in found.items()
        ],
    }
