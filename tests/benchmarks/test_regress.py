"""The comparison of two commits, in its shortest form, and its verdicts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import regress
from gpunn import vision
from tests.resources import ROOT


def answer(**figures: float | str) -> dict[str, Any]:
    """Make what a worker prints, with some figures of its own."""
    usual = {name: 1.0 for name in regress.FIGURES} | {"uploaded": 0.0}
    return {**usual, "answers": "a", "device": "d", **figures}


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    old = [answer(run_s=1.0), answer(run_s=10.0), answer(run_s=1.0)]
    new = [answer(run_s=1.0), answer(run_s=11.0), answer(run_s=3.0)]
    assert regress.Measured(old, new).ratio("run_s") == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("changed", "over"),
    [
        ({}, []),
        ({"run_s": 1.049}, []),
        ({"run_s": 1.051}, ["run_s"]),
        ({"run_s": 0.5, "dispatches": 2.0}, ["dispatches"]),
        ({"uploaded": 4.0}, ["uploaded"]),
    ],
)
def test_figures_over_the_limit_are_named(changed: dict[str, float], over: list[str]) -> None:
    measured = regress.Measured([answer()], [answer(**changed)])
    assert measured.over(0.05) == over


def test_answers_are_compared_bit_by_bit() -> None:
    assert regress.Measured([answer()], [answer()]).same_bits
    assert not regress.Measured([answer()], [answer(answers="b")]).same_bits


def test_only_a_second_measurement_condemns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measure(case: regress.Case, trees: object, rounds: int, runs: int) -> regress.Measured:
        asked.append(rounds)
        return regress.Measured([answer()], [answer(run_s=2.0 if len(asked) == 1 else 1.0)])

    monkeypatch.setattr(regress, "measure", measure)
    case = next(regress.cases(regress.parser().parse_args(["HEAD", "--backends", "cpu"])))
    assert regress.judged(case, [], 3, 1, 0.05).over(0.05) == []
    assert asked == [3, 6]


def test_two_trees_from_end_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--rounds", "1", "--runs", "1", "--backends", "cpu", "--batch", "2", "--limit", "10000"]
    regress.main([str(ROOT), *short, "--markdown"])
    out = capsys.readouterr().out
    assert "- answers: the same bits\n" in out
    assert "cifar10_mobilenet.tflite, cpu, FAST_SINGLE_ANSWER, batch 2; 1 round;" in out
    assert "\n| first answer s | " in out and "dispatches |" not in out, "the CPU has no dispatches"


def test_failures_end_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="'nothing-like-it' is neither a folder with gpunn nor a commit"):
        regress.main(["nothing-like-it"])
    broken = tmp_path / "gpunn"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('broken on purpose')\n")
    with pytest.raises(SystemExit, match="broken on purpose"):
        regress.main([str(tmp_path), "--rounds", "1", "--backends", "cpu"])
    with pytest.raises(SystemExit, match=r"^2$"):
        regress.main([str(ROOT), "--batch", "0"])


def test_a_worker_measures_the_gpunn_that_it_is_asked_for(tmp_path: Path) -> None:
    task = tmp_path / "task.json"
    task.write_text(json.dumps({"tree": str(tmp_path), "model": str(vision.default_model())}))
    done = subprocess.run([sys.executable, str(regress.WORKER), str(task)], capture_output=True, text=True)
    assert done.returncode and f"not of {tmp_path}" in done.stderr
