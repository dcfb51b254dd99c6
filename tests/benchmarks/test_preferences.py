"""The benchmark of preferences, in its shortest form, and its counters."""

from __future__ import annotations

import pytest

import gpunn
from benchmarks import preferences
from gpunn import vision


def test_preferences_from_end_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--rounds", "1", "--runs", "1", "--frames", "2", "--backends", "cpu", "--markdown"]
    preferences.main([str(vision.default_model()), *short])
    out = capsys.readouterr().out
    assert "|  | LOW_POWER | FAST_SINGLE_ANSWER | SUSTAINED_SPEED |\n" in out
    assert "| time / FAST_SINGLE_ANSWER | " in out
    assert "host us/dispatch" not in out, "the CPU has no dispatches"


def test_preferences_count_what_a_run_uploads(gpu: str) -> None:
    model = gpunn.load(vision.default_model())
    _, grid = preferences.measure(model, gpu, None, rounds=1, runs=2, frames=2)
    rows = {row[0]: row[1:] for row in grid.rows}
    (x,), (y,) = model.inputs, model.outputs
    assert set(rows["upload bytes/run"]) == {f"{x.type.nbytes:,}"}
    assert set(rows["read-back bytes/run"]) == {f"{y.type.nbytes:,}"}
