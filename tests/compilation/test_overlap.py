"""Runs that overlap: submit, stream, threads and interruptions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu import executor as webgpu_executor
from gpunn.backends.webgpu import native
from gpunn.model import Model
from gpunn.types import float32
from tests.compilation.test_runtime import PREFERENCES, host_only, photo, small_model


@pytest.mark.parametrize("preference", PREFERENCES)
def test_stream_and_submit_give_what_run_gives_to_the_bit_and_in_order(
    backend: str, preference: gpunn.Preference
) -> None:
    frames = [photo(i) for i in range(10)]
    with small_model().compile(backend=backend, preference=preference) as compiled:
        wanted = [compiled(f) for f in frames]
        assert all(np.array_equal(a, b) for a, b in zip(compiled.stream(iter(frames)), wanted, strict=True))
        events = [compiled.submit(f) for f in frames]
        for event, want in reversed(list(zip(events, wanted, strict=True))):
            event.wait()
            assert np.array_equal(event.result(), want)


def test_the_inputs_may_change_once_submit_has_returned(backend: str) -> None:
    with small_model().compile(backend=backend, preference=gpunn.Preference.SUSTAINED_SPEED) as compiled:
        wanted = compiled(photo())
        frame = photo()
        event = compiled.submit(frame)
        frame[:] = 0
        assert np.array_equal(event.result(), wanted)


def test_host_operations_read_the_inputs_of_their_run(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpunn.backends.webgpu.lower.lower", host_only("add"))
    model = Model()
    x = model.input("x", float32(4))
    model.output(x, *model.add("add", [x, *model.add("relu", [x])]))
    frame = np.float32([-1, 2, -3, 4])
    with model.compile(backend=gpu) as compiled:
        event = compiled.submit(frame)
        frame[:] = 0
        same, doubled = event.result()
    assert same.tolist() == [-1, 2, -3, 4]
    assert doubled.tolist() == [-1, 4, -3, 8]


def test_threads_that_stream_at_once_do_not_deadlock(backend: str) -> None:
    frames = [photo(i) for i in range(6)]
    with small_model().compile(backend=backend, preference=gpunn.Preference.SUSTAINED_SPEED) as compiled:
        wanted = [compiled(f) for f in frames]
        with ThreadPoolExecutor(4) as pool:
            for got in pool.map(lambda _: list(compiled.stream(frames)), range(8)):
                assert all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True))


def test_several_threads_may_use_one_compilation_and_wait_on_one_event(backend: str) -> None:
    frames = [photo(i) for i in range(8)]
    with small_model().compile(backend=backend) as compiled, ThreadPoolExecutor(4) as pool:
        wanted = [compiled(f) for f in frames]
        for got, want in zip(pool.map(compiled, frames * 3), wanted * 3, strict=True):
            assert np.array_equal(got, want)
        event = compiled.submit(frames[0])
        for got in pool.map(lambda _: event.result(), range(4)):
            assert np.array_equal(got, wanted[0])


def test_results_of_earlier_runs_stay_as_they_were(backend: str) -> None:
    with small_model().compile(backend=backend) as compiled:
        first = compiled(photo(1))
        copy = first.copy()
        compiled(photo(2))
        assert np.array_equal(first, copy)


@pytest.mark.parametrize(
    "preference", [gpunn.Preference.FAST_SINGLE_ANSWER, gpunn.Preference.SUSTAINED_SPEED]
)
@pytest.mark.parametrize(("where", "name"), [(native, "_deliver"), (webgpu_executor, "submit_recorded")])
def test_an_interrupted_run_loses_nothing(
    gpu: str, preference: gpunn.Preference, where: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C may interrupt Python anywhere: in a callback of the driver, too, or in submit()."""
    usual, stopped = getattr(where, name), iter([True, False, False, True])

    def stop(*args: Any) -> Any:
        if next(stopped, False):
            raise KeyboardInterrupt
        return usual(*args)

    with small_model().compile(backend=gpu, preference=preference) as compiled:
        wanted = compiled(photo())
        event = compiled.submit(photo())
        monkeypatch.setattr(where, name, stop)
        with pytest.raises(KeyboardInterrupt):
            compiled(photo())
        for _ in range(5):
            with suppress(KeyboardInterrupt):
                assert np.array_equal(compiled(photo()), wanted)
        assert next(stopped, None) is None  # both interruptions took place
        assert np.array_equal(event.result(), wanted)
        assert np.array_equal(compiled(photo()), wanted)


def test_memory_stays_bounded_however_many_frames_are_submitted(gpu: str) -> None:
    with small_model().compile(backend=gpu, preference=gpunn.Preference.SUSTAINED_SPEED) as compiled:
        ring = compiled.stats.staging_bytes
        events = [compiled.submit(photo(i)) for i in range(50)]
        assert compiled.stats.staging_bytes == ring == 3 * 32
        assert len({e.result().tobytes() for e in events}) == 50
