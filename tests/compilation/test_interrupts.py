"""Ctrl-C at any place, and calls from the handlers of signals."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpunn
from benchmarks.interrupts import CASES
from benchmarks.places import Places
from gpunn.backends import cpu
from gpunn.backends.webgpu import executor, native
from gpunn.compilation import on_gpu
from tests.compilation.test_bounds import relu, summing
from tests.resources import ROOT

ONES = np.ones(4, np.float32)
EVERY = 151  # places; python -m benchmarks.interrupts takes them all, which takes minutes


@pytest.mark.parametrize("how", [("--every", str(EVERY)), ("--random", "4")], ids=["everywhere", "random"])
def test_after_an_interrupt_anywhere_the_same_compilation_gives_the_right_answer(
    how: tuple[str, str], backend: str
) -> None:
    """In a process of its own, which must not hang at its end either."""
    cases = [f"{backend}:{name}" for name in CASES]
    command = [sys.executable, "-m", "benchmarks.interrupts", *cases, *how]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert all(f"{backend}: {name} " in done.stdout for name in CASES)


def test_places_are_where_calls_return_and_functions_begin() -> None:
    def act() -> None:
        reached.append(len(str(12)))

    whole: list[int] = []
    reached: list[int] = []
    Places(0).carry(act)
    for at in range(1, 10):
        reached.clear()
        if Places(at).carry(act):
            assert reached == [2]
            break
        whole.append(len(reached))
    assert whole[0] == 0 and whole[-1] == 1 and len(whole) > 3


@pytest.fixture
def handler() -> Iterator[Callable[[Callable[[], object]], Callable[[], None]]]:
    """Set what the handler of a signal does; the answer sends the signal."""
    before = signal.getsignal(signal.SIGINT)

    def handle(action: Callable[[], object]) -> Callable[[], None]:
        signal.signal(signal.SIGINT, lambda *_: action())
        return lambda: signal.raise_signal(signal.SIGINT)

    yield handle
    signal.signal(signal.SIGINT, before)


def uses(compiled: gpunn.Compilation) -> dict[str, Callable[[], object]]:
    return {
        "call": lambda: compiled(ONES),
        "submit": lambda: compiled.submit(ONES),
        "stream": lambda: list(compiled.stream([ONES])),
        "trace": lambda: compiled.trace(ONES),
        "reset_state": compiled.reset_state,
        "close": compiled.close,
    }


@pytest.mark.parametrize(
    ("backend", "module", "name"),
    [
        ("cpu", cpu, "run_steps"),
        ("webgpu", native, "_poll"),
        ("webgpu", executor, "record"),
        ("webgpu", executor, "submit_recorded"),
        ("webgpu", executor.Executor, "record_ahead"),
    ],
    ids=["cpu", "webgpu wait", "webgpu record", "webgpu submit", "webgpu ahead"],
)
@pytest.mark.parametrize("use", uses(relu().compile("cpu")))
def test_a_call_from_a_handler_during_a_run_raises_and_does_not_hang(
    backend: str,
    module: Any,
    name: str,
    use: str,
    request: pytest.FixtureRequest,
    handler: Callable[[Callable[[], object]], Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if use == "reset_state" and name in ("_poll", "record_ahead"):
        pytest.skip("a reset needs nothing that a run holds while it waits for the device")
    if backend == "webgpu":
        request.getfixturevalue("gpu")
    usual, refused = getattr(module, name), []

    def action() -> None:
        with pytest.raises(gpunn.DeviceError, match="called by a signal's handler"):
            uses(compiled)[use]()
        refused.append(use)

    def interrupted(*arguments: Any) -> Any:
        if not refused:
            send()
        return usual(*arguments)

    with summing().compile(backend) as compiled:
        send = handler(action)
        compiled(ONES)
        monkeypatch.setattr(module, name, interrupted)
        assert compiled(ONES).tolist() == [2] * 4
        assert refused == [use]
        assert compiled(ONES).tolist() == [3] * 4


def test_a_handler_may_end_a_run_and_use_other_compilations(
    handler: Callable[[Callable[[], object]], Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    sent: list[bool] = []
    with relu().compile("cpu") as compiled, relu().compile("cpu") as other:
        event = compiled.submit(ONES)
        send = handler(lambda: found.extend((other(ONES), event.cancel())))
        usual = cpu.run_steps

        def interrupted(*arguments: Any) -> None:
            if not sent:
                sent.append(True)
                send()
            usual(*arguments)

        event.wait()
        monkeypatch.setattr(cpu, "run_steps", interrupted)
        assert compiled(ONES).tolist() == [1] * 4
        assert found[0].tolist() == [1] * 4 and found[1] is False


def test_a_handler_may_run_another_compilation_during_a_compile(
    gpu: str,
    handler: Callable[[Callable[[], object]], Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[Any] = []
    usual = on_gpu.partition
    with relu().compile(gpu) as other:
        send = handler(lambda: found.append(other(ONES)))

        def interrupted(*arguments: Any) -> Any:
            send()
            return usual(*arguments)

        monkeypatch.setattr(on_gpu, "partition", interrupted)
        with relu().compile(gpu) as compiled:
            assert compiled(ONES).tolist() == [1] * 4
    assert found[0].tolist() == [1] * 4


ENDING = """
import sys
from benchmarks.interrupts import ONES, doubling, network
loop, other = (model().compile(sys.argv[1], "sustained-speed") for model in (doubling, network))
endless = [loop.submit(ONES * 0) for _ in range(2)]
in_flight = [other.submit(ONES) for _ in range(2)]
endless[0]._pending.wait(0.3)
assert not endless[0].done()
"""


def test_a_process_ends_with_endless_and_submitted_runs_under_way(backend: str) -> None:
    command = [sys.executable, "-c", ENDING, backend]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
