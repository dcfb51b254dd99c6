"""The tables of docs/accuracy.md, on the smallest possible folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from benchmarks import accuracy
from gpunn import vision
from tests.resources import ROOT

LABELS = "cat\ndog\nship\nfrog\nbird\ndeer\nhorse\ntruck\nairplane\nautomobile\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a folder with one classifier for CIFAR-10 and one for photos, two pictures for each."""
    for name in ("tflite", "images", "labels", "labelled/cifar10", "labelled/mnist"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "labels" / "cifar10.txt").write_text(LABELS)
    for place, names in (("labelled/cifar10", ("cat_0", "dog_0")), ("images", ("a", "b"))):
        for number, name in enumerate(names):
            Image.new("RGB", (32, 32), (200 * number, 90, 9)).save(tmp_path / place / f"{name}.png")
    entry = {
        "inputs": [{"shape": [1, 32, 32, 3]}],
        "preprocessing": {"kind": "image", "mean": 127.5, "std": 127.5},
    }
    models = []
    for name, task in (
        ("a.tflite", "CIFAR-10"),
        ("b.tflite", "classification"),
        ("c.tflite", "segmentation"),
    ):
        models.append({"file": f"tflite/{name}", "task": task, **entry})
    for model in models[:2]:
        shutil.copy(vision.default_model(), tmp_path / str(model["file"]))
    (tmp_path / "MANIFEST.json").write_text(json.dumps({"models": models}))
    return tmp_path


def test_tables(
    folder: Path, gpu: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(accuracy, "BACKENDS", (gpu, "cpu"))
    accuracy.main([str(folder)])
    lines = capsys.readouterr().out.splitlines()
    pairs = [line for line in lines if " - " in line and line.startswith("|")]
    own = vision.default_model().name
    names = [own] * 3 + ["a.tflite"] * 3 + ["b.tflite"] * 3
    assert [line.split(" | ")[0] for line in pairs] == [f"| {name}" for name in names]
    assert all(line.endswith("| 100.0% | 100.0% |") for line in pairs)
    right = [line for line in lines if " to " in line and line.startswith("|")]
    assert [line.split(" | ")[0] for line in right] == [f"| {name}" for name in [own] * 3 + ["a.tflite"] * 3]


def test_page_has_the_figures_of_its_command() -> None:
    page = (ROOT / "docs" / "accuracy.md").read_text()
    assert "python -m benchmarks.accuracy FOLDER" in page
    assert "over it" not in page
    table = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    rows = [row for row in table if len(row) > 2 and " - " in row[2]]
    assert len(rows) > 50
    for row in rows:
        assert row[6] == "100.0%", row
        quantised = "quant" in row[0] or "int8" in row[0] or "ptq" in row[0]
        if quantised and "litert" not in row[2]:
            assert row[3] == "equal to the bit", row
