"""Helpers of all subcommands: consoles, readable sizes and times, JSON, option types."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from rich.console import Console
from rich.text import Text

from gpunn.cli.complete import device_names
from gpunn.cli.paths import one_file
from gpunn.cli.text import printable
from gpunn.compilation.preference import Preference
from gpunn.importers import SUFFIXES

KINDS = " or ".join((", ".join(SUFFIXES[:-1]), SUFFIXES[-1]))  # of model files
ModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        callback=one_file,
        help=f"A {KINDS} file; - is standard input.",
    ),
]
BackendName = Literal["auto", "webgpu", "cpu"]
PreferenceName = Literal["low-power", "fast-single-answer", "sustained-speed"]
PREFERENCE_NAMES: tuple[str, ...] = get_args(PreferenceName)
LabelsFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Class names, one on each line.  [default: those in the model file]"),
]
DeviceName = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        show_default=False,
        autocompletion=device_names,
        help="Which GPU: its number in `gpunn devices`, a part of its name, or its PCI id.",
    ),
]
AllColumns = Annotated[bool, typer.Option("--all", help="Print all columns of the tables.")]
Isolate = Annotated[
    bool,
    typer.Option(
        "--isolate",
        help="Run in a worker process, so that a driver that crashes is an error and not the end.",
    ),
]
Relaxed = Annotated[
    bool,
    typer.Option(
        "--relaxed",
        help="Store float32 intermediates and weights as float16: half the memory, less accurate.",
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=N,N,...",
        show_default=False,
        help="Another shape for an input than the file has; may be given for several inputs.",
    ),
]
WIDE = 10**6  # columns of a file or a pipe, where nothing is broken, shortened or left out


class _Console(Console):
    """A console that raises BrokenPipeError when nobody reads any more."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise BrokenPipeError


def stdout() -> Console:
    """Return the console for results."""
    return _Console(width=None if on_terminal() else WIDE, highlight=False)


def on_terminal() -> bool:
    """Tell whether results go to a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def stderr() -> Console:
    """Return the console for progress and remarks."""
    return Console(stderr=True, highlight=False)


def input_shapes(options: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Parse --shape NAME=N,N,... options, by input; "NAME=" is a scalar. A name may contain "=", too."""
    found: dict[str, tuple[int, ...]] = {}
    for option in options:
        name, equals, extents = option.rpartition("=")
        if name in found:
            raise typer.BadParameter(f"--shape names {name} twice")
        try:
            found[name] = tuple(int(n) for n in extents.split(",")) if extents else ()
        except ValueError:
            equals = ""
        if not equals:
            raise typer.BadParameter(
                f"--shape should be NAME=N,N,... such as input=1,320,320,3, got {option}"
            )
    return found


def words(text: str) -> list[str]:
    """Split a text at commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def named_preference(name: str) -> Preference:
    """Return the preference for one of PREFERENCE_NAMES."""
    if name not in PREFERENCE_NAMES:
        raise typer.BadParameter(f"there is no preference {name!r}, only {', '.join(PREFERENCE_NAMES)}")
    return Preference[name.upper().replace("-", "_")]


def plain(value: object) -> Text:
    """Show a text from a file unchanged: no markup, and no control characters for the terminal."""
    return Text(printable(str(value)))


def json_text(document: Any) -> str:
    """Format a JSON document; numbers that JSON cannot express (NaN, infinities) become null.

    Characters that standard output cannot take, as in names of files that are not UTF-8, are escaped.
    """
    text = json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding if sys.stdout else "utf-8")
    except UnicodeEncodeError:
        return json.dumps(_finite(document), indent=2, allow_nan=False)
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def size(count: int) -> str:
    """Format a number of bytes."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def duration(seconds: float) -> str:
    """Format a time in seconds."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"
