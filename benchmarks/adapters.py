"""gpunn beside the other GPU libraries, on each driver: python -m benchmarks.adapters MODEL...

A model is a .tflite file, or the name of a network of benchmarks/networks.py with random weights.
Drivers are those of the system, and each --driver: a Vulkan driver that is not installed, but unpacked
beside, such as another version of Mesa. NAME=ICD.json names it, or NAME=ICD.json:FOLDER with the folder of
the libraries that it needs. Of several adapters of a driver, each library takes the one that it prefers. Each
library is measured as by `gpunn bench`, in turns; a table for each driver shows the time of gpunn's runs,
their CPU time and the first answer relative to each library's. --chart draws the ratios of the time. With
`--backend webgpu-f16` gpunn's models are relaxed, for libraries in float16.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import Any

from benchmarks.command import command, program
from benchmarks.networks import written
from gpunn.bench.conditions import Conditions, load, load_text
from gpunn.bench.group import Turns
from gpunn.bench.measure import benchmark
from gpunn.bench.peers import OURS
from gpunn.bench.result import Benchmark, Result
from gpunn.cli.grid import Grid, number, report
from gpunn.cli.plot import check_plot
from gpunn.cli.progress import progress_bars
from gpunn.cli.show import PREFERENCE_NAMES, named_preference
from gpunn.compilation.preference import Preference

BACKENDS = ("webgpu", "webgpu-f16")
PEERS = ("ncnn-vulkan", "litert-gpu", "onnxruntime-webgpu")
SYSTEM = "the system's drivers"


@dataclass(frozen=True, slots=True)
class Driver:
    """A Vulkan driver. variables: those of the environment that choose it; none for the system's."""

    name: str
    variables: Mapping[str, str]

    @classmethod
    def of(cls, text: str) -> Driver:
        """Read NAME=ICD.json[:FOLDER]; raise ValueError if it is not of this form."""
        name, equals, places = text.partition("=")
        icd, _, folder = places.partition(":")
        if not (name and equals and icd):
            raise ValueError(text)
        variables = {"VK_DRIVER_FILES": icd, "VK_ICD_FILENAMES": icd}  # the new name, and that of old loaders
        return cls(name, {**variables, "LD_LIBRARY_PATH": folder} if folder else variables)

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """Let the processes that are started meanwhile use this driver."""
        before = {name: os.environ.get(name) for name in self.variables}
        os.environ.update(self.variables)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value


@dataclass(frozen=True, slots=True)
class Compared:
    """A model on an adapter with one number of samples, gpunn and the libraries that ran there."""

    model: str
    batch: int
    found: Benchmark

    @property
    def name(self) -> str:
        """Return what tells it from the others of its adapter."""
        return self.model if self.batch == 1 else f"{self.model} x{self.batch}"

    @property
    def results(self) -> Iterator[Result]:
        """Return the results with this number of samples."""
        return (result for result in self.found.results if result.entrant.batch == self.batch)

    @property
    def ours(self) -> Result | None:
        """Return gpunn's result, or None if it failed."""
        done = (r for r in self.results if r.entrant.peer in OURS and not r.failed)
        return next(done, None)

    def cells(self, peers: Sequence[str]) -> tuple[str, ...]:
        """Return a row of the table: the time, then for each peer the ratios of three times."""
        ours, row = self.ours, [self.name]
        if ours is None:
            return (*row, *[number(None, 0)] * (1 + len(peers)))
        median = ours.figures["median_s"]
        row.append(number(None if median is None else 1e3 * median, 2))
        return (*row, *(self._ratios(ours, peer) for peer in peers))

    def _ratios(self, ours: Result, peer: str) -> str:
        theirs = self.result_of(peer)
        ratio = self.time_over(peer)
        if theirs is None or ratio is None:
            return number(None, 0)
        cpu, first = (_over(ours.figures[k], theirs.figures[k]) for k in ("cpu_s", "first_s"))
        return " / ".join(number(value, 2) for value in (ratio, cpu, first))

    def result_of(self, peer: str) -> Result | None:
        """Return the result of a library that ran."""
        done = (r for r in self.results if r.entrant.peer == peer and not r.failed)
        return next(done, None)

    def time_over(self, peer: str) -> float | None:
        """Return the time of gpunn's runs, relative to those of a library: see Ratio."""
        ours = self.ours
        if ours is None or self.result_of(peer) is None or peer not in self.found.bases:
            return None
        ratio = self.found.ratios(ours)[self.found.bases.index(peer)]
        return None if ratio is None else ratio.time


@dataclass(frozen=True, slots=True)
class Ours:
    """The form in which gpunn is measured: a backend, a preference, and numbers of samples in a run."""

    backend: str
    preference: Preference
    batches: Sequence[int]


def _over(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def measure(
    driver: Driver, models: Sequence[Path], ours: Ours, peers: Sequence[str], threads: int, turns: Turns
) -> list[Compared]:
    """Measure the models on a driver's adapter."""
    measured: list[Compared] = []
    with driver.chosen(), progress_bars(quiet=False) as told:
        for model in models:
            found = benchmark(
                model,
                backends=[ours.backend],
                preferences=[ours.preference],
                batches=ours.batches,
                peers=peers,
                threads=[threads],
                bases=peers,
                turns=turns,
                progress=told,
            )
            measured += (Compared(model.stem, batch, found) for batch in ours.batches)
    return measured


def table(measured: Sequence[Compared], peers: Sequence[str]) -> tuple[Grid, list[str]]:
    """Return the table of an adapter, with the libraries that ran there, and why others did not."""
    ran = [peer for peer in peers if any(row.result_of(peer) for row in measured)]
    reasons: dict[str, list[str]] = {}
    for row in measured:
        for result in row.results:
            if result.failed:
                reasons.setdefault(f"{result.entrant.series}: {result.failed}", []).append(row.name)
    header = ("", "run ms", *(f"time / CPU time / first answer, to {peer}" for peer in ran))
    notes = [f"{reason} ({', '.join(models)})" for reason, models in reasons.items()]
    return Grid(header, tuple(row.cells(ran) for row in measured)), notes


def draw(adapters: Mapping[str, Sequence[Compared]], peers: Sequence[str], path: Path) -> None:
    """Draw the ratios of the time, a panel for each adapter, as a .svg, .png or .pdf file."""
    from matplotlib.figure import Figure  # only a chart needs it

    rows = max(map(len, adapters.values()))
    figure = Figure(figsize=(9, 1.4 + 0.2 * len(peers) * rows), layout="constrained")
    panels = figure.subplots(1, len(adapters), squeeze=False, sharex=True, sharey=True)[0]
    keys: dict[str, Any] = {}
    for axes, (name, measured) in zip(panels, adapters.items(), strict=True):
        for place, peer in enumerate(peers):
            ratios = [row.time_over(peer) for row in measured]
            bars = [(k + 0.25 * place, ratio) for k, ratio in enumerate(ratios) if ratio is not None]
            if bars:
                places, widths = zip(*bars, strict=True)
                keys[f"{peer} = 1"] = axes.barh(places, widths, height=0.23, color=f"C{place}")
                axes.bar_label(keys[f"{peer} = 1"], fmt="%.2f", fontsize=7, padding=2)
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set_title(fill(name, 100 // len(adapters)), fontsize=7)
    figure.supxlabel("time of gpunn's runs; below 1 gpunn is quicker", fontsize=8)
    figure.legend(keys.values(), keys.keys(), loc="outside upper center", ncols=len(peers), fontsize=7)
    names = [row.name for row in max(adapters.values(), key=len)]
    panels[0].set_yticks(range(rows), names, fontsize=8)
    panels[0].set_ylim(rows - 0.4, -0.4)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def add_drivers(parser: ArgumentParser) -> None:
    """Let a command line name drivers, for named_drivers()."""
    parser.add_argument("--driver", action="append", default=[], metavar="NAME=ICD.json[:FOLDER]")


def named_drivers(parser: ArgumentParser, given: Sequence[str]) -> list[Driver]:
    """Return the system's drivers and those that a command line names; end it for other words."""
    try:
        return [Driver(SYSTEM, {}), *map(Driver.of, given)]
    except ValueError as error:
        parser.error(f"--driver should be NAME=ICD.json[:FOLDER], got {error}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print a table for each adapter, and draw the chart."""
    parser = command("adapters", __doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    add_drivers(parser)
    parser.add_argument("--backend", choices=BACKENDS, default="webgpu")
    parser.add_argument("--preference", choices=PREFERENCE_NAMES, default="fast-single-answer")
    parser.add_argument("--batch", default="1", metavar="N,N,...", help="numbers of samples in one run")
    parser.add_argument("--peers", default=",".join(PEERS), metavar="NAMES")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--starts", type=int, default=1, metavar="N")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--turn", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="a .svg, .png or .pdf file")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    options = parser.parse_args(arguments)
    if options.chart:
        check_plot(options.chart)
    drivers = named_drivers(parser, options.driver)
    try:
        batches = [int(count) for count in options.batch.split(",")]
    except ValueError:
        parser.error(f"--batch should be numbers with commas between, got {options.batch!r}")
    ours = Ours(options.backend, named_preference(options.preference), batches)
    peers, turns = options.peers.split(","), Turns(options.starts, options.rounds, options.turn)
    adapters, described = {}, Conditions.now().described()
    for driver in drivers:
        with TemporaryDirectory() as folder:
            files = [written(name, Path(folder)) for name in options.models]
            measured = measure(driver, files, ours, peers, options.threads, turns)
        device = next((row.ours.device for row in measured if row.ours), driver.name)
        adapters[device] = measured
        grid, notes = table(measured, peers)
        rounds = f"{turns.rounds} rounds of {turns.seconds:g} s each, {options.threads} threads"
        what = {"adapter": device, "rounds": rounds, "load after": load_text(load())}
        report({**described, **what}, [grid], notes, markdown=options.markdown)
        described = {}
    if options.chart:
        draw(adapters, peers, options.chart)


if __name__ == "__main__":
    program(main)
