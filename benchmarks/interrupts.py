"""Ctrl-C wherever Python delivers it: python -m benchmarks.interrupts [BACKEND:CASE ...] [--every K]

Python delivers signals at the start of a function, when a call has returned, and when a loop jumps back. Each
case is interrupted at the first such place, then at the second one, and so on (with --every K at each K-th),
in all Python code that it runs, that of wgpu-py and of the standard library, too. With --random N signals of
a timer come at N random moments instead. After each interrupt the same compilation must give the right
answer. A process that hangs for LIMIT seconds ends with the stacks of its threads.

BACKEND is cpu, webgpu, or isolated: the CPU backend in a worker process, which is left out unless it is
named. A table shows for each case how many interrupts it took. Destructors are left out, because Python drops
what they raise.
"""

from __future__ import annotations

import faulthandler
import gc
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

import numpy as np

import gpunn
from benchmarks.command import command
from benchmarks.places import Places
from gpunn.cli.grid import Grid, report
from gpunn.ops.control import while_loop
from gpunn.types import float32

LIMIT = 60.0  # seconds for one interrupt and the runs after it, on a busy machine
ISOLATED = "isolated"  # instead of a backend: the CPU backend in a worker process; not run unless named
BACKENDS = ("cpu", "webgpu")
ONES = np.ones((2, 8), np.float32)


@dataclass(frozen=True, slots=True)
class Case:
    """Something to interrupt: `act`, and `verify`, which the interrupted compilation must pass."""

    act: Callable[[], object]
    verify: Callable[[], object]


def network() -> gpunn.Model:
    """Return a model with weights and two dispatches."""
    model = gpunn.Model("network")
    x = model.input("x", float32(2, 8))
    weights = model.constant("weights", np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32))
    (y,) = model.add("fully_connected", [x, weights])
    model.output(*model.add("softmax", [y]))
    return model


def summing() -> gpunn.Model:
    """Return a model with a variable, the sum of all inputs so far."""
    model = gpunn.Model("summing")
    total = model.variable("total", float32(2, 8))
    (new,) = model.add("add", [total, model.input("x", float32(2, 8))])
    model.update(total, new)
    model.output(new)
    return model


def doubling() -> gpunn.Model:
    """Return a model with a loop that doubles x until its largest element is over 100."""
    condition, body, model = gpunn.Model("condition"), gpunn.Model("body"), gpunn.Model("doubling")
    (largest,) = condition.add("reduce_max", [condition.input("x", float32(2, 8))], {"axes": (0, 1)})
    condition.output(*condition.add("less", [largest, condition.constant("c", np.float32(100))]))
    x = body.input("x", float32(2, 8))
    body.output(*body.add("add", [x, x]))
    attributes = {"condition": condition, "body": body}
    model.output(*model.add(while_loop.name, [model.input("x", float32(2, 8))], attributes))
    return model


def sections() -> gpunn.Model:
    """Return a model that keeps each different number of x once: it runs in sections."""
    model = gpunn.Model("sections")
    (flat,) = model.add("reshape", [model.input("x", float32(2, 8))], {"shape": (16,)})
    found, _ = model.add("unique", [flat], {"dtype": "int32"})
    model.output(*model.add("tanh", [found]))
    return model


def _expect(found: Any, wanted: Any) -> None:
    if not np.array_equal(found, wanted):
        raise AssertionError(f"wrong answer: {found!r} instead of {wanted!r}")


def _compiled(model: gpunn.Model, backend: str, preference: str | None = None) -> gpunn.Compilation:
    if backend == ISOLATED:
        return model.compile("cpu", preference, isolate=True)
    return model.compile(backend, preference)


def _answers(model: gpunn.Model, backend: str, *inputs: Any) -> tuple[gpunn.Compilation, Callable[[], None]]:
    """Return a compilation, and a check that its runs give what its first run gave."""
    compiled = _compiled(model, backend, "sustained-speed")
    wanted = compiled(*inputs)
    return compiled, lambda: _expect(compiled(*inputs), wanted)


def _repeated(model: gpunn.Model, backend: str, act: Callable[[gpunn.Compilation], object]) -> Case:
    """Return a case of an act that leaves no trace."""
    compiled, verify = _answers(model, backend, ONES)
    return Case(lambda: act(compiled), verify)


def run(backend: str) -> Case:
    """Interrupt a run."""
    return _repeated(network(), backend, lambda compiled: compiled(ONES))


def submit(backend: str) -> Case:
    """Interrupt a submitted run, and the wait for it."""
    return _repeated(network(), backend, lambda compiled: compiled.submit(ONES).result())


def stream(backend: str) -> Case:
    """Interrupt a stream of more frames than are in flight."""
    return _repeated(network(), backend, lambda compiled: list(compiled.stream([ONES] * 4)))


def timeout(backend: str) -> Case:
    """Interrupt a run with a time limit that it keeps."""
    return _repeated(network(), backend, lambda compiled: compiled.run({"x": ONES}, timeout=LIMIT))


def _counted(backend: str, act: Callable[[gpunn.Compilation], object], start: bool) -> Case:
    """Return a case of a model with a variable, which counts runs; with `start` it may begin at 1 again."""
    compiled, reached = _compiled(summing(), backend), [0.0]

    def verify() -> None:
        found = compiled(ONES)
        possible = (1, reached[0] + 1) if start else (reached[0] + 1, reached[0] + 2)
        if not np.all(found == found[0, 0]) or found[0, 0] not in possible:
            raise AssertionError(f"{found!r} after {reached[0]} runs")
        reached[0] = float(found[0, 0])

    return Case(lambda: act(compiled), verify)


def state(backend: str) -> Case:
    """Interrupt a run of a model with a variable: it counts as a whole, or not at all."""
    return _counted(backend, lambda compiled: compiled(ONES), False)


def reset(backend: str) -> Case:
    """Interrupt a reset of variables: it happens as a whole, or not at all."""
    return _counted(backend, lambda compiled: compiled.reset_state(), True)


def loop(backend: str) -> Case:
    """Interrupt a run of a loop."""
    return _repeated(doubling(), backend, lambda compiled: compiled(ONES))


def cut(backend: str) -> Case:
    """Interrupt a run in two sections, submitted."""
    return _repeated(sections(), backend, lambda compiled: compiled.submit(ONES).result())


def compiling(backend: str) -> Case:
    """Interrupt the compiling of a model."""
    model = network()
    wanted = _compiled(model, backend)(ONES)

    def verify() -> None:
        with _compiled(model, backend) as compiled:
            _expect(compiled(ONES), wanted)

    return Case(lambda: _compiled(model, backend).close(), verify)


def shapes(backend: str) -> Case:
    """Interrupt a run on other shapes, for which the model is compiled again."""
    model = gpunn.Model("any rows")
    (y,) = model.add("tanh", [model.input("x", float32(2, 8), open=[0])])
    model.output(y)
    compiled, verify = _answers(model, backend, ONES)
    rows = iter(range(3, 1 << 30))
    return Case(lambda: compiled(np.ones((next(rows), 8), np.float32)), verify)


def closing(backend: str) -> Case:
    """Interrupt close() of a compilation with a run in flight."""
    model = network()
    wanted = _compiled(model, backend)(ONES)
    made: list[gpunn.Compilation] = []

    def act() -> None:
        made[-1].close()

    def verify() -> None:
        if made:
            made.pop().close()
            _closed(lambda: compiled(ONES), compiled := _compiled(model, backend))
        made.append(_compiled(model, backend))
        _expect(made[0](ONES), wanted)
        made[0].submit(ONES)

    verify()
    return Case(act, verify)


def _closed(use: Callable[[], object], compiled: gpunn.Compilation) -> None:
    compiled.close()
    try:
        use()
    except gpunn.DeviceError:
        return
    raise AssertionError("a closed compilation runs")


CASES: dict[str, Callable[[str], Case]] = {
    case.__name__: case
    for case in (run, submit, stream, timeout, state, reset, loop, cut, compiling, shapes, closing)
}


def everywhere(case: Case, every: int, first: int = 1) -> Iterator[bool]:
    """Interrupt at each place, or each `every`-th; yield whether the interrupt came through."""
    case.verify()
    places = Places(first)
    while True:
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        whole = places.carry(case.act)
        if whole and places.passed < places.at:
            faulthandler.cancel_dump_traceback_later()
            return
        try:
            case.verify()
        except Exception as error:
            raise AssertionError(f"after an interrupt at {places.where}") from error
        yield not whole
        places.at += every


def at_random(case: Case, count: int, seed: int) -> Iterator[bool]:
    """Interrupt by a timer; yield whether the interrupt came before the end."""

    def ring(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, ring)
    source = random.Random(seed)
    longest = 0.0
    for _ in range(3):  # the first one may compile
        case.verify()
        begun = time.perf_counter()
        case.act()
        longest = 1.5 * (time.perf_counter() - begun)
    case.verify()
    done = 0
    while done < count:
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        try:
            signal.setitimer(signal.ITIMER_REAL, source.uniform(1e-5, longest))
            case.act()
            _stop_timer()
        except KeyboardInterrupt:
            with suppress(KeyboardInterrupt):  # this one may have been held up in a callback of the driver
                _stop_timer()
            done += 1
            yield True
        case.verify()
    faulthandler.cancel_dump_traceback_later()


def _stop_timer() -> None:
    """Stop the timer, and take the signal that it may just have sent, to another thread perhaps."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    time.sleep(0.002)


def main(arguments: Sequence[str] | None = None) -> None:
    """Interrupt the named cases, or all of them, and print a table."""
    parser = command("interrupts", __doc__)
    parser.add_argument("cases", nargs="*", metavar="BACKEND:CASE", help=f"cases: {', '.join(CASES)}")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="interrupt at each K-th place")
    parser.add_argument("--first", type=int, default=1, metavar="N", help="begin at the N-th place")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N interrupts of a timer instead")
    parser.add_argument("--seed", type=int, default=0, help="of random moments")
    parser.add_argument("--markdown", action="store_true", help="print a table for a page")
    parsed = parser.parse_args(arguments)
    known = {f"{backend}:{case}" for backend in (*BACKENDS, ISOLATED) for case in CASES}
    for name in parsed.cases:
        if name not in known:
            parser.error(f"no case {name!r}")
    faulthandler.enable()
    rows: list[tuple[str, ...]] = []
    for name in parsed.cases or [f"{b}:{c}" for b in BACKENDS for c in CASES]:
        backend, _, chosen = name.partition(":")
        began, case = time.perf_counter(), CASES[chosen](backend)
        if parsed.random:
            found = list(at_random(case, parsed.random, parsed.seed))
        else:
            found = list(everywhere(case, parsed.every, parsed.first))
        gc.collect()
        seconds = time.perf_counter() - began
        rows.append((f"{backend}: {chosen}", str(sum(found)), f"{seconds:.1f}"))
        print(*rows[-1], file=sys.stderr)
    report({}, [Grid(("case", "interrupts", "s"), tuple(rows))], markdown=parsed.markdown)


if __name__ == "__main__":
    main()
