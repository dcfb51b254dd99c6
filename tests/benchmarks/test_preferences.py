"""The benchmark of preferences, in its shortest form, and its counters."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
from benchmarks import preferences
from gpunn import vision


def test_preferences_from_end_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--rounds", "1", "--runs", "1", "--frames", "2", "--span", "0", "--backends", "cpu"]
    preferences.main([str(vision.default_model()), *short, "--markdown"])
    out = capsys.readouterr().out
    assert "|  | LOW_POWER | FAST_SINGLE_ANSWER | SUSTAINED_SPEED |\n" in out
    assert "| time / FAST_SINGLE_ANSWER | " in out
    assert "host us/dispatch" not in out, "the CPU has no dispatches"


def test_a_stream_goes_on_for_some_time() -> None:
    """A run took a fifth of the span, so there are five frames."""
    with gpunn.load(vision.default_model()).compile("cpu") as compiled:
        row = preferences.Row(gpunn.Preference.LOW_POWER, compiled, span=0.5, run_s=[0.1])
        row.time_stream([np.zeros((1, 32, 32, 3), np.float32)], 2)
        assert compiled.stats.runs == 5
    assert len(row.frames) == len(row.stream_cpu_s) == 1


def test_preferences_count_what_a_run_uploads(gpu: str) -> None:
    model = gpunn.load(vision.default_model())
    _, grid = preferences.measure(model, gpu, None, rounds=1, runs=2, frames=2, span=0)
    rows = {row[0]: row[1:] for row in grid.rows}
    (x,), (y,) = model.inputs, model.outputs
    assert set(rows["upload bytes/run"]) == {f"{x.type.nbytes:,}"}
    assert set(rows["read-back bytes/run"]) == {f"{y.type.nbytes:,}"}
