"""The choices of the tuner, and their gain: python -m benchmarks.tuning MODEL...

A model is a .tflite file, or the name of a network of benchmarks/networks.py with random weights. The first
table counts for each way to compute an op how often it was offered, was first and so what the rule takes,
and won. The second one lists the calls where the tuner takes another way. The third one compares
SUSTAINED_SPEED, which tunes, with FAST_SINGLE_ANSWER, which follows the rule: medians over rounds in which
the two take turns, now one first and now the other. Calls that are known are measured anew with --again.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import gpunn
from benchmarks.command import command, program
from benchmarks.networks import loaded
from benchmarks.preferences import BASE, Row
from gpunn.bench.conditions import Conditions, load, load_text
from gpunn.bench.result import quotient
from gpunn.cli.grid import Grid, number, report
from gpunn.cli.progress import progress_bars
from gpunn.comparison.inputs import random_source
from gpunn.tuning.result import Tuning, Way

_NUMBERS = re.compile(r"\d+")
_SECONDS = 0.2  # of runs in a round, about


def wins(found: Sequence[Tuning]) -> Grid:
    """Count for each op and way the distinct calls of all models; numbers in reasons are left out."""
    offered, first, won = (Counter[tuple[str, str]]() for _ in range(3))
    for call in (call for tuning in found for call in tuning.calls):
        names = [(call.op, _NUMBERS.sub("N", way.reason)) for way in call.ways]
        offered.update(names)
        first[names[0]] += 1
        won[names[call.chosen]] += 1
    counts = ((name, (n, first[name], won[name])) for name, n in offered.items())
    rows = sorted((f"{op}: {way}", *map(str, numbers)) for (op, way), numbers in counts)
    return Grid(("way", "offered", "the rule's", "won"), tuple(rows))


def disagreements(found: Sequence[Tuning]) -> Grid:
    """List the calls where another way than the rule's won."""
    rows = []
    for tuning in found:
        for call in tuning.calls:
            if call.chosen:
                shape = "x".join(map(str, call.shape))
                ways = (_timed(call.ways[0]), _timed(call.ways[call.chosen]))
                rows.append((f"{tuning.model}: {call.op}", shape, *ways, number(call.gain, 2)))
    return Grid(("call", "result", "the rule's way", "the winner", "gain"), tuple(rows))


def _timed(way: Way) -> str:
    return f"{way.reason}, {'-' if way.seconds is None else f'{1e3 * way.seconds:.3g} ms'}"


def compared(name: str, model: gpunn.Model, device: str | None, rounds: int) -> tuple[str, ...]:
    """Return a line of the third table."""
    (sample,) = random_source(model).samples
    with ExitStack() as stack:
        preferences = (BASE, gpunn.Preference.SUSTAINED_SPEED)
        rows = [Row(p, stack.enter_context(model.compile("webgpu", p, device=device))) for p in preferences]
        for row in rows:
            row.time_runs(sample.arrays, 2)
        runs = max(2, min(100, int(_SECONDS / rows[0].run_s[0])))
        for row in rows:
            row.run_s.clear()
            row.cpu_s.clear()
        for turn in range(rounds):
            for row in rows[:: 1 if turn % 2 else -1]:
                row.time_runs(sample.arrays, runs)
                row.time_stream(sample.arrays, runs)
    base, tuned = rows
    return (
        name,
        number(1e3 * statistics.median(base.run_s), 2),
        number(1e3 * statistics.median(tuned.run_s), 2),
        number(quotient(tuned.run_s, base.run_s), 2),
        number(min(tuned.run_s) / min(base.run_s), 2),
        number(quotient(tuned.cpu_s, base.cpu_s), 2),
        number(quotient(tuned.frames, base.frames), 2),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Tune and measure each model, and print."""
    parser = command("tuning", __doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="of the third table, or 0")
    parser.add_argument("--again", action="store_true", help="measure what is known, too")
    parser.add_argument("--device", metavar="NAME", help="part of the adapter's name")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    options = parser.parse_args(arguments)
    described = Conditions.now().described()
    found, lines, device = [], [], ""
    with progress_bars(quiet=options.markdown) as told:
        for name in options.models:
            model = loaded(name)
            found.append(gpunn.tune(model, device=options.device, again=options.again, progress=told))
            with model.compile("webgpu", "sustained-speed", device=options.device) as compiled:
                device = compiled.device
            if options.rounds:
                lines.append(compared(Path(name).name, model, options.device, options.rounds))
    seconds = sum(tuning.seconds for tuning in found)
    calls = sum(call.measured for tuning in found for call in tuning.calls)
    tuned = f"{calls} calls measured in {seconds:.1f} s"
    heading = ("model", f"{BASE.name} ms", "SUSTAINED_SPEED ms", "time", "least time", "CPU time", "frames")
    grids = [wins(found), disagreements(found), Grid(heading, tuple(lines))]
    report(
        {**described, "adapter": device, "tuned": tuned, "load after": load_text(load())},
        [grid for grid in grids if grid.rows],
        markdown=options.markdown,
    )


if __name__ == "__main__":
    program(main)
