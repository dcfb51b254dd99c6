"""gpunn bench: cold starts, latency and throughput, beside other libraries on the same model."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from gpunn.bench.conditions import load_text
from gpunn.bench.group import Turns
from gpunn.bench.measure import ALL, BACKENDS, DEFAULT_BACKENDS, PREFERENCES, benchmark, preference_text
from gpunn.bench.peers import OTHERS
from gpunn.bench.result import Benchmark, Result
from gpunn.cli.commands import subcommand
from gpunn.cli.complete import listed
from gpunn.cli.grid import ABSENT, Grid, number, report
from gpunn.cli.progress import progress_bars
from gpunn.cli.show import (
    PREFERENCE_NAMES,
    AllColumns,
    DeviceName,
    ModelFile,
    json_text,
    named_preference,
    words,
)
from gpunn.wording import counted

app = subcommand()

_STARTS = {"import s": "import_s", "load s": "load_s", "first answer s": "first_s"}
_RARE = ("min ms", "CPU ms")
_RUNS = {"median ms": "median_s", "p95 ms": "p95_s", "min ms": "min_s", "CPU ms": "cpu_s"}


class BenchCommand(TyperCommand):
    """A command whose option --peers may stand without a value: all of them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        following = [*args[1:], "-"]
        bare = [a == "--peers" and b.startswith("-") for a, b in zip(args, following, strict=True)]
        pairs = ([word, ALL] if alone else [word] for word, alone in zip(args, bare, strict=True))
        return super().parse_args(ctx, list(itertools.chain.from_iterable(pairs)))


@app.command(cls=BenchCommand)
def bench(
    model: ModelFile,
    backends: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            autocompletion=listed(BACKENDS),
            help=f"Of gpunn, with commas between: {', '.join(BACKENDS)}.",
        ),
    ] = ",".join(DEFAULT_BACKENDS),
    preferences: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            autocompletion=listed(PREFERENCE_NAMES),
            help=f"Separated by commas: {', '.join(PREFERENCE_NAMES)}.",
        ),
    ] = ",".join(map(preference_text, PREFERENCES)),
    batch: Annotated[str, typer.Option(metavar="N,N,...", help="Numbers of samples in one run.")] = "1",
    peers: Annotated[
        str,
        typer.Option(
            metavar="[NAMES]",
            show_default=False,
            autocompletion=listed(tuple(OTHERS)),
            help=f"Other libraries to measure, separated by commas: {', '.join(OTHERS)}; without names: all "
            "in float32. If one is not installed, or cannot run the model, a note says so.",
        ),
    ] = "",
    onnx: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            show_default=False,
            help="The same model for onnxruntime and PyTorch, in NHWC or NCHW; by default it is written from "
            "MODEL.",
        ),
    ] = None,
    base: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            show_default=False,
            help="What ratios are relative to: names as in the tables or peers, separated by commas.  "
            "[default: ncnn-vulkan and litert if measured, else the first]",
        ),
    ] = "",
    threads: Annotated[
        str,
        typer.Option(
            metavar="N,N,...", show_default=False, help="Numbers of CPU threads.  [default: all cores]"
        ),
    ] = "",
    device: DeviceName = None,
    starts: Annotated[int, typer.Option(metavar="N", min=1, help="Cold starts of each library.")] = 1,
    rounds: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rounds; each library has one turn in each.")
    ] = 5,
    turn: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Length of a turn.")] = 1.0,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="End a library that does not answer.")
    ] = 300.0,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the random inputs.")] = 0,
    every: AllColumns = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, with all columns.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead, with every single time.")
    ] = False,
) -> None:
    """Measure latency and throughput by backend, preference and batch, beside other libraries.

    Each library is a process of its own with empty shader caches. The processes run in turns, so that a
    disturbance of the machine affects all of them.

    first answer: importing the library, reading the model, compiling it and one run. median, p95, min, CPU:
    of one run, from arrays to arrays; CPU time is that of all threads. samples/s: of runs one after another;
    gpunn uses stream(). time / X, samples / X: the median over the rounds of the ratio to X at the same
    batch. err: max |y - reference| / the range of the reference, on the same inputs.
    """
    if onnx is not None and not onnx.is_file():
        raise typer.BadParameter(f"{onnx} is not a file", param_hint="--onnx")
    with progress_bars(quiet=as_json) as told:
        found = benchmark(
            model,
            backends=words(backends),
            preferences=[named_preference(name) for name in words(preferences)],
            peers=words(peers),
            batches=_counts("--batch", batch),
            threads=_counts("--threads", threads),
            bases=words(base),
            onnx=onnx,
            device=device,
            turns=Turns(starts, rounds, turn, timeout),
            seed=seed,
            progress=told,
        )
    if as_json:
        print(json_text(found.to_json()))
    else:
        report(_described(found), grids(found), _notes(found), markdown=markdown, every=every)


def _counts(option: str, text: str) -> list[int]:
    try:
        return [int(word) for word in words(text)]
    except ValueError:
        message = f"should be numbers with commas between, got {text!r}"
        raise typer.BadParameter(message, param_hint=option) from None


def _described(found: Benchmark) -> dict[str, str]:
    done = [result for result in found.results if not result.failed]
    devices: dict[str, list[str]] = {}
    for result in done:
        if not result.device.startswith("cpu"):
            devices.setdefault(result.device, []).append(result.entrant.peer)
    described = found.conditions.described() | {"load after": load_text(found.load_after)}
    adapters = (f"{', '.join(dict.fromkeys(peers))} on {device}" for device, peers in devices.items())
    described["adapters"] = "; ".join(adapters) or "none"
    described["threads"] = ", ".join(map(str, dict.fromkeys(r.entrant.threads for r in found.results)))
    rounds = f"{counted(found.rounds, 'round')} of {found.turn_seconds:g} s each"
    described["network"] = f"{found.model}; {rounds}; input: {found.inputs}"
    described["err against"] = found.reference
    return described


def _notes(found: Benchmark) -> list[str]:
    """Say why some entrants were not measured, or not to the end."""
    reasons: dict[str, list[str]] = {}
    for result in found.results:
        if result.failed:
            reasons.setdefault(result.failed, []).append(result.label)
    return [f"{', '.join(labels)}: {reason}" for reason, labels in reasons.items()]


def grids(found: Benchmark) -> tuple[Grid, Grid]:
    """Make the tables of cold starts and of runs; a row for each entrant that did not fail."""
    done = [result for result in found.results if not result.failed]
    first = tuple(f"first / {base}" for base in found.bases)
    ratios = tuple(f"{what} / {base}" for base in found.bases for what in ("time", "samples"))
    return (
        Grid(("from cold", *_STARTS, *first), tuple(_start(found, result) for result in done)),
        Grid(
            ("warm", *_RUNS, "samples/s", *ratios, "err"),
            tuple(_run(found, result) for result in done),
            rare=_RARE,
            spare=("err", "p95 ms", *reversed(ratios)),
        ),
    )


def _start(found: Benchmark, result: Result) -> tuple[str, ...]:
    figures = result.figures
    ratios = (None if ratio is None else ratio.first for ratio in found.ratios(result))
    seconds = (figures[name] for name in _STARTS.values())
    return (result.label, *(number(value, 2) for value in (*seconds, *ratios)))


def _run(found: Benchmark, result: Result) -> tuple[str, ...]:
    figures = result.figures
    ratios: list[float | None] = []
    for ratio in found.ratios(result):
        ratios += (None, None) if ratio is None else (ratio.time, ratio.throughput)
    milliseconds = (None if v is None else 1e3 * v for v in (figures[name] for name in _RUNS.values()))
    return (
        result.label,
        *(number(value, 2) for value in milliseconds),
        number(figures["samples_per_s"], 1),
        *(number(ratio, 2) for ratio in ratios),
        ABSENT if result.error is None else f"{result.error:.0e}",
    )
