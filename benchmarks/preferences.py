"""The effect of a Preference on each backend: python -m benchmarks.preferences MODEL.tflite

run ms: median time of one run(). CPU ms: of all threads, for one run(). frames/s: of stream() over frames
for --span seconds or more: a shorter stream would measure what else the machine does. stream CPU ms: of all
threads, for one of its frames. time / X, frames / X: relative to X, FAST_SINGLE_ANSWER, which is the default;
medians over rounds in which every preference has its turn. host us/dispatch: host time of encoding and
submitting a run, for which the device waits, divided by its dispatches, median over the runs
(compiled.stats.encode_seconds and dispatches, before and after a run). ahead us/dispatch: CPU time in which a
run was recorded, while the device computed one before it (ahead_seconds), the mean over the runs.
The rest is compiled.stats: upload bytes/run and read-back bytes/run are differences over the timed runs, so
that whatever compiling or the first run uploaded would not show here; arena bytes are what intermediates take
on the device, peak live bytes what they must take.

The number of threads is the environment's: LP_NUM_THREADS (Mesa's lavapipe), OPENBLAS_NUM_THREADS (numpy).
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path

import gpunn
from benchmarks.command import command, program
from gpunn.bench.conditions import Conditions, load, load_text
from gpunn.bench.result import quotient
from gpunn.cli.grid import ABSENT, Grid, number, report
from gpunn.comparison.inputs import random_source
from gpunn.types import Array
from gpunn.wording import counted

BASE = gpunn.Preference.FAST_SINGLE_ANSWER
VARIABLES = ("LP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


@dataclass(slots=True)
class Row:
    """A compilation and what was measured of it: for each round a median run, CPU time, frames per second.

    span: seconds that a stream takes at least.
    """

    preference: gpunn.Preference
    compiled: gpunn.Compilation
    span: float = 0.0
    run_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    frames: list[float] = field(default_factory=list)
    stream_cpu_s: list[float] = field(default_factory=list)
    host_s: list[float] = field(default_factory=list)
    ahead_s: list[float] = field(default_factory=list)
    uploaded: list[int] = field(default_factory=list)
    read_back: list[int] = field(default_factory=list)

    def time_runs(self, inputs: Sequence[Array], runs: int) -> None:
        """Time one round of run()."""
        times = []
        cpu = time.process_time()
        for _ in range(runs):
            before = copy(self.compiled.stats)
            start = time.perf_counter()
            self.compiled(*inputs)
            times.append(time.perf_counter() - start)
            self._count(before, self.compiled.stats)
        self.cpu_s.append((time.process_time() - cpu) / runs)
        self.run_s.append(statistics.median(times))

    def _count(self, before: gpunn.Stats, after: gpunn.Stats) -> None:
        """Take in the counters of one run."""
        dispatches = after.dispatches - before.dispatches
        if dispatches:
            self.host_s.append((after.encode_seconds - before.encode_seconds) / dispatches)
            self.ahead_s.append((after.ahead_seconds - before.ahead_seconds) / dispatches)
        self.uploaded.append(after.bytes_uploaded - before.bytes_uploaded)
        self.read_back.append(after.bytes_read_back - before.bytes_read_back)

    def time_stream(self, inputs: Sequence[Array], frames: int) -> None:
        """Time one round of stream(), of so many frames or more."""
        count = max(frames, round(self.span / self.run_s[-1]))
        start, cpu = time.perf_counter(), time.process_time()
        for _ in self.compiled.stream(itertools.repeat(tuple(inputs), count)):
            pass
        self.frames.append(count / (time.perf_counter() - start))
        self.stream_cpu_s.append((time.process_time() - cpu) / count)

    def cells(self, base: Row) -> tuple[str, ...]:
        """Return a column of the table, without its head."""
        stats = self.compiled.stats
        on_device = bool(self.host_s)
        counted = (stats.arena_bytes, stats.peak_live_bytes, stats.resident_bytes, stats.staging_bytes)
        excess = stats.arena_bytes / stats.peak_live_bytes - 1 if stats.peak_live_bytes else None
        return (
            number(1e3 * statistics.median(self.run_s), 2),
            number(1e3 * statistics.median(self.cpu_s), 2),
            number(statistics.median(self.frames), 1),
            number(1e3 * statistics.median(self.stream_cpu_s), 2),
            number(quotient(self.run_s, base.run_s), 2),
            number(quotient(self.frames, base.frames), 2),
            number(1e6 * statistics.median(self.host_s), 1) if on_device else ABSENT,
            number(1e6 * statistics.fmean(self.ahead_s), 1) if on_device else ABSENT,
            *(
                f"{statistics.median(b):,.0f}" if on_device else ABSENT
                for b in (self.uploaded, self.read_back)
            ),
            *(f"{value:,}" if on_device else ABSENT for value in counted),
            ABSENT if excess is None else f"{excess:.1%}",
        )


FIGURES = (
    "run ms",
    "CPU ms",
    "frames/s",
    "stream CPU ms",
    f"time / {BASE.name}",
    f"frames / {BASE.name}",
    "host us/dispatch",
    "ahead us/dispatch",
    "upload bytes/run",
    "read-back bytes/run",
    "arena bytes",
    "peak live bytes",
    "resident bytes",
    "staging bytes",
    "arena over peak live",
)


def measure(
    model: gpunn.Model,
    backend: str,
    device: str | None,
    *,
    rounds: int,
    runs: int,
    frames: int,
    span: float,
) -> tuple[str, Grid]:
    """Measure each preference; return the device, and a column for each."""
    (sample,) = random_source(model).samples
    inputs = sample.arrays
    with ExitStack() as stack:
        rows = [
            Row(p, stack.enter_context(model.compile(backend, p, device=device)), span)
            for p in gpunn.Preference
        ]
        for row in rows:
            row.compiled(*inputs)
        for order in _orders(rows, rounds):
            for row in order:
                row.time_runs(inputs, runs)
                row.time_stream(inputs, frames)
        base = next(row for row in rows if row.preference is BASE)
        columns = [row.cells(base) for row in rows]
        lines = zip(FIGURES, *columns, strict=True)
        known = tuple(line for line in lines if set(line[1:]) != {ABSENT})
        return rows[0].compiled.device, Grid(("", *(row.preference.name for row in rows)), known)


def _orders(rows: list[Row], rounds: int) -> Iterator[list[Row]]:
    """Return the rows for each round; every round begins with the next row."""
    for turn in range(rounds):
        first = turn % len(rows)
        yield rows[first:] + rows[:first]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each backend and print."""
    parser = command("preferences", __doc__)
    parser.add_argument("model", type=Path, metavar="MODEL.tflite")
    parser.add_argument("--backends", nargs="+", choices=("webgpu", "cpu"), default=["webgpu", "cpu"])
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--runs", type=int, default=10, metavar="N", help="calls of run() in a round")
    parser.add_argument("--frames", type=int, default=20, metavar="N", help="least frames of stream()")
    parser.add_argument("--span", type=float, default=1.0, metavar="SECONDS", help="least time of stream()")
    parser.add_argument("--device", metavar="NAME", help="part of the adapter's name")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    options = parser.parse_args(arguments)
    model = gpunn.load(options.model)
    described = Conditions.now().described()
    described["network"] = f"{options.model.name}, {counted(options.rounds, 'round')}"
    described["threads"] = ", ".join(f"{name}={os.environ.get(name, 'unset')}" for name in VARIABLES)
    for backend in options.backends:
        adapter = options.device if backend == "webgpu" else None
        device, grid = measure(
            model,
            backend,
            adapter,
            rounds=options.rounds,
            runs=options.runs,
            frames=options.frames,
            span=options.span,
        )
        report(
            {**described, "backend": f"{backend}, {device}", "load after": load_text(load())},
            [grid],
            markdown=options.markdown,
        )
        described = {}


if __name__ == "__main__":
    program(main)
