"""The benchmark of loops, in its shortest form."""

from __future__ import annotations

import pytest

from benchmarks import loops


def test_loops_from_end_to_end(gpu: str, capsys: pytest.CaptureFixture[str]) -> None:
    loops.main(["--steps", "3", "--units", "4", "--runs", "2", "--markdown"])
    lines = capsys.readouterr().out.splitlines()
    assert f"| {' | '.join(loops.HEADS)} |" in lines
    found = [line.split(" | ") for line in lines if line.startswith("| rnn 3 x 28 -> 4 ")]
    assert len(found) == 1
    assert found[0][loops.HEADS.index("submissions")] == "1"
