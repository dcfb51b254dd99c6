"""gpunn profile."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gpunn import vision
from tests.cli.conftest import Run

MODEL = vision.default_model()


def test_json(run: Run, backend: str) -> None:
    words = ("--backend", backend, "--preference", "low-power")
    document = run("profile", MODEL, *words, "--runs", 2, "--json").json
    assert (document["backend"], document["preference"]) == (backend, "LOW_POWER")
    assert document["rows"][0]["op"] == "conv2d"
    assert document["inputs"].startswith("random, seed 0")
    assert sum(row["seconds"] for row in document["rows"]) == pytest.approx(document["operations_seconds"])


def test_table_and_files(run: Run, gpu: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra: demo)")
    trace, plot = tmp_path / "trace.json", tmp_path / "plot.png"
    outcome = run("profile", MODEL, "--backend", gpu, "--runs", 2, "--trace", trace, "--plot", plot)
    assert (outcome.code, outcome.err) == (0, "")
    for words in (
        "GFLOP/s",
        "conv2d",
        "MFLOP",
        "read back",
        "first run",
        "for all dispatches of a run together",
    ):
        assert words in outcome.out
    assert json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    with Image.open(plot) as drawn:
        assert len(np.unique(np.asarray(drawn.convert("L")))) > 50


def test_a_photo_as_input(run: Run, photo: Path) -> None:
    document = run("profile", MODEL, photo, "--backend", "cpu", "--runs", 2, "--json").json
    assert document["inputs"] == "given"


def test_a_plot_of_another_kind_is_refused_before_anything_is_measured(run: Run, tmp_path: Path) -> None:
    outcome = run("profile", MODEL, "--plot", tmp_path / "plot.bmp", "--trace", tmp_path / "trace.json")
    outcome.must_fail_with(".pdf, .png, .svg")
    assert not list(tmp_path.iterdir())


def test_what_has_no_effect_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no photo")
    run("profile", MODEL, tmp_path).must_fail_with("there is nothing to run the model on: no inputs")
    run("profile", MODEL, "--pixels", "0..1").must_fail_with("for the pixels of photos, and there are no")
    np.save(tmp_path / "x.npy", np.zeros((1, 32, 32, 3), np.float32))
    run("profile", MODEL, tmp_path / "x.npy", "--mean", 5).must_fail_with("there are no photos")
