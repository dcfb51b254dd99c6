"""Compares the speed of two commits in turn: python -m benchmarks.regress OLD [NEW] --models MODEL...

OLD and NEW are commits of this repository, or folders that contain one; NEW is by default the working tree.
Each round starts one process of each, the one after the other, and every second round in the other order. A
process imports gpunn, loads and compiles the model, calls it, and then calls it several times more. A ratio
is the median over the rounds of NEW / OLD, as a disturbance that lasts for a round affects both.

first answer: from before the import to the first answer, of the clock and in CPU time. run: one call, of the
clock and in CPU time of all threads. host us/dispatch: host time of recording and submitting, also that of
recording later runs while the device computes; with commits before gpunn knew which runs come, also of those
that never do. The counters dispatches, upload bytes and arena bytes have no
noise. Every process begins with empty shader caches.

A figure fails if it is more than --limit percent over OLD's. A case with such a figure is measured once more
with twice as many rounds, and only this second measurement counts. The exit code is 1 if a figure failed, or
if a process did; answers that differ in a bit are reported only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import gpunn
from benchmarks.command import command, program
from gpunn.bench.conditions import Conditions, load, load_text
from gpunn.bench.group import shader_caches
from gpunn.bench.job import save
from gpunn.bench.measure import batched, stacked
from gpunn.bench.result import quotient
from gpunn.cli.grid import Grid, number, report
from gpunn.comparison.inputs import random_source
from gpunn.vision import default_model
from gpunn.wording import counted

ROOT = Path(__file__).resolve().parent.parent
WORKING_TREE = "the working tree"
# Without a stated number gpunn would choose one by the load, and the load is that of the processes before.
THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(os.cpu_count() or 1))
WORKER = Path(__file__).resolve().parent / "one_start.py"

FIGURES = {  # of a worker's answer: the title, what one unit of it is, and the digits to show
    "first_s": ("first answer s", 1.0, 3),
    "first_cpu_s": ("first answer, CPU s", 1.0, 3),
    "run_s": ("run ms", 1e-3, 2),
    "cpu_s": ("run, CPU ms", 1e-3, 2),
    "host_us": ("host us/dispatch", 1.0, 1),
    "dispatches": ("dispatches", 1.0, 0),
    "uploaded": ("upload bytes", 1.0, 0),
    "arena_bytes": ("arena bytes", 1.0, 0),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A thing to measure: a model file on a backend."""

    model: Path
    backend: str
    preference: gpunn.Preference
    batch: int
    device: str | None

    def __str__(self) -> str:
        return f"{self.model.name}, {self.backend}, {self.preference.name}, batch {self.batch}"


@dataclass(frozen=True, slots=True)
class Measured:
    """The answers of the workers of both trees, round by round."""

    old: Sequence[dict[str, Any]]
    new: Sequence[dict[str, Any]]

    def values(self, name: str) -> tuple[list[float], list[float]]:
        """Return a figure of all rounds, OLD's and NEW's."""
        return [a[name] for a in self.old], [a[name] for a in self.new]

    def ratio(self, name: str) -> float | None:
        """Return the median over the rounds of NEW / OLD; None if OLD's figure is 0."""
        old, new = self.values(name)
        return quotient(new, old) if all(old) else None

    def over(self, limit: float) -> list[str]:
        """List the figures that are more than `limit` (0.05: 5 %) over OLD's, or above OLD's 0."""
        ratios = {name: self.ratio(name) for name in FIGURES}
        grown = {name for name, ratio in ratios.items() if ratio is None and any(self.values(name)[1])}
        return [n for n, ratio in ratios.items() if n in grown or (ratio is not None and ratio > 1 + limit)]

    @property
    def same_bits(self) -> bool:
        """Tell whether all answers of all processes have the same bits."""
        return len({answer["answers"] for answer in (*self.old, *self.new)}) == 1


def checked_out(name: str, folder: Path) -> Path:
    """Return a folder with the repository as `name` says; a commit is unpacked into `folder`.

    Raises SystemExit if there is no such commit or folder.
    """
    if name == WORKING_TREE:
        return _compiled(ROOT)
    if (Path(name) / "gpunn").is_dir():
        return _compiled(Path(name).resolve())
    done = subprocess.run(("git", "archive", "--format=tar", name), cwd=ROOT, capture_output=True)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise SystemExit(f"{name!r} is neither a folder with gpunn nor a commit: {said}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return _compiled(folder)


def _compiled(tree: Path) -> Path:
    """Compile Python's bytecode, so that no process finds less of it than the others."""
    subprocess.run((sys.executable, "-m", "compileall", "-q", str(tree / "gpunn")), check=True)
    return tree


def measure(case: Case, trees: Sequence[Path], rounds: int, runs: int) -> Measured:
    """Run both trees in turn; raises SystemExit if a process fails, and gpunn's errors for the model."""
    model = gpunn.load(case.model)
    batched(model, case.batch)  # raises if the model cannot run so
    found: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    with tempfile.TemporaryDirectory(prefix="gpunn-regress-") as name:
        folder = Path(name)
        samples = list(random_source(model, case.batch).samples)
        save(folder / "inputs.npz", stacked([sample.arrays for sample in samples]))
        for turn in range(rounds):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                found[side].append(_start(case, trees[side], runs, folder, len(found[0]) + len(found[1])))
    return Measured(*found)


def _start(case: Case, tree: Path, runs: int, folder: Path, count: int) -> dict[str, Any]:
    """Start the gpunn of a tree once, with empty shader caches, and return what it measured."""
    task = {
        "tree": str(tree),
        "model": str(case.model.resolve()),
        "backend": case.backend,
        "preference": case.preference.name,
        "device": case.device,
        "inputs": str(folder / "inputs.npz"),
        "runs": runs,
    }
    (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(WORKER), str(folder / "task.json")],
        env={**THREADS, **os.environ, "PYTHONPATH": str(tree), **shader_caches(folder / str(count))},
        cwd=tree,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SystemExit(f"{case}: the process of {tree} failed: {last}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def judged(case: Case, trees: Sequence[Path], rounds: int, runs: int, limit: float) -> Measured:
    """Measure a case; once more with twice as many rounds if a figure is over the limit."""
    measured = measure(case, trees, rounds, runs)
    return measure(case, trees, 2 * rounds, runs) if measured.over(limit) else measured


def grid(measured: Measured, limit: float) -> Grid:
    """Make the table of a case."""
    rows, failed = [], measured.over(limit)
    for name, (title, unit, digits) in FIGURES.items():
        old, new = (statistics.median(values) / unit for values in measured.values(name))
        if old or new:
            verdict = f"over {limit:.0%}" if name in failed else ""
            shown = (number(old, digits), number(new, digits), number(measured.ratio(name), 3))
            rows.append((title, *shown, verdict))
    return Grid(("", "OLD", "NEW", "NEW / OLD", "verdict"), tuple(rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all cases and print; end with code 1 if a figure is over the limit."""
    options = parser().parse_args(arguments)
    limit, failed = options.limit / 100, []
    with tempfile.TemporaryDirectory(prefix="gpunn-commits-") as name:
        given = {"OLD": options.old, "NEW": options.new}
        trees = [checked_out(what, Path(name) / side) for side, what in given.items()]
        described = Conditions.now().described() | given
        for case in cases(options):
            measured = judged(case, trees, options.rounds, options.runs, limit)
            failed += [f"{case}: {FIGURES[figure][0]}" for figure in measured.over(limit)]
            described |= {
                "case": f"{case}; {counted(len(measured.new), 'round')}; {measured.new[0]['device']}",
                "answers": "the same bits" if measured.same_bits else "differ",
                "load after": load_text(load()),
            }
            report(described, [grid(measured, limit)], markdown=options.markdown)
            described = {}
    if failed:
        raise SystemExit("over the limit: " + "; ".join(failed))


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Return every combination of what the command line names."""
    for model, backend, preference, batch in product(
        options.models, options.backends, options.preferences, options.batch
    ):
        device = options.device if backend == "webgpu" else None
        yield Case(model, backend, gpunn.Preference[preference], batch, device)


def positive(text: str) -> int:
    """Read a number of at least 1; raise ValueError for others, as argparse expects."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    found = command("regress", __doc__)
    found.add_argument("old", metavar="OLD", help="a commit or a folder")
    found.add_argument("new", metavar="NEW", nargs="?", default=WORKING_TREE, help="the same")
    found.add_argument("--models", nargs="+", type=Path, default=[default_model()], metavar="MODEL")
    found.add_argument("--backends", nargs="+", choices=("webgpu", "cpu"), default=["webgpu", "cpu"])
    names = [preference.name for preference in gpunn.Preference]
    usual = [gpunn.Preference.FAST_SINGLE_ANSWER.name]
    found.add_argument("--preferences", nargs="+", choices=names, default=usual, metavar="NAME")
    found.add_argument("--batch", nargs="+", type=positive, default=[1], metavar="N")
    found.add_argument("--rounds", type=positive, default=7, metavar="N", help="processes of each side")
    found.add_argument(
        "--runs", type=positive, default=20, metavar="N", help="calls that are timed in a process"
    )
    found.add_argument("--limit", type=float, default=5.0, metavar="PERCENT")
    found.add_argument("--device", metavar="NAME", help="part of the adapter's name")
    found.add_argument("--markdown", action="store_true", help="print Markdown")
    return found


if __name__ == "__main__":
    program(main)
