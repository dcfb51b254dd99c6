"""Recurrent layers as Keras exports them beside LiteRT: python -m benchmarks.loops

A line is a layer, a WHILE over its steps or "unrolled", the operators of all steps one after the other; with
"last" it gives only its last state. Its times are the medians of single runs, in ms;
the backends and LiteRT (one thread, default delegates) take turns, run by run. time / litert: the median of
the ratios within the turns. compile ms: of the first compilation on the GPU, with an empty cache of shaders.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np

import gpunn
from benchmarks.command import command
from gpunn.bench.conditions import Conditions, load, load_text
from gpunn.bench.group import shader_caches
from gpunn.bench.result import quotient
from gpunn.cli.grid import Grid, number, report
from gpunn.types import Array
from tests.keras_loops import CELLS, Layer, layer_file

BACKENDS = ("cpu", "webgpu")
LITERT = "litert"


@dataclass(slots=True)
class Row:
    """A peer: one run of a layer on it, and its times in seconds."""

    run: Callable[[], object]
    seconds: list[float] = field(default_factory=list)

    def time(self) -> None:
        start = time.perf_counter()
        self.run()
        self.seconds.append(time.perf_counter() - start)


def litert(file: bytes, x: Array) -> Callable[[], object]:
    """Return a run of LiteRT on one thread."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=file, num_threads=1)
    interpreter.allocate_tensors()
    given, result = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]

    def run() -> object:
        interpreter.set_tensor(given, x)
        interpreter.invoke()
        return interpreter.get_tensor(result)

    return run


def measure(layer: Layer, runs: int, device: str | None = None) -> tuple[str, ...]:
    """Return the line of a layer."""
    file = layer_file(layer)
    x = np.random.default_rng(0).standard_normal((1, layer.steps, layer.features)).astype(np.float32)
    model = gpunn.load(file)
    with ExitStack() as stack:
        rows = {LITERT: Row(litert(file, x))}
        for backend in BACKENDS:
            start = time.perf_counter()
            adapter = device if backend == "webgpu" else None
            compiled = stack.enter_context(model.compile(backend, device=adapter))
            compiling = time.perf_counter() - start
            rows[backend] = Row(lambda compiled=compiled: compiled(x))  # type: ignore[misc]
        before = compiled.stats.submits
        for row in rows.values():
            row.run()
        submits = compiled.stats.submits - before
        for _ in range(runs):
            for row in rows.values():
                row.time()
    times = [number(1e3 * statistics.median(rows[name].seconds), 3) for name in (LITERT, *BACKENDS)]
    ratios = [number(quotient(rows[name].seconds, rows[LITERT].seconds), 1) for name in BACKENDS]
    how = "unrolled" * layer.unrolled, "last" * (not layer.every)
    title = f"{layer.cell} {layer.steps} x {layer.features} -> {layer.units}"
    return ", ".join(filter(None, (title, *how))), *times, *ratios, str(submits), number(1e3 * compiling, 0)


HEADS = (
    *("layer", "litert ms", "cpu ms", "webgpu ms", "cpu / litert", "webgpu / litert"),
    *("submissions", "compile ms"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each layer and print."""
    parser = command("loops", __doc__)
    parser.add_argument("--steps", nargs="+", type=int, default=[28], metavar="N")
    parser.add_argument("--features", type=int, default=28, metavar="N")
    parser.add_argument("--units", nargs="+", type=int, default=[32, 256], metavar="N")
    parser.add_argument("--runs", type=int, default=50, metavar="N", help="runs of each, in turn")
    parser.add_argument("--device", metavar="NAME", help="part of the adapter's name")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    options = parser.parse_args(arguments)
    described = Conditions.now().described()
    kinds = itertools.product(CELLS, options.steps, options.units, (False, True), (True, False))
    with TemporaryDirectory() as folder, patch.dict(os.environ, shader_caches(Path(folder))):
        lines = tuple(
            measure(
                Layer(cell, steps, options.features, units, every, unrolled=unrolled),
                options.runs,
                options.device,
            )
            for cell, steps, units, unrolled, every in kinds
        )
    named = options.device is None
    adapter = next((d.name for d in gpunn.devices() if named or options.device in d.name), "")
    facts = {**described, "adapter": adapter, "load after": load_text(load())}
    report(facts, [Grid(HEADS, lines)], markdown=options.markdown)


if __name__ == "__main__":
    main()
