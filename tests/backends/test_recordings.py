"""Stages recorded ahead: who records when, the answers, and that everything recorded is freed once."""

from __future__ import annotations

import gc
import itertools
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu import executor, native, recordings, resources
from gpunn.backends.webgpu.recordings import Recordings
from gpunn.backends.webgpu.stage import Stage
from gpunn.planning.partition import DEVICE
from gpunn.planning.plan import Segment
from tests.backends.test_results_on_device import X, loop, rounds
from tests.compilation.test_runtime import photo, small_model
from tests.rounds import by_rounds

STAGES = [Stage(Segment(DEVICE, ())) for _ in range(2)]


def a_device() -> Any:
    """Return what Recordings asks of a device."""
    return SimpleNamespace(lost_recordings=0)


@pytest.fixture
def noted(gpu: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is recorded (R), submitted (S) and freed (F), in its order."""
    found: list[str] = []

    def note(module: Any, name: str, letter: str) -> None:
        usual = getattr(module, name)

        def noting(*arguments: Any) -> Any:
            found.append(letter)
            return usual(*arguments)

        monkeypatch.setattr(module, name, noting)

    for module, name, letter in (
        (executor, "record", "R"),
        (executor, "submit_recorded", "S"),
        (native, "discard", "F"),
        (recordings, "discard", "F"),
    ):
        note(module, name, letter)
    usual = resources.submit

    def begin(*arguments: Any) -> int:
        before = len(found)
        number = usual(*arguments)
        del found[before:]  # what is submitted for new pipelines is no run
        return number

    monkeypatch.setattr(resources, "submit", begin)
    return found


@pytest.fixture(params=[True, False], ids=["software", "hardware"])
def software(request: pytest.FixtureRequest, gpu: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Let runs take the device for software, or for hardware; kernels are those of the device."""
    usual = executor.Executor.record_ahead

    def record_ahead(self: executor.Executor, *arguments: Any) -> None:
        device = self.device
        with monkeypatch.context() as patch:
            patch.setattr(device, "properties", replace(device.properties, software=request.param))
            patch.setattr(device, "lost_recordings", 0)  # by the tests before
            usual(self, *arguments)

    monkeypatch.setattr(executor.Executor, "record_ahead", record_ahead)
    return bool(request.param)


def test_from_the_third_run_on_a_run_only_submits(noted: list[str], software: bool) -> None:
    with small_model().compile("cpu") as reference, small_model().compile("webgpu") as compiled:
        for seed in range(5):
            np.testing.assert_allclose(compiled(photo(seed)), reference(photo(seed)), rtol=1e-5)
            assert (compiled.stats.ahead_seconds > 0) == (seed > 1), "the third run is recorded by the second"
        assert "".join(noted) == "RS" + "RSR" + ("SRRSSRRRR" if software else 3 * "SR")
    assert noted.count("R") == noted.count("F"), "close() frees what is left"


@pytest.mark.parametrize(("models", "most"), [(0.5, 1), (1, 1), (2.5, 2), (3, 3), (100, 8)])
def test_recordings_become_twice_as_many_up_to_what_may_be_kept(
    noted: list[str], software: bool, monkeypatch: pytest.MonkeyPatch, models: float, most: int
) -> None:
    with small_model().compile("webgpu") as compiled:
        wanted = compiled(photo()).tolist()
        monkeypatch.setattr(executor, "_AHEAD", int(models * compiled.stats.dispatches))
        assert all(compiled(photo()).tolist() == wanted for _ in range(15))
    recorded = "".join(noted).replace("F", "").removeprefix("RSRS")  # by the first two runs for themselves
    ahead = re.findall("R+", recorded)
    most = most if software else 1
    assert noted.count("S") == 16 and noted.count("R") == noted.count("F")
    assert max(map(len, ahead)) == most
    assert all(len(more) == min(2 * len(first), most) for first, more in itertools.pairwise(ahead))


def test_frames_in_flight_have_recordings_of_their_own(noted: list[str]) -> None:
    with small_model().compile("webgpu", gpunn.Preference.SUSTAINED_SPEED) as compiled:
        wanted = [compiled(photo(seed)).tolist() for seed in range(3)]
        frames = [photo(seed % 3) for seed in range(30)]
        found = [scores.tolist() for scores in compiled.stream(frames)]
        assert found == list(itertools.islice(itertools.cycle(wanted), len(frames)))
        assert noted.count("S") == 33 and noted.count("R") <= 2 * noted.count("S")
    assert noted.count("R") == noted.count("F")


def test_what_a_forgotten_compilation_has_recorded_is_freed(noted: list[str]) -> None:
    compiled = small_model().compile("webgpu")
    for _ in range(3):
        compiled(photo())
    assert noted[-1] == "R"
    with pytest.warns(ResourceWarning, match="unclosed"):
        del compiled
        gc.collect()
    with small_model().compile("webgpu"):
        assert noted.count("R") == noted.count("F")


def test_results_that_stay_on_the_device_are_copied_to_other_places(
    noted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their buffers differ from run to run: only rounds that begin with the host's arrays use recordings."""
    by_rounds(monkeypatch)
    with loop().compile("webgpu") as compiled:
        for scale in (100, 3, 50):
            x, y, _ = rounds(X * scale, X)
            for found, expected in zip(compiled(X * scale, X), (x, y), strict=True):
                np.testing.assert_array_equal(found, expected)
            assert noted.count("S") <= noted.count("R") <= 2 * noted.count("S")
            assert noted.count("S") <= 3, "once for each call"


def test_recordings_are_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[str] = []
    monkeypatch.setattr(recordings, "discard", freed.append)
    device = a_device()
    kept, buffers = Recordings(device), [bytearray(1), bytearray(2)]
    for (n, stage), (m, buffer) in itertools.product(enumerate(STAGES), enumerate(buffers)):
        names = (f"{n}{m}{k}" for k in itertools.count())
        kept.fill(stage, buffer, partial(next, names), 1)
        kept.fill(stage, buffer, partial(next, names), 1)
    assert {kept.take(STAGES[0], buffers[0])[0] for _ in range(2)} == {"000", "001"}
    assert kept.take(STAGES[0], buffers[0]) == (None, 0) and not kept.has(STAGES[0], buffers[0])
    assert kept.take(STAGES[0], buffers[1])[0] in ("010", "011") and kept.has(STAGES[0], buffers[1])
    kept.forget(buffers[1])
    assert [name[:2] for name in sorted(freed)] == ["01", "11", "11"]
    kept.clear()
    kept.clear()
    assert sorted(freed[3:]) == ["100", "101"] and kept.take(STAGES[1], buffers[0])[0] is None
    assert device.lost_recordings == len(freed) == 5


def test_only_what_is_taken_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four recordings of 1, 3, 1 and 5 s took 2.5 s each."""
    monkeypatch.setattr(recordings, "discard", lambda _: None)
    clock = [0.0]
    monkeypatch.setattr(recordings, "time", SimpleNamespace(thread_time=lambda: clock[0]))
    kept, steps = Recordings(a_device()), iter([7, 2, 2, 1, 3, 1, 5])

    def record() -> int:
        clock[0] += next(steps)
        return 0

    found = []
    for _ in range(3):
        kept.fill(STAGES[0], None, record, 8)
        while kept.has(STAGES[0], None) and len(found) < 5:
            found.append(kept.take(STAGES[0], None)[1])
    assert found == [7, 2, 2, 2.5, 2.5]


def test_what_has_been_submitted_is_discarded_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[int] = []
    monkeypatch.setattr(recordings, "discard", freed.append)
    monkeypatch.setattr(recordings, "_LEFT", 3)
    device = a_device()
    kept = Recordings(device)
    for k in range(8):
        kept.leave(k)
        assert sorted(freed) == list(range((k + 1) // 3 * 3))
    kept.clear()
    assert sorted(freed) == list(range(8)) and device.lost_recordings == 0


def test_a_device_that_has_lost_many_recordings_makes_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """wgpu-native keeps for ever what is not submitted: tests/upstream/not_submitted.py."""
    monkeypatch.setattr(recordings, "discard", lambda _: None)
    monkeypatch.setattr(recordings, "_MOST_LOST", 10)
    device, counts = a_device(), []
    for _ in range(6):
        kept, made = Recordings(device), list[None]()
        for _ in range(3):
            kept.fill(STAGES[0], None, partial(made.append, None), 8)
        counts.append(len(made))
        kept.clear()
    assert counts == [7, 7, 3, 3, 3, 3]
