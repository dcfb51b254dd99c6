"""The benchmark of worker processes runs, and its answers are those of this process."""

from __future__ import annotations

import pytest

from benchmarks import isolation


def test_the_table_has_a_line_for_each_model(
    gpu: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(isolation, "SIZES", (16,))
    monkeypatch.setattr(isolation, "BACKENDS", ("cpu",))
    isolation.main(["--runs", "2", "--markdown"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| cpu | ")]
    assert [line.count("|") for line in lines] == [len(isolation.HEADER) + 1] * 2
