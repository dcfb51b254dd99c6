"""The choice between numpy's threads and a loop: by time, once for each key."""

from __future__ import annotations

import time

import pytest

from gpunn.ops.contraction import threads_or_loop
from gpunn.types import Array


@pytest.mark.parametrize("slow", ["threads", "loop"])
def test_the_quicker_way_is_chosen_and_stays(slow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_or_loop, "_CHOSEN", {})

    def wait(x: Array, out: Array) -> None:
        time.sleep(0.01)
        out[...] = x.sum()

    def fill(x: Array, out: Array) -> None:
        out[...] = x.sum()

    threads, loop = (wait, fill) if slow == "threads" else (fill, wait)
    assert threads_or_loop.threads_pay("key", threads, loop, (1, 2), (3,)) == (slow == "loop")
    assert threads_or_loop.threads_pay("key", loop, threads, (1, 2), (3,)) == (slow == "loop")


def test_threads_that_save_little_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_or_loop, "_CHOSEN", {})
    clock = iter([0.0, 1.0, 0.0, 1.05] * 3)
    monkeypatch.setattr(threads_or_loop.time, "perf_counter", lambda: next(clock))
    assert not threads_or_loop.threads_pay("key", lambda *_: None, lambda *_: None, (1,), (1,))


def test_without_memory_to_measure_numpy_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_or_loop, "_CHOSEN", {})

    def fail(x: Array, out: Array) -> None:
        raise MemoryError

    assert threads_or_loop.threads_pay("key", fail, fail, (1,), (1,))
    assert threads_or_loop.threads_pay("key", lambda *_: time.sleep(0.01), lambda *_: None, (1,), (1,))
