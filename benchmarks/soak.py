"""A test of what grows with time: python -m benchmarks.soak [--runs N] [--cycles N] [--kernels N]

For each backend a compilation runs so many times, and a model with weights is compiled, run and closed, and
compiled, run and forgotten, so many times. Then come models that need a new kernel each. The table shows the
process's resident memory, what gpunn.memory() tells of the device, open files and threads, at a tenth of the
work and at its end. Linux only: the figures are from /proc.
"""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

import gpunn
from benchmarks.command import command
from benchmarks.interrupts import BACKENDS, ONES, network
from gpunn.cli.grid import Grid, number, report

FUNCTIONS = ("abs", "cos", "exp", "neg", "sin", "sqrt", "square", "tanh")
DIGITS = 6  # functions of a chain: of each order there is one


def state() -> tuple[float, int, int, int]:
    """Return resident MiB, bytes on the device, open files, threads."""
    gc.collect()
    on_device = sum(found.total for found in gpunn.memory())
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    resident = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return resident, on_device, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def _soak(name: str, act: Callable[[int], object], count: int) -> tuple[str, ...]:
    """Do something so many times; return the row of the table."""
    begun = time.perf_counter()
    for k in range(count // 10):
        act(k)
    before = state()
    for k in range(count // 10, count):
        act(k)
    after = state()
    texts = [
        f"{number(b, 1 if k == 0 else 0)} / {number(a, 1 if k == 0 else 0)}"
        for k, (b, a) in enumerate(zip(before, after, strict=True))
    ]
    return name, str(count), *texts, number(time.perf_counter() - begun, 0)


def _cycle(backend: str, k: int, close: bool) -> None:
    model = network()
    model.output(*model.add("add", [model.outputs[0], model.constant("k", np.full((2, 8), k, np.float32))]))
    compiled = model.compile(backend)
    compiled(ONES)
    if close:
        compiled.close()


def _new_kernel(backend: str, k: int) -> None:
    """Compile, run and close a model of elementwise operations that no earlier one had in this order."""
    model = gpunn.Model("chain")
    (y,) = model.add("relu", [model.input("x", gpunn.types.float32(64))])
    for _ in range(DIGITS):
        k, digit = divmod(k, len(FUNCTIONS))
        (y,) = model.add(FUNCTIONS[digit], [y])
    model.output(y)
    with model.compile(backend) as compiled:
        compiled(np.ones(64, np.float32))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and compile often, and print a table."""
    parser = command("soak", __doc__)
    parser.add_argument("--runs", type=int, default=100_000, help="of one compilation (default: %(default)s)")
    parser.add_argument(
        "--cycles", type=int, default=2_000, help="of compile, run and end (default: %(default)s)"
    )
    parser.add_argument(
        "--kernels", type=int, default=1_000, help="models with a new one (default: %(default)s)"
    )
    parser.add_argument("--markdown", action="store_true", help="print a table for a page")
    parsed = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ResourceWarning)  # forgetting is what is measured
    rows = []
    for backend in BACKENDS:
        with network().compile(backend, "sustained-speed") as compiled:
            rows.append(_soak(f"{backend}: runs", lambda _, run=compiled: run(ONES), parsed.runs))
        for name, close in (("closed", True), ("forgotten", False)):
            rows.append(
                _soak(f"{backend}: {name}", lambda k, b=backend, c=close: _cycle(b, k, c), parsed.cycles)
            )
        kernels = partial(_new_kernel, backend)
        rows.append(_soak(f"{backend}: new kernels", kernels, parsed.kernels))
    header = ("what", "times", "resident MiB", "device bytes", "files", "threads", "s")
    report({}, [Grid(header, tuple(rows))], markdown=parsed.markdown)


if __name__ == "__main__":
    main()
