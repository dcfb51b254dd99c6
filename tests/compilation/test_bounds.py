"""Bounds of submitted runs: how many there may be, and what close() does with them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.backends import cpu
from gpunn.compilation.preference import FRAMES_IN_FLIGHT
from gpunn.model import Model
from gpunn.types import float32
from tests.compilation.test_runtime import PREFERENCES

ONES = np.ones(4, np.float32)


def relu() -> Model:
    model = Model()
    model.output(*model.add("relu", [model.input("x", float32(4))]))
    return model


def summing() -> Model:
    """A model with a variable, the sum of all inputs so far."""
    model = Model()
    total = model.variable("total", float32(4))
    (new,) = model.add("add", [total, model.input("x", float32(4))])
    model.update(total, new)
    model.output(new)
    return model


@dataclass
class Gate:
    """A gate in front of each operation of the CPU backend: `begun` is set when a run waits there."""

    begun: threading.Event = field(default_factory=threading.Event)
    open: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A closed gate."""
    made, run_steps = Gate(), cpu.run_steps

    def waiting(*arguments: Any) -> None:
        made.begun.set()
        assert made.open.wait(30)
        run_steps(*arguments)

    monkeypatch.setattr(cpu, "run_steps", waiting)
    yield made
    made.open.set()


@pytest.mark.parametrize("preference", PREFERENCES)
def test_submit_on_the_cpu_waits_when_all_frames_are_in_flight(
    preference: gpunn.Preference, gate: Gate
) -> None:
    with ThreadPoolExecutor(1) as other, relu().compile("cpu", preference) as compiled:
        events = [compiled.submit(ONES * k) for k in range(FRAMES_IN_FLIGHT[preference])]
        one_more = other.submit(compiled.submit, ONES * 9)
        with pytest.raises(TimeoutError):
            one_more.result(0.3)
        gate.open.set()
        assert [event.result()[0] for event in (*events, one_more.result(10))] == [*range(len(events)), 9]


def test_close_cancels_the_runs_that_have_not_begun(gate: Gate) -> None:
    compiled = summing().compile("cpu", "sustained-speed")
    begun, *others = (compiled.submit(ONES) for _ in range(3))
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(compiled.submit, ONES)
        gate.begun.wait(10)
        closing = pool.submit(compiled.close)
        for event in others:
            with pytest.raises(gpunn.DeviceError, match="closed"):
                event.result()
        with pytest.raises(gpunn.DeviceError, match="closed"):
            compiled.submit(ONES)
        gate.open.set()
        closing.result(10)
        with pytest.raises(gpunn.DeviceError, match="closed"):
            waiting.result(10)
    assert begun.result().tolist() == [1] * 4


def test_close_finishes_all_runs_when_asked_to(gate: Gate) -> None:
    compiled = summing().compile("cpu", "sustained-speed")
    events = [compiled.submit(ONES) for _ in range(3)]
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(compiled.close, finish=True)
        gate.open.set()
        closing.result(10)
    assert [event.result()[0] for event in events] == [1, 2, 3]
    with pytest.raises(gpunn.DeviceError, match="closed"):
        compiled(ONES)
