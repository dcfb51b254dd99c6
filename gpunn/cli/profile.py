"""gpunn profile: the time of a run, operation by operation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import gpunn
from gpunn import vision
from gpunn.cli.columns import Column, Row, print_table
from gpunn.cli.commands import subcommand
from gpunn.cli.operations import LEAST_NAME, LEAST_PLACE, Named, called, places
from gpunn.cli.paths import files
from gpunn.cli.pixels import OPTION, Mean, PixelRange, Std, mean_and_std
from gpunn.cli.plot import check_plot, plot_profile
from gpunn.cli.progress import progress_bars
from gpunn.cli.show import (
    AllColumns,
    BackendName,
    DeviceName,
    ModelFile,
    PreferenceName,
    duration,
    json_text,
    named_preference,
    plain,
    stdout,
)
from gpunn.cli.wrap import say
from gpunn.comparison.inputs import expect_photos, file_source, first_samples
from gpunn.files import expect_writable
from gpunn.profiling import AppendedRow, Profile
from gpunn.profiling import Row as Operation

app = subcommand()

_METHODS = {
    "timestamps": "the device's timestamps around each dispatch",
    "submissions": "each dispatch submitted alone, since the device has no timestamps",
    "host clock": "the host's clock",
}


@app.command()
def profile(
    model: ModelFile,
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="INPUTS",
            show_default=False,
            callback=files,
            help="A photo, or .npy or .npz files, - for one from standard input; only the first sample "
            "runs.  [default: a random one]",
        ),
    ] = None,
    backend: Annotated[BackendName, typer.Option(help="Where to run.")] = "auto",
    device: DeviceName = None,
    preference: Annotated[
        PreferenceName,
        typer.Option(help="What the model is compiled for; sustained-speed measures kernels."),
    ] = "fast-single-answer",
    relaxed: Annotated[bool, typer.Option("--relaxed", help="Store float32 as float16.")] = False,
    runs: Annotated[
        int, typer.Option(metavar="N", min=2, help="Number of runs; half of them are traced.")
    ] = 20,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the random input.")] = 0,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a Chrome trace (chrome://tracing, ui.perfetto.dev)."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the times: .png, .svg or .pdf (extra: demo).")
    ] = None,
    pixels: PixelRange = None,
    mean: Mean = None,
    std: Std = None,
    every: AllColumns = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> None:
    """Show the time, arithmetic and memory traffic of every operation of a model.

    The operations are those that run: after constants are folded and operations are fused.
    """
    if plot is not None:
        check_plot(plot)
    if trace is not None:
        expect_writable(trace)
    loaded, scale = gpunn.load(model), mean_and_std(pixels, mean, std)
    source = file_source(loaded, inputs or (), mean=scale[0], std=scale[1])
    expect_photos(source, *scale)
    arrays = first_samples(source)[0].arrays if inputs else None
    with progress_bars(quiet=as_json) as told:
        found = gpunn.profile(
            loaded,
            arrays,
            backend=backend,
            device=device,
            preference=named_preference(preference),
            relaxed=relaxed,
            runs=runs,
            seed=seed,
            progress=told,
        )
    if trace is not None:
        trace.write_text(json.dumps(found.to_chrome_trace()) + "\n", encoding="utf-8")
    if plot is not None:
        plot_profile(found, plot)
    if as_json:
        print(json_text(found.to_json()))
    else:
        _print(stdout(), found, source.pixels, every)


def _print(console: Console, found: Profile, pixels: vision.PhotoInput | None, every: bool) -> None:
    say(console, plain(found.model), style="bold")
    say(console, plain(f"on {found.device}, backend {found.backend}; input: {found.inputs}"))
    if pixels is not None:
        say(console, plain(pixels.described(OPTION)))
    console.print()
    _print_operations(console, found, every)
    console.print()
    flops = sum(row.flops for row in found.rows)
    total = found.operations_seconds
    lines = {
        "operations": f"{duration(total)} by {_METHODS[found.method]}",
        "arithmetic": f"{flops / 1e6:,.1f} MFLOP, {flops / total / 1e9 if total else 0:,.1f} GFLOP/s",
        "a run": f"{duration(found.run_seconds)} from arrays to arrays (median)",
    }
    if found.device_seconds is not None:
        lines["device"] = f"{duration(found.device_seconds)} for all dispatches of a run together (median)"
    if found.backend != "cpu":
        parts = {
            "upload": found.upload_seconds,
            "encode": found.encode_seconds,
            "read back": found.readback_seconds,
        }
        lines["host"] = ", ".join(f"{name} {duration(part)}" for name, part in parts.items())
    lines["start"] = f"compile {duration(found.compile_seconds)}, first run {duration(found.first_seconds)}"
    for name, line in lines.items():
        say(console, line, f"{name:<12}")


def _print_operations(console: Console, found: Profile, every: bool) -> None:
    where = places([row.origin for row in found.rows], found.model)
    columns = (
        Column("#", number=True),
        Column("operation", least=LEAST_NAME),
        Column("result"),
        Column("kernel", least=LEAST_NAME, shared=True),
        Column("time", number=True),
        Column("share", number=True),
        Column("MFLOP", number=True, rare=True),
        Column("GFLOP/s", number=True, spare=1),
        Column("GB/s", number=True, spare=2),
        Column(where.heading, least=LEAST_PLACE, spare=3),
    )
    slowest = max((row.seconds for row in found.rows), default=0.0)
    rows = [
        Row(tuple(map(plain, (*_cells(row), place))), style="bold" if row.seconds == slowest else "")
        for row, place in zip(found.rows, where.cells, strict=True)
    ]
    print_table(console, columns, rows, every=every)


def _cells(row: Operation) -> tuple[str, ...]:
    return (
        str(row.index),
        called(row.op, row.activation, _named(row.appended), _named(row.prepended)),
        "x".join(map(str, row.shape)),
        " ".join(row.kernels) or "cpu",
        duration(row.seconds),
        f"{row.share:.1%}",
        f"{row.flops / 1e6:,.2f}",
        _giga(row.flops_per_second),
        _giga(row.bytes_per_second),
    )


def _named(others: Iterable[AppendedRow]) -> list[Named]:
    return [(each.op, each.activation) for each in others]


def _giga(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e9:,.1f}"
