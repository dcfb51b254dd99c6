"""The tuner: what it takes, what it drops, and what it does not even measure."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu import stopwatch
from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.pipelines import Pipelines
from gpunn.limits import Limits
from gpunn.tuning import calls, measurement
from gpunn.types import float32
from tests.tuning.candidates import FAST, SIZE, SUSTAINED, Offer, X, bodies, model


@pytest.mark.parametrize("timestamps", [True, False])
def test_the_quickest_candidate_is_taken(
    gpu: str, offer: Offer, timestamps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not timestamps:
        if not open_device(None, low_power=False).properties.software:
            pytest.skip("submissions to hardware take longer than these kernels")
        monkeypatch.setattr(stopwatch, "TIMESTAMPS", "a feature that no device has")
    offer("slow", "slower", "quick")
    assert bodies(model(), gpu, FAST) == ["the slow"]
    assert bodies(model(), gpu, SUSTAINED) == ["the quick"]
    found = gpunn.tune(model())
    assert found.method == ("timestamps" if timestamps else "submissions")
    (call,) = found.calls
    slow, slower, quick = (way.seconds for way in call.ways)
    assert slow and slower and quick and quick < slow
    assert call.gain == slow / quick


def test_hardware_is_warm_and_has_all_pipelines_before_it_is_measured(
    gpu: str, offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = open_device(None, low_power=False)
    monkeypatch.setattr(device, "properties", replace(device.properties, software=False))
    monkeypatch.setattr(device, "_pipelines", Pipelines())
    offer("slow", "quick")
    events: list[str] = []
    bench = measurement.Bench
    usual, begin, compete = measurement.submit, bench._begin, bench._compete

    def submit(*given: Any) -> int:
        events.append("warm")
        return usual(*given)

    def begun(*given: Any) -> None:
        events.append(f"{device.pipeline_count} pipelines")
        begin(*given)

    monkeypatch.setattr(measurement, "submit", submit)
    monkeypatch.setattr(bench, "_begin", begun)
    monkeypatch.setattr(bench, "_compete", lambda *given: events.append("measured") or compete(*given))
    assert bodies(model(), gpu, SUSTAINED) == ["the quick"]
    assert events[:2] == ["1 pipelines"] * 2, "both have one"
    assert device.pipeline_count == 2, "the other one has its parameters as constants"
    assert events[2] == events[events.index("measured") - 1] == "warm"


@pytest.mark.parametrize("hardware", [False, True])
def test_hardware_repeats_no_kernel_in_a_row(
    gpu: str, offer: Offer, hardware: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = open_device(None, low_power=False)
    monkeypatch.setattr(device, "properties", replace(device.properties, software=not hardware))
    monkeypatch.setattr(measurement, "PASS_SECONDS", 0.01)  # so that kernels are repeated on any adapter
    monkeypatch.setattr(measurement, "LONG", 1e9)  # and both take turns
    offer("slow", "quick")
    timed: list[list[tuple[object, ...]]] = []
    times = stopwatch.Stopwatch.times
    monkeypatch.setattr(
        stopwatch.Stopwatch,
        "times",
        lambda s, passes: timed.append([*map(tuple, passes)]) or times(s, passes),
    )
    assert bodies(model(), gpu, SUSTAINED) == ["the quick"]
    first, second, *others = max(timed, key=len)
    assert first != second and all(one == (first, second)[k % 2] for k, one in enumerate(others))
    assert (len(first) == len(second) == 1) == hardware
    found = gpunn.tune(model()).calls[0]
    assert found.ways[0].seconds and found.ways[1].seconds and found.ways[1].seconds < found.ways[0].seconds


def test_the_kernel_says_what_was_measured(gpu: str, offer: Offer) -> None:
    offer("slow", "quick")
    with model().compile(gpu, SUSTAINED) as compiled:
        (row,) = compiled.plan_rows()
    assert row.kernel.reason.startswith("the quick one; measured: slow ")
    assert ", quick " in row.kernel.reason and row.kernel.reason.endswith(" ms")


def test_the_first_candidate_stays_unless_another_one_is_clearly_quicker(
    gpu: str, offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "MARGIN", 1e-6)
    offer("slow", "quick")
    assert bodies(model(), gpu, SUSTAINED) == ["the slow"]


@pytest.mark.parametrize(
    ("bad", "reason"), [("wrong", "a result is off by 0.25, and "), ("broken", "broken.wgsl:3")]
)
@pytest.mark.parametrize("hardware", [False, True], ids=["as it is", "hardware"])
def test_candidates_that_are_wrong_or_rejected_are_dropped(
    gpu: str,
    offer: Offer,
    hardware: bool,
    bad: str,
    reason: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if hardware:  # where all pipelines are made before
        device = open_device(None, low_power=False)
        monkeypatch.setattr(device, "properties", replace(device.properties, software=False))
    offer("slower", bad, "slow")
    with caplog.at_level(logging.WARNING, "gpunn"):
        assert bodies(model(), gpu, SUSTAINED) == ["the slow"]
    (message,) = caplog.messages
    assert message.startswith(f"plus_one (call 0): {bad}: ") and reason in message
    (call,) = gpunn.tune(model()).calls
    assert [reason in way.dropped for way in call.ways] == [False, True, False]
    assert call.chosen == 2


def test_equal_calls_are_measured_once(gpu: str, offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
    offer("slow", "quick")
    measured: list[str] = []
    record = measurement.Bench.record
    monkeypatch.setattr(
        measurement.Bench, "record", lambda s, o, c: measured.append(o.origin) or record(s, o, c)
    )
    told: list[tuple[str, int, int | None]] = []
    found = gpunn.tune(model(3), progress=lambda *what: told.append(what))
    assert measured == ["call 0"]
    assert [call.origins for call in found.calls] == [("call 0", "call 1", "call 2")]
    assert told == [("tuning", 0, 1), ("tuning", 1, 1)]
    assert bodies(model(3), gpu, SUSTAINED) == ["the quick"] * 3
    with model().compile(gpu, SUSTAINED) as compiled:  # other shapes are other calls
        compiled(X[: SIZE - 64])
    assert len(measured) == 2


def test_small_calls_and_single_candidates_follow_the_rule(
    gpu: str, offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("nothing should be measured")

    monkeypatch.setattr(measurement.Bench, "record", refuse)
    offer("slow", "quick")
    small = gpunn.tune(model(size=calls.LEAST_WORK // 3 - 1))
    assert (small.small, small.calls) == (1, ())
    offer("slow")
    assert bodies(model(), gpu, SUSTAINED) == ["the slow"]


@pytest.mark.parametrize("software", [True, False])
def test_what_takes_software_far_longer_is_measured_once(
    gpu: str, offer: Offer, software: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = open_device(None, low_power=False)
    monkeypatch.setattr(device, "properties", replace(device.properties, software=software))
    monkeypatch.setattr(measurement, "LONG", 0.0)
    monkeypatch.setattr(measurement, "FAR", 1.0)
    competitors = _competitors(monkeypatch)
    offer("slower", "slow", "quick")
    assert bodies(model(), gpu, SUSTAINED) == ["the quick"]
    assert competitors[:1] == ([] if software else [["slower", "slow", "quick"]])
    (call,) = gpunn.tune(model()).calls
    assert all(way.seconds for way in call.ways)


@pytest.mark.parametrize(
    ("name", "seconds", "least"), [("BUDGET", 1e9, 6), ("BUDGET", 0.0, 2), ("BUDGET_OF_ALL", 0.0, 2)]
)
def test_where_six_rounds_take_too_long_there_are_two(
    name: str, seconds: float, least: int, gpu: str, offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = {name: seconds, "AGREE": 1e9, "LONG": 1e9, "HOPELESS": 1e9, "AT_ONCE": 1}
    for each, value in settled.items():
        monkeypatch.setattr(measurement, each, value)
    rounds: list[int] = []
    usual, compete = measurement.Bench._rounds, measurement.Bench._compete
    monkeypatch.setattr(measurement.Bench, "_compete", lambda *given: rounds.append(0) or compete(*given))

    def counted(*given: Any) -> int:
        count = usual(*given)
        rounds[-1] += count
        return count

    monkeypatch.setattr(measurement.Bench, "_rounds", counted)
    offer("slow", "quick")
    assert bodies(model(), gpu, SUSTAINED) == ["the quick"]
    assert rounds == [least] * 2, "of both, and once more of the first and the best"


def _competitors(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the names of the candidates of each competition, in a list that grows."""
    found: list[list[str]] = []
    compete = measurement.Bench._compete

    def named(bench: measurement.Bench, trials: Any) -> None:
        found.append([trial.candidate.reason for trial in trials])
        compete(bench, trials)

    monkeypatch.setattr(measurement.Bench, "_compete", named)
    return found


def test_candidates_beside_a_very_long_one_are_not_tried(
    gpu: str, offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "TOO_LONG", 0.0)
    offer("slow", "quick")
    (call,) = gpunn.tune(model()).calls
    assert call.chosen == 0 and call.ways[0].seconds and call.ways[1].seconds is None


def test_under_a_limit_of_compile_seconds_nothing_is_measured(gpu: str, offer: Offer) -> None:
    offer("slow", "quick")
    made = model()
    made.limits = Limits(compile_seconds=100.0)
    assert bodies(made, gpu, SUSTAINED) == ["the slow"]
    gpunn.tune(made)
    assert bodies(made, gpu, SUSTAINED) == ["the quick"], "what is known is used"


def test_if_memory_runs_out_the_candidate_is_dropped_for_now(gpu: str, offer: Offer) -> None:
    offer("slow", "quick")
    made = model()
    need = gpunn.memory()
    taken = max((m.total for m in need), default=0)
    with pytest.raises(gpunn.LimitError):
        made.compile(gpu, SUSTAINED, device_memory_limit=taken)
    assert bodies(made, gpu, SUSTAINED) == ["the quick"]


def test_what_memory_ran_out_for_is_measured_again_by_others(
    gpu: str, offer: Offer, new_process: Callable[[], None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer("slow", "quick")
    begin = measurement.Bench._begin

    def full(bench: measurement.Bench, data: Any, trial: Any) -> None:
        if trial.candidate.reason == "quick":
            raise gpunn.DeviceError("out of memory")
        begin(bench, data, trial)

    with monkeypatch.context() as patch:
        patch.setattr(measurement.Bench, "_begin", full)
        found = gpunn.tune(model())
    (call,) = found.calls
    assert (call.chosen, call.ways[1].dropped, found.stored) == (0, "out of memory", True)
    assert not folder.exists()
    assert bodies(model(), gpu, SUSTAINED) == ["the slow"], "within a process the choice stays"
    new_process()
    assert bodies(model(), gpu, SUSTAINED) == ["the quick"]


def test_two_compilations_in_a_process_choose_the_same(gpu: str, offer: Offer) -> None:
    offer("slow", "quick")
    with model().compile(gpu, SUSTAINED) as one, model().compile(gpu, SUSTAINED) as other:
        assert one(X).tobytes() == other(X).tobytes()
        chosen = [[row.kernel.reason for row in compiled.plan_rows()] for compiled in (one, other)]
    assert chosen[0] == chosen[1]


IMAGE = np.random.default_rng(0).uniform(-1, 1, (1, 8, 8, 32)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).uniform(-1, 1, (64, 1, 1, 32)).astype(np.float32)


def rows() -> gpunn.Model:
    """Return a convolution with several candidates, which a worker process knows, too."""
    made = gpunn.Model("rows")
    x = made.input("x", float32(1, 8, 8, 32))
    made.output(*made.add("conv2d", [x, made.constant("w", WEIGHTS)]))
    return made


def test_a_worker_process_tunes_too(gpu: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    with rows().compile(gpu, SUSTAINED, isolate=True) as compiled:
        assert len(list((folder / "gpunn").glob("tuning-*.json"))) == 1
        np.testing.assert_allclose(compiled(IMAGE), IMAGE @ WEIGHTS.reshape(64, 32).T, atol=1e-4)
        assert "measured: " in compiled.plan_rows()[0].kernel.reason


def test_a_worker_process_takes_what_its_parent_chose(
    gpu: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason of a kernel has the measured times, which another measurement would not repeat."""
    folder.write_text("")  # so no file carries the choice to the worker
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setattr("gpunn.cache.cache_folder", lambda: folder / "gpunn")
    with rows().compile(gpu, SUSTAINED) as here, rows().compile(gpu, SUSTAINED, isolate=True) as there:
        reasons = [compiled.plan_rows()[0].kernel.reason for compiled in (here, there)]
        assert here(IMAGE).tobytes() == there(IMAGE).tobytes()
    assert "measured: " in reasons[0]
    assert reasons[0] == reasons[1]
