"""The cost of compile(isolate=True): python -m benchmarks.isolation [--runs N] [--device D]

A line is a model: relu of n numbers, which is hardly more than its transfers, and gpunn's own classifier.
Runs here and in a worker process take turns; `here` and `isolated` are the least times of a run, which other
programs disturb least, and `extra` is their difference. `compile` is the time until a compilation is ready,
in a worker with the start of its process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

import gpunn
from benchmarks.command import command
from gpunn import vision
from gpunn.bench.conditions import Conditions
from gpunn.cli.grid import Grid, number, report
from gpunn.types import Array, float32

BACKENDS = ("cpu", "webgpu")
SIZES = (16, 1 << 16, 1 << 20, 1 << 22)  # numbers, in and out
HEADER = (
    "backend",
    "model",
    "MiB",
    "here us",
    "isolated us",
    "extra us",
    "compile here s",
    "compile isolated s",
)


def relu(count: int) -> gpunn.Model:
    """Return a model that reads and writes so many numbers."""
    model = gpunn.Model(f"relu of {count}")
    model.output(*model.add("relu", [model.input("x", float32(count))]))
    return model


def timed(act: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def compiled(
    model: gpunn.Model, backend: str, device: str | None, isolate: bool
) -> tuple[gpunn.Compilation, float]:
    """Return a compilation, and the seconds until it was ready."""
    start = time.perf_counter()
    made = model.compile(backend, device=None if backend == "cpu" else device, isolate=isolate)
    return made, time.perf_counter() - start


def row(model: gpunn.Model, backend: str, device: str | None, runs: int) -> tuple[str, ...]:
    """Return the line of a model."""
    x: Array = np.ones(model.inputs[0].type.shape, np.float32)
    here, here_ready = compiled(model, backend, device, False)
    there, there_ready = compiled(model, backend, device, True)
    with here, there:
        if not np.array_equal(here(x), there(x)):
            raise AssertionError(f"{model.name}: the answers differ")
        here(x), there(x)
        turns = [(timed(lambda: here(x)), timed(lambda: there(x))) for _ in range(runs)]
    least = [min(values) for values in zip(*turns, strict=True)]
    figures = [*least, least[1] - least[0]]
    moved = sum(o.type.nbytes for o in (*model.inputs, *model.outputs)) / (1 << 20)
    times = (number(figure * 1e6, 0) for figure in figures)
    return backend, model.name, number(moved, 2), *times, number(here_ready, 2), number(there_ready, 2)


def rows(device: str | None, runs: int) -> Iterator[tuple[str, ...]]:
    """Yield the lines of all models."""
    for backend in BACKENDS:
        for count in SIZES:
            yield row(relu(count), backend, device, runs if count < 1 << 20 else max(runs // 10, 1))
        yield row(gpunn.load(vision.default_model()), backend, device, runs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = command("isolation", __doc__)
    parser.add_argument("--runs", type=int, default=300, metavar="N", help="of small models (default 300)")
    parser.add_argument("--device", metavar="D", help="an adapter, as gpunn devices lists them")
    parser.add_argument("--markdown", action="store_true", help="print a table for a page")
    parsed = parser.parse_args(arguments)
    described = Conditions.now().described()
    found = tuple(rows(parsed.device, parsed.runs))
    report(described, [Grid(HEADER, found)], markdown=parsed.markdown)


if __name__ == "__main__":
    main()
