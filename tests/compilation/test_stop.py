"""Runs that are ended early: by a timeout, and by cancel()."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu import native
from tests.compilation.test_bounds import Gate, gate, relu, summing
from tests.compilation.test_control_flow import doubling

__all__ = ["gate"]

ONES = np.ones(4, np.float32)
ENDLESS = ONES * 0
SOON = 60.0  # seconds in which everything here ends, on a busy machine, too


def in_time(began: float) -> bool:
    return time.monotonic() - began < SOON


def test_a_run_of_an_endless_loop_ends_after_its_timeout(backend: str) -> None:
    with doubling().compile(backend=backend) as compiled:
        name = compiled.model.inputs[0].name
        for _ in range(3):
            began = time.monotonic()
            with pytest.raises(gpunn.RunTimeoutError, match=r"not ended after 0\.2 s") as caught:
                compiled.run({name: ENDLESS}, timeout=0.2)
            assert isinstance(caught.value, TimeoutError)
            assert 0.2 <= time.monotonic() - began < SOON
            (found,) = compiled.run({name: ONES}, timeout=60).values()
            assert found.tolist() == [128] * 4


@pytest.mark.parametrize("timeout", ["5", float("nan"), pytest.param(10**400, id="huge"), [1]])
def test_timeouts_that_are_no_numbers_are_refused(backend: str, timeout: Any) -> None:
    with doubling().compile(backend=backend) as compiled:
        name = compiled.model.inputs[0].name
        with pytest.raises(gpunn.ModelError, match="timeout must be a number of seconds"):
            compiled.run({name: ONES}, timeout=timeout)
        event = compiled.submit(ENDLESS)
        with pytest.raises(gpunn.ModelError, match="timeout must be a number of seconds"):
            event.result(timeout=timeout)
        event.cancel()
        (found,) = compiled.run({name: ONES}, timeout=np.inf).values()
        assert found.tolist() == [128] * 4


@pytest.mark.parametrize("thread", ["main", "another"])
def test_an_endless_loop_is_cancelled_from_another_thread(backend: str, thread: str) -> None:
    with doubling().compile(backend=backend) as compiled, ThreadPoolExecutor(2) as pool:
        event = compiled.submit(ENDLESS)
        assert not event.done()
        began = time.monotonic()
        pool.submit(lambda: (time.sleep(0.2), event.cancel()))
        wait = event.result if thread == "main" else pool.submit(event.result).result
        with pytest.raises(gpunn.RunCancelledError, match="cancelled") as caught:
            wait()
        assert isinstance(caught.value, concurrent.futures.CancelledError)
        assert in_time(began)
        assert compiled(ONES).tolist() == compiled.submit(ONES).result().tolist() == [128] * 4
        with pytest.raises(gpunn.RunCancelledError):
            event.result()


def test_a_wait_that_times_out_leaves_the_run_going(gate: Gate) -> None:
    with relu().compile("cpu") as compiled:
        event = compiled.submit(ONES)
        for wait in (event.result, event.wait):
            with pytest.raises(gpunn.RunTimeoutError):
                wait(timeout=0.05)
        assert not event.done()
        gate.open.set()
        event.wait(SOON)
        assert event.done()
        assert event.result(timeout=0).tolist() == [1] * 4
        assert not event.cancel()
        assert event.result().tolist() == [1] * 4


def test_a_run_that_waits_for_another_thread_times_out(gate: Gate) -> None:
    with summing().compile("cpu") as compiled:
        first = threading.Thread(target=compiled, args=(ONES,))
        first.start()
        gate.begun.wait(SOON)
        with pytest.raises(gpunn.RunTimeoutError):
            compiled.run({"x": ONES}, timeout=0.1)
        gate.open.set()
        first.join(SOON)
        assert compiled(ONES).tolist() == [2] * 4, "a run that ended early changes no variable"


def test_a_run_ends_between_two_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    prepared = gpunn.Operation.prepared

    def slowly(operation: gpunn.Operation) -> Any:
        compute = prepared(operation)

        def slow(*arguments: Any) -> Any:
            begun.append(operation)
            time.sleep(0.3)
            return compute(*arguments)

        return slow

    model = relu()
    (y,) = model.add("tanh", [model.outputs[0]])
    model.output(y)
    monkeypatch.setattr(gpunn.Operation, "prepared", slowly)
    monkeypatch.setattr(gpunn.Operation, "direct", lambda self: None)
    with model.compile("cpu") as compiled, pytest.raises(gpunn.RunTimeoutError):
        compiled.run({"x": ONES}, timeout=0.1)
    assert [operation.op for operation in begun] == ["relu"]


def test_queued_runs_are_cancelled_and_those_around_them_are_not(gate: Gate) -> None:
    with summing().compile("cpu", "sustained-speed") as compiled:
        first, second, third = (compiled.submit(ONES) for _ in range(3))
        assert second.cancel()
        with pytest.raises(gpunn.RunCancelledError):
            second.result()
        gate.open.set()
        assert first.result().tolist() == [1] * 4
        assert third.result().tolist() == [2] * 4


def test_a_run_on_the_gpu_times_out_and_the_next_ones_are_right(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [True]
    deliver = native._deliver

    def late(*arguments: Any) -> None:
        if held[0]:
            waiting.append(arguments)
            return
        deliver(*arguments)

    waiting: list[Any] = []
    with relu().compile(gpu) as compiled:
        monkeypatch.setattr(native, "_deliver", late)
        with pytest.raises(gpunn.RunTimeoutError):
            compiled.run({"x": ONES}, timeout=0.2)
        held[0] = False
        for arguments in waiting:
            deliver(*arguments)
        for k in range(5):
            event = compiled.submit(ONES * k)
            assert event.result(timeout=SOON).tolist() == [k] * 4
        cancelled = compiled.submit(ONES)
        assert cancelled.cancel()
        with pytest.raises(gpunn.RunCancelledError):
            cancelled.result()
        assert compiled.run({"x": ONES}, timeout=SOON)
        assert compiled(ONES * 7).tolist() == [7] * 4
