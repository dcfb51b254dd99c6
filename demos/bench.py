"""Times a model by preference: one answer at a time, and as many as possible.

    python demos/bench.py [MODEL] [--backends webgpu,cpu] [--seconds 2]

ready: from the loaded model to the first answer. median, 95 %: of single calls, from array to array. in a
row: answers a second where each call waits for the one before; streamed: where frames overlap.

Without MODEL it takes the classifier inside gpunn. Inputs are random numbers. Other work on the machine
counts, too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import count, takewhile
from pathlib import Path

import numpy as np
from pictures import run
from rich.console import Console
from rich.progress import track
from rich.table import Table

import gpunn
from gpunn import vision

COLUMNS = "device", "preference", "ready", "median", "95 %", "in a row", "streamed"


def random_inputs(model: gpunn.Model) -> tuple[np.ndarray, ...]:
    """Draw one array for each input; whole numbers are 0 or 1, which every use of them allows."""
    generator = np.random.default_rng(0)
    drawn = []
    for operand in model.inputs:
        dtype = operand.type.dtype.numpy
        values = generator.random(operand.type.shape)
        drawn.append((values if np.issubdtype(dtype, np.floating) else values.round()).astype(dtype))
    return tuple(drawn)


def calls(compiled: gpunn.Compilation, inputs: tuple[np.ndarray, ...], seconds: float) -> np.ndarray:
    """Return the times of single calls in seconds, for that many seconds, but at least three calls."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        start = time.perf_counter()
        compiled(*inputs)
        times.append(time.perf_counter() - start)
    return np.array(times)


def streamed(compiled: gpunn.Compilation, inputs: tuple[np.ndarray, ...], seconds: float) -> float:
    """Return answers per second of a stream that lasts that many seconds."""
    start = time.perf_counter()
    frames: Iterator[tuple[np.ndarray, ...]] = (
        inputs for _ in takewhile(lambda n: n < 3 or time.perf_counter() < start + seconds, count())
    )
    answers = sum(1 for _ in compiled.stream(frames))
    return answers / (time.perf_counter() - start)


def row(model: gpunn.Model, backend: str, preference: gpunn.Preference, seconds: float) -> list[str]:
    """Measure one backend and preference; return a line of text."""
    inputs = random_inputs(model)
    start = time.perf_counter()
    with model.compile(backend=backend, preference=preference) as compiled:
        compiled(*inputs)
        ready = time.perf_counter() - start
        times = calls(compiled, inputs, seconds)
        rate = streamed(compiled, inputs, seconds)
    median, late = 1e3 * np.median(times), 1e3 * np.percentile(times, 95)
    figures = [f"{1e3 * ready:.0f} ms", f"{median:.2f} ms", f"{late:.2f} ms"]
    return [compiled.device, preference.name, *figures, f"{1 / times.mean():.1f}/s", f"{rate:.1f}/s"]


def main() -> None:
    """Measure each backend with each preference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", metavar="MODEL", default=vision.default_model())
    parser.add_argument("--backends", default="webgpu,cpu", metavar="NAMES")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each of the two ways to call")
    options = parser.parse_args()

    model = gpunn.load(options.model)
    jobs = [(b, p) for b in options.backends.split(",") for p in gpunn.Preference]
    table = Table(*COLUMNS, box=None)
    progress = Console(stderr=True)
    for backend, preference in track(jobs, model.name, console=progress, transient=True):
        table.add_row(*row(model, backend, preference, options.seconds))
    Console(width=None if Console().is_terminal else 160).print(table)


if __name__ == "__main__":
    run(main)
