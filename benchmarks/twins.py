"""Quantised networks beside the same in float32, on each driver: python -m benchmarks.twins PAIR...

A pair is FLOAT.tflite=QUANTISED.tflite, or the name of a network of benchmarks/networks.py: that network and
NAME_int8. Drivers are those of the system and each --driver, as in benchmarks/adapters.py. The two files of a
pair take turns in one process. The table has the CPU time of all threads for a run of the quantised file,
divided by that of the other: the least of all turns, as other work on a machine only adds to it.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import gpunn
from benchmarks.adapters import Driver, add_drivers, named_drivers
from benchmarks.command import command, program
from benchmarks.networks import INT8, written
from benchmarks.preferences import BASE, Row
from gpunn.bench.conditions import Conditions, load, load_text
from gpunn.cli.grid import Grid, number, report
from gpunn.comparison.inputs import random_source
from gpunn.wording import counted

RUNS = 2  # in a turn


def files(pair: str, folder: Path) -> tuple[Path, Path]:
    """Return the files of a pair; write those of a network into the folder."""
    plain, equals, other = pair.partition("=")
    if equals:
        return Path(plain), Path(other)
    return written(pair, folder), written(pair + INT8, folder)


def measure(pair: Sequence[Path], rounds: int) -> tuple[str, list[float]]:
    """Measure two files in turn; return the adapter, and for each the least CPU time of a run in seconds."""
    models = [gpunn.load(file) for file in pair]
    inputs = [next(iter(random_source(model).samples)).arrays for model in models]
    with ExitStack() as stack:
        rows = [Row(BASE, stack.enter_context(model.compile("webgpu", BASE))) for model in models]
        for row, arrays in zip(rows, inputs, strict=True):
            row.compiled(*arrays)
        for _ in range(rounds):
            for row, arrays in zip(rows, inputs, strict=True):
                row.time_runs(arrays, RUNS)
        return rows[0].compiled.device, [min(row.cpu_s) for row in rows]


def column(driver: Driver, pairs: Sequence[Sequence[Path]], rounds: int) -> tuple[str, list[str]]:
    """Measure all pairs in a process that uses a driver; return the adapter, and the cells of its column."""
    fresh = multiprocessing.get_context("spawn")  # a process keeps the driver with which it began
    adapter, cells = driver.name, []
    with driver.chosen(), ProcessPoolExecutor(1, mp_context=fresh) as worker:
        for pair in pairs:
            adapter, (plain, quantized) = worker.submit(measure, pair, rounds).result()
            cells.append(number(quantized / plain, 2))
    return adapter, cells


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all pairs on each driver and print."""
    parser = command("twins", __doc__)
    parser.add_argument("pairs", nargs="+", metavar="PAIR")
    add_drivers(parser)
    parser.add_argument("--rounds", type=int, default=12, metavar="N")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    options = parser.parse_args(arguments)
    drivers = named_drivers(parser, options.driver)
    described = Conditions.now().described()
    with TemporaryDirectory() as folder:
        pairs = [files(pair, Path(folder)) for pair in options.pairs]
        columns = [column(driver, pairs, options.rounds) for driver in drivers]
    names = [quantized.stem for _, quantized in pairs]
    rows = zip(names, *(cells for _, cells in columns), strict=True)
    heading = ("quantised to float32, CPU time", *(adapter for adapter, _ in columns))
    turns = f"{counted(options.rounds, 'turn')} of {RUNS} runs"
    report(
        {**described, "turns": turns, "load after": load_text(load())},
        [Grid(heading, tuple(rows))],
        markdown=options.markdown,
    )


if __name__ == "__main__":
    program(main)
