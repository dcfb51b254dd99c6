"""gpunn tune: the quickest kernels for a model, measured ahead."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

import gpunn
from gpunn import cache
from gpunn.cli.columns import Column, Row, print_table
from gpunn.cli.commands import subcommand
from gpunn.cli.operations import LEAST_NAME, called
from gpunn.cli.progress import progress_bars
from gpunn.cli.show import (
    AllColumns,
    DeviceName,
    ModelFile,
    Relaxed,
    Shapes,
    duration,
    input_shapes,
    json_text,
    plain,
    stdout,
)
from gpunn.cli.wrap import say
from gpunn.tuning.result import TunedCall, Tuning, Way
from gpunn.wording import counted

app = subcommand()

_CHANGES = {  # how a program is with a change and without, and what that is called; see Whole
    "chosen": (("with these", "these"), ("by the rule", "the rule's")),
    "inlined": (("with parameters as constants", "constants"), ("in a buffer", "the buffer")),
}


@app.command()
def tune(
    model: ModelFile,
    device: DeviceName = None,
    relaxed: Relaxed = False,
    shapes: Shapes = None,
    again: Annotated[
        bool, typer.Option("--again", help="Measure also what has been measured on this device before.")
    ] = False,
    every: AllColumns = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> None:
    """Measure which kernels are the quickest for a model on a GPU, and remember them.

    Programs that compile the model for sustained-speed then start without measuring.
    """
    loaded = gpunn.load(model)
    with progress_bars(quiet=as_json) as told:
        found = gpunn.tune(
            loaded,
            device=device,
            relaxed=relaxed,
            shapes=input_shapes(shapes or ()),
            again=again,
            progress=told,
        )
    if as_json:
        print(json_text(found.to_json()))
    else:
        _print(stdout(), found, every)


def _print(console: Console, found: Tuning, every: bool) -> None:
    say(console, plain(found.model), style="bold")
    measured = counted(sum(call.measured for call in found.calls), "call")
    say(console, plain(f"on {found.device}; {measured} measured in {duration(found.seconds)}"))
    if found.calls:
        console.print()
        _print_calls(console, found, every)
    console.print()
    for whole in found.wholes:
        (how, name), (otherwise, other) = _CHANGES[whole.change]
        times = f"{duration(whole.seconds)} {how}, {duration(whole.seconds_without)} {otherwise}"
        say(console, f"all together: {times}; sustained-speed takes {name if whole.taken else other}")
    known = sum(not call.measured for call in found.calls)
    if known:
        say(console, f"known from before: {counted(known, 'call')} (--again measures them)")
    if found.small:
        say(console, f"too small to measure: {counted(found.small, 'operation')}")
    if not found.calls and not found.small:
        say(console, "no operation has several candidates")
    if not found.stored:
        say(console, plain(f"{cache.cache_folder()} cannot be written: other processes will measure again"))


def _print_calls(console: Console, found: Tuning, every: bool) -> None:
    columns = (
        Column("operation", least=LEAST_NAME),
        Column("result"),
        Column("calls", number=True),
        Column("", least=1),
        Column("way", least=LEAST_NAME),
        Column("time", number=True),
        Column("in the model", number=True, rare=True),
        Column("dropped because", sentences=True, shared=True),
    )
    rows = [
        Row(tuple(map(plain, _cells(call, place, way))), style="bold" if place == call.chosen else "")
        for call in found.calls
        for place, way in enumerate(call.ways)
    ]
    print_table(console, columns, rows, every=every)


def _cells(call: TunedCall, place: int, way: Way) -> tuple[str, ...]:
    """Return a line of the table; the first one of a call names it."""
    shape, count = "x".join(map(str, call.shape)), len(call.origins)
    return (
        *((called(call.op, call.activation), shape, str(count)) if place == 0 else ("", "", "")),
        "*" if place == call.chosen else "",
        way.reason,
        "-" if way.seconds is None else duration(way.seconds),
        "-" if way.seconds is None else duration(way.seconds * count),
        way.dropped,
    )
