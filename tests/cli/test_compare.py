"""gpunn compare."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from PIL import Image

from gpunn import vision
from gpunn.types import float32
from tests.cli.conftest import Run
from tests.comparison.test_compare import break_depthwise
from tests.importers.coreml import builder
from tests.tflite_builder import single_op

MODEL = vision.default_model()


def test_json_and_table_agree(run: Run, photo: Path, gpu: str) -> None:
    args = ("compare", MODEL, photo, "--per-layer")
    document = run(*args, "--json").json
    assert document["ok"] is True
    assert [side["name"] for side in document["sides"]] == ["cpu64", "webgpu", "cpu"]
    assert document["inputs"]["samples"] == 1
    (answer,) = document["answers"]
    assert answer["guesses"].keys() == {"cpu64", "webgpu", "cpu"}
    outcome = run(*args)
    assert (outcome.code, outcome.err) == (0, "")
    assert "every layer and output is within its tolerance" in outcome.out
    for layer in document["layers"]:
        assert layer["origin"].removeprefix(f"{MODEL.name}: operation ") in outcome.out
    for pair in document["pairs"]:
        assert f"{pair['candidate']} - {pair['reference']}" in outcome.out


@pytest.mark.parametrize("option", [("--mean", "nan"), ("--std", "0"), ("--std", "inf")], ids=" ".join)
@pytest.mark.parametrize("command", ["compare", "profile"])
def test_scales_of_photos_are_checked_without_photos(run: Run, command: str, option: tuple[str, str]) -> None:
    run(command, MODEL, *option).must_fail_with(f"{option[0][2:]} must be finite")


def test_a_wrong_kernel_is_reported(run: Run, monkeypatch: pytest.MonkeyPatch, gpu: str) -> None:
    break_depthwise(monkeypatch)
    outcome = run("compare", MODEL, "--per-layer", "--random", 1, "--backends", "webgpu")
    assert (outcome.code, outcome.err) == (1, "")
    (line,) = (line for line in outcome.out.splitlines() if line.startswith("wrong kernel: "))
    assert "DEPTHWISE_CONV_2D) is wrong on webgpu, isolated: off by up to " in line
    assert "; computed by shaders/depthwise_strip.wgsl" in line
    plain = run("compare", MODEL, "--random", 1, "--backends", "webgpu")
    assert plain.out.splitlines()[-1] == "--per-layer says which layer is wrong"
    assert "is within its tolerance" not in outcome.out
    assert "--per-layer" not in outcome.out


def test_accuracy_with_intervals(run: Run, tmp_path: Path) -> None:
    labels = ("cat", "dog", "ship", "frog")
    for number, name in enumerate(labels):
        Image.new("RGB", (32, 32), (60 * number, 0, 0)).save(tmp_path / f"{name}_0.png")
    args = ("compare", MODEL, "--truth", tmp_path, "--backends", "cpu")
    document = run(*args, "--json").json
    for row in document["accuracy"]:
        assert row["top1"]["count"] == 4
        assert row["top1"]["low"] <= row["top1"]["value"] <= row["top1"]["high"]
    assert [row["backend"] for row in document["accuracy"]] == ["cpu64", "cpu"]
    assert sorted(answer["truth"] for answer in document["answers"]) == sorted(labels)
    shown = run(*args).out
    top1 = document["accuracy"][0]["top1"]
    assert f"({top1['hits']} of 4)" in shown
    assert f"{top1['low']:.1%} to {top1['high']:.1%}" in shown


def test_relaxed_joins_the_backends(run: Run) -> None:
    document = run("compare", MODEL, "--relaxed", "--backends", "cpu", "--random", 1, "--json").json
    assert [side["name"] for side in document["sides"]] == ["cpu64", "cpu", "cpu-relaxed"]


def test_over_the_tolerance(run: Run) -> None:
    outcome = run("compare", MODEL, "--backends", "cpu", "--tolerance", "0", "--random", 1)
    assert (outcome.code, outcome.err) == (1, "")
    assert "output: output 'probabilities'" in outcome.out or "over its tolerance" in outcome.out


def test_the_command_for_a_saved_layer_can_be_pasted(run: Run, tmp_path: Path) -> None:
    case = tmp_path / "a case.npz"
    args = ("compare", MODEL, "--random", 1, "--backends", "cpu", "--save-layer", 1, "--case", case)
    assert f"layer 1 is in {case}: gpunn compare '{case}'" in run(*args).out


def test_saved_layer_runs_by_itself(run: Run, tmp_path: Path) -> None:
    case = tmp_path / "case.npz"
    args = ("compare", MODEL, "--random", 1, "--backends", "cpu", "--save-layer", 1, "--case", case)
    outcome = run(*args)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"layer 1 is in {case}: gpunn compare {case}" in outcome.out
    document = run("compare", case, "--backends", "cpu", "--per-layer", "--json").json
    assert [layer["origin"] for layer in document["layers"]] == [document["model"]]
    run("compare", MODEL, "--case", case).must_fail_with("Give --save-layer too")
    run(*args[:-3], 99, "--case", case).must_fail_with("has layers 0 to")
    run(*args[:-1], tmp_path / "case").must_fail_with("must end in .npz")


def test_another_file_of_the_model(run: Run) -> None:
    args = ("compare", MODEL, "--other", MODEL, "--backends", "cpu", "--random", 1, "--per-layer")
    document = run(*args, "--json").json
    assert [side["name"] for side in document["sides"]] == ["cpu64", "cpu", MODEL.name]
    assert document["layer_pairs"]
    shown = run(*args).out
    for pair in document["layer_pairs"]:
        assert pair["by"] == "name"
        assert pair["name"] in shown


def test_files_without_a_matching_tensor(run: Run, tmp_path: Path) -> None:
    one, two = tmp_path / "sin.tflite", tmp_path / "cos.mlmodel"
    one.write_bytes(single_op("SIN", [float32(3)], [float32(3)]))
    made = builder.model((3,), exact=True)
    builder.layer(made, "cos")
    two.write_bytes(made.SerializeToString())
    args = ("compare", one, "--other", two, "--backends", "cpu", "--tolerance", 3, "--per-layer")
    assert "no tensors of sin.tflite and cos.mlmodel match" in run(*args).out


class Terminal(io.StringIO):
    """A standard error stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_bars_show_on_a_terminal_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    args = ("compare", MODEL, "--backends", "cpu", "--random", 1, "--per-layer")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    run(*args)
    shown = sys.stderr.getvalue()
    assert "inputs" in shown and "layers" in shown
    monkeypatch.setattr(sys, "stderr", Terminal())
    run(*args, "--json")
    assert sys.stderr.getvalue() == ""


def test_report_is_written_besides_the_printed_table(run: Run, photo: Path, tmp_path: Path) -> None:
    args = ("compare", MODEL, photo, "--backends", "cpu", "--per-layer")
    first, second = tmp_path / "first.html", tmp_path / "second.html"
    document = run(*args, "--report", first, "--json").json
    outcome = run(*args, "--report", second)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"report: {second}" in outcome.out
    for path in (first, second):
        page = path.read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>")
        assert all(layer["origin"] in page for layer in document["layers"][-3:])
        assert photo.name in page and "data:image/png;base64," in page


def test_errors(run: Run, tmp_path: Path) -> None:
    run("compare", tmp_path / "none.tflite").must_fail_with("none.tflite")
    run("compare", MODEL, "--backends", "nobody").must_fail_with("there is no backend 'nobody'")
    run("compare", MODEL, "--backends", "cpu64").must_fail_with("nothing to compare")
    run("compare", MODEL, tmp_path / "none.png", "--backends", "cpu").must_fail_with("none.png")
    run("compare", MODEL, tmp_path, "--random", 2).must_fail_with("exclude each other")
    run("compare", MODEL, "--layer-samples", 2).must_fail_with("layers are compared with --per-layer")


def test_a_device_stands_for_webgpu(run: Run, gpu: str) -> None:
    args = ("compare", MODEL, "--random", 1, "--backends", "webgpu-relaxed,cpu", "--device", "0")
    names = [side["name"] for side in run(*args, "--json").json["sides"]]
    assert names == ["cpu64", "0-relaxed", "cpu"]
    run(*args[:-1], "nobody").must_fail_with("there is no backend 'nobody-relaxed'")
