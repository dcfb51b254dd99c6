"""The benchmark of the tuner, in its shortest form."""

from __future__ import annotations

import pytest

from benchmarks import tuning
from gpunn import vision
from gpunn.tuning.result import TunedCall, Tuning, Way


def test_tuning_from_end_to_end(gpu: str, capsys: pytest.CaptureFixture[str]) -> None:
    tuning.main([str(vision.default_model()), "--rounds", "1", "--markdown"])
    out = capsys.readouterr().out
    assert "| way | offered | the rule's | won |\n" in out
    assert "\n| conv2d: tiles of pixels and channels | " in out
    assert f"\n| {vision.default_model().name} | " in out


def test_wins_and_disagreements_are_counted() -> None:
    ways = Way("1 row", 2e-3), Way("tiles of 4 x 4", 1e-3)
    same, other = (TunedCall("matmul", None, (3, n), ("", ""), ways, n, True) for n in (0, 1))
    found = [Tuning("m", "", "timestamps", 1.0, 0, (same, other))]
    assert tuning.wins(found).rows == (
        ("matmul: N row", "2", "2", "1"),
        ("matmul: tiles of N x N", "2", "0", "1"),
    )
    assert tuning.disagreements(found).rows == (
        ("m: matmul", "3x1", "1 row, 2 ms", "tiles of 4 x 4, 1 ms", "2.00"),
    )
