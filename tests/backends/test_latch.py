"""What threads wait for, for some time."""

from __future__ import annotations

import threading

import pytest

from gpunn.backends.interrupt import PATIENCE, Stop
from gpunn.backends.latch import Latch
from gpunn.backends.worker import Job
from gpunn.errors import RunTimeoutError


def test_an_open_latch_lets_all_pass_at_once() -> None:
    latch = Latch()
    assert not latch.wait(0)
    latch.open()
    latch.open()
    assert [latch.wait(seconds) for seconds in (0, 60, 0)] == [True] * 3


def test_all_that_wait_pass_when_it_opens() -> None:
    latch, passed = Latch(), threading.Semaphore(0)
    begun = threading.Barrier(4, timeout=60)

    def wait() -> None:
        begun.wait()
        if latch.wait(60):
            passed.release()

    for _ in range(3):
        threading.Thread(target=wait, daemon=True).start()
    begun.wait()
    assert not passed.acquire(timeout=0.05)
    latch.open()
    assert all(passed.acquire(timeout=60) for _ in range(3))


def test_a_wait_ends_whatever_the_system_does_meanwhile() -> None:
    """Of some ten thousand such waits for a SimpleQueue, one does not end."""
    ended = threading.Event()

    def wait() -> None:
        assert not any(Latch().wait(1e-9) for _ in range(20_000))
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    assert ended.wait(60)


def test_who_cannot_cancel_a_job_waits_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that has begun opens the latch itself: else those who wait would ask again and again."""
    begun, leave, waits = threading.Event(), threading.Event(), list[float]()
    job = Job(lambda: (begun.set(), leave.wait(60)))
    threading.Thread(target=job.carry_out, daemon=True).start()
    assert begun.wait(60)
    assert not job.cancel()
    wait = Job.wait

    def counted(job: Job[object], seconds: float = PATIENCE) -> None:
        waits.append(seconds)
        wait(job, seconds)

    monkeypatch.setattr(Job, "wait", counted)
    try:
        with pytest.raises(RunTimeoutError):
            Stop(0.3).carry(job.result)
    finally:
        leave.set()
    assert len(waits) <= 10  # of 0.1 s each
