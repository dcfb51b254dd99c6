"""Locks that KeyboardInterrupt does not leave taken."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from gpunn.backends.interrupt import Stop, holding
from gpunn.backends.locks import DroppableLock, make_lock

LOCKS: tuple[Callable[[], Any], ...] = (make_lock, DroppableLock)


def _ring(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _interrupted(lock: Any, stop: Stop | None, seconds: float) -> None:
    """Take a lock and give it back, again and again, until KeyboardInterrupt comes from a timer."""
    with suppress(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while True:
            with holding(lock, stop):
                pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers that send signals")
@pytest.mark.parametrize("stop", [None, Stop(60)], ids=["endless", "in time"])
@pytest.mark.parametrize("make", LOCKS)
def test_an_interrupt_gives_the_lock_back(make: Callable[[], Any], stop: Stop | None) -> None:
    lock = make()
    usual = signal.signal(signal.SIGALRM, _ring)
    try:
        for k in range(300):
            _interrupted(lock, stop, 2e-4 + 1e-6 * k)
            assert not lock._is_owned(), k
    finally:
        signal.signal(signal.SIGALRM, usual)


def test_a_way_out_that_is_dropped_gives_back_what_its_statement_took() -> None:
    lock: Any = DroppableLock()
    for depth in range(3):
        way_out = lock.__exit__
        lock.__enter__()
        assert lock._recursion_count() == depth + 1
        del way_out
        assert lock._recursion_count() == depth  # those around it keep theirs
        lock.acquire()


def test_a_way_out_that_is_dropped_before_the_lock_is_taken_gives_nothing_back() -> None:
    lock: Any = DroppableLock()
    with lock:
        way_out = lock.__exit__
        del way_out
        assert lock._recursion_count() == 1
    assert not lock._is_owned()


@pytest.mark.parametrize("make", LOCKS)
def test_others_wait_until_the_block_has_ended(make: Callable[[], Any]) -> None:
    lock = make()
    order: list[str] = []

    def other() -> None:
        with lock:
            order.append("other")

    thread = threading.Thread(target=other)
    with pytest.raises(ValueError, match="ended"), lock, lock:
        thread.start()
        thread.join(0.05)
        order.append("block")
        raise ValueError("ended")
    thread.join(10)
    assert order == ["block", "other"]
