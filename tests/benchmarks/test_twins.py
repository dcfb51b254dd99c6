"""The benchmark of quantised networks beside float32, in its shortest form."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import twins
from gpunn import vision


def test_twins_from_end_to_end(gpu: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain = vision.default_model()
    quantized = next(plain.parent.glob("*_int8.tflite"))
    twins.main([f"{plain}={quantized}", "--rounds", "1", "--markdown"])
    out = capsys.readouterr().out
    assert "- turns: 1 turn of 2 runs" in out
    head, _, row = (line for line in out.splitlines() if line.startswith("| "))
    assert head.startswith("| quantised to float32, CPU time | ")
    name, ratio = row.strip("| ").split(" | ")
    assert name == quantized.stem
    assert 0 < float(ratio) < 100


def test_a_pair_has_two_files(tmp_path: Path) -> None:
    assert twins.files("a.tflite=b.tflite", tmp_path) == (Path("a.tflite"), Path("b.tflite"))


def test_a_driver_has_a_name_and_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        twins.main(["a=b", "--driver", "x"])
    assert "--driver should be NAME=ICD.json[:FOLDER], got x" in capsys.readouterr().err
