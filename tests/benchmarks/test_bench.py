"""The arithmetic of the benchmarks' tables, and the programs from end to end in their shortest form."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import gpunn
from benchmarks import bench, document, preferences
from benchmarks.group import Result, Spec, environment
from benchmarks.table import Grid, first_ratio, peers_table, ratio
from gpunn import vision


def result(label: str, rounds: list[list[float]], first: list[float]) -> Result:
    """A peer that was measured so."""
    return Result(label, 2, "", "1", "cpu", [0.5], [0.1], first, rounds, [0.004] * len(rounds), 2e-6)


def test_ratio_is_the_median_of_the_rounds_ratios() -> None:
    base = result("base", [[0.010], [0.040], [0.010]], [1.0])
    peer = result("peer", [[0.9, 0.020, 0.021], [0.084], [0.030]], [3.0, 2.0, 2.5])
    assert ratio(peer, base) == pytest.approx(2.1)
    assert first_ratio(peer, base) == pytest.approx(2.5)
    assert ratio(Result("none", 1), base) is None
    assert first_ratio(Result("none", 1), base) is None


def test_table_has_a_column_for_each_peer_and_a_note_for_each_failure() -> None:
    base = result("ncnn", [[0.010], [0.010]], [1.0])
    peer = result("gpunn-cpu", [[0.005, 0.0051], [0.0049, 1.0]], [0.25])
    grid = peers_table([peer, Result("litert", 1, "not installed"), base], ["ncnn", "litert"])
    assert grid.header == ("", "gpunn-cpu", "ncnn")
    assert grid.notes == ("litert: not installed",)
    rows = {row[0]: row[1:] for row in grid.rows}
    assert rows == {
        "threads": ("2", "2"),
        "import s": ("0.50", "0.50"),
        "load s": ("0.10", "0.10"),
        "first answer s": ("0.25", "1.00"),
        "median ms": ("5.05", "10.00"),
        "min ms": ("4.90", "10.00"),
        "CPU ms": ("4.00", "4.00"),
        "time / ncnn": ("25.38", "1.00"),
        "first / ncnn": ("0.25", "1.00"),
        "err": ("2e-06", "2e-06"),
    }


def test_markdown() -> None:
    grid = Grid(("", "a"), (("ms", "1.00"),), ("b: not installed",))
    assert grid.markdown() == "|  | a |\n| --- | ---: |\n| ms | 1.00 |\n\n- b: not installed"


def test_error_is_relative_to_the_range_of_the_worst_output() -> None:
    expected = [np.array([-1.0, 3.0]), np.array([5.0])]
    assert bench.error_of([np.array([-1.0, 3.2]), np.array([5.01])], expected) == pytest.approx(0.05)


def test_error_of_bytes_does_not_wrap() -> None:
    expected = [np.array([0, 255], np.uint8)]
    assert bench.error_of([np.array([51, 255], np.uint8)], expected) == pytest.approx(0.2)


def test_same_peer_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["model.tflite", "--peers", "ncnn", "ncnn"])
    assert "a peer is given twice" in capsys.readouterr().err


def test_spec_may_bring_its_own_threads() -> None:
    assert Spec.parse("litert:1", 4) == Spec("litert:1", "litert", 1)
    assert Spec.parse("ncnn", 4) == Spec("ncnn", "ncnn", 4)
    for wrong in ("nobody", "ncnn:0", "ncnn:many"):
        with pytest.raises(ValueError):
            Spec.parse(wrong, 4)


def test_worker_environment_has_threads_and_a_shader_cache_of_its_own(tmp_path: Path) -> None:
    variables = environment(3, tmp_path)
    assert variables["LP_NUM_THREADS"] == variables["OPENBLAS_NUM_THREADS"] == "3"
    assert Path(variables["MESA_SHADER_CACHE_DIR"]).parent == tmp_path


def test_bench_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = tmp_path / "times.json"
    peers = ["--peers", "gpunn-cpu", "gpunn-webgpu", "--base", "gpunn-cpu", "--device", "no such adapter"]
    short = ["--rounds", "1", "--turn", "0", "--threads", "1", "--markdown", "--json", str(stored)]
    bench.main([str(vision.default_model()), *peers, *short])
    out = capsys.readouterr().out
    assert "|  | gpunn-cpu |\n" in out
    assert "| time / gpunn-cpu | 1.00 |\n" in out
    assert "- gpunn-webgpu: DeviceError: " in out
    cpu, webgpu = json.loads(stored.read_text())["results"]
    assert cpu["version"] == gpunn.__version__
    assert len(cpu["rounds"]) == 1 and len(cpu["rounds"][0]) >= 2
    assert webgpu["failed"] and not webgpu["rounds"]
    if importlib.util.find_spec("ai_edge_litert"):
        assert cpu["error"] < 1e-4


def test_preferences_from_end_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--rounds", "1", "--runs", "1", "--frames", "2", "--backends", "cpu", "--markdown"]
    preferences.main([str(vision.default_model()), *short])
    out = capsys.readouterr().out
    assert "|  | LOW_POWER | FAST_SINGLE_ANSWER | SUSTAINED_SPEED |\n" in out
    assert "| time / FAST_SINGLE_ANSWER | " in out
    assert "host us/dispatch" not in out, "there is no device to dispatch to"


def test_preferences_count_what_a_run_uploads(gpu: str) -> None:
    model = gpunn.load(vision.default_model())
    _, grid = preferences.measure(model, gpu, None, rounds=1, runs=2, frames=2)
    rows = {row[0]: row[1:] for row in grid.rows}
    (x,), (y,) = model.inputs, model.outputs
    assert set(rows["upload bytes/run"]) == {f"{x.type.nbytes:,}"}
    assert set(rows["read-back bytes/run"]) == {f"{y.type.nbytes:,}"}


def test_quotient_is_taken_round_by_round() -> None:
    assert preferences.quotient([2.0, 9.0, 4.0], [1.0, 3.0, 1.0]) == 3.0


def test_document_takes_in_what_its_commands_print(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    page = "Text.\n\n```sh\n{}\n```\n\n<!-- figures -->\n{}<!-- end of figures -->\n\n```sh\nls\n```\n"
    command = "A=1 B=2 python -m \\\n  this"
    path.write_text(page.format(command, "old\n"))
    asked = []

    def run(arguments: list[str], variables: dict[str, str]) -> str:
        asked.append((arguments, variables))
        return "\n- new\n\n"

    document.refresh(path, run)
    assert asked == [(["python", "-m", "this"], {"A": "1", "B": "2"})]
    assert path.read_text() == page.format(command, "- new\n")
    document.refresh(path, run)
    assert path.read_text() == page.format(command, "- new\n")
