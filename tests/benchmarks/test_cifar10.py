"""The tables of docs/cifar10.md, on a smallest archive in the form of CIFAR-10's."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks import cifar10
from gpunn import vision
from tests.resources import ROOT

MODELS = [vision.default_model(quantised=quantised).name for quantised in (False, True)]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Write two classes with two test pictures each, and a training picture that is not used."""
    path = tmp_path / "cifar10.tar.gz"
    generator = np.random.default_rng(1)
    with tarfile.open(path, "w:gz") as files:
        for name in ("test/cat/0000", "test/cat/0001", "test/ship/0000", "test/ship/0001", "train/cat/0000"):
            data = io.BytesIO()
            Image.fromarray(generator.integers(0, 256, (32, 32, 3), np.uint8)).save(data, "JPEG")
            entry = tarfile.TarInfo(f"{name}.jpg")
            entry.size = len(data.getvalue())
            files.addfile(entry, io.BytesIO(data.getvalue()))
    return path


def test_tables(
    archive: Path, gpu: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cifar10, "BACKENDS", (gpu, "cpu"))
    cifar10.main([str(archive)])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| cifar")]
    right = [row for row in rows if " to " in row[-1]]
    assert [(row[0], row[1]) for row in right] == [
        (f"| {model}", backend) for model in MODELS for backend in ("cpu64", gpu, "cpu")
    ]
    assert {row[3] for row in right} == {"4"}
    assert [row[3] for row in rows if row[0] == f"| {MODELS[1]}" and row not in right] == [
        "equal to the bit"
    ] * 3


def test_page_has_the_figures_of_its_command() -> None:
    page = (ROOT / "docs" / "cifar10.md").read_text()
    assert "python -m benchmarks.cifar10" in page
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| cifar")]
    right = {(row[0].removeprefix("| "), row[1]): int(row[2]) for row in rows if " to " in row[-1]}
    assert {row[3] for row in rows if " to " in row[-1]} == {"10000"}
    for model in MODELS:
        assert {right[model, backend] for backend in ("cpu64", "cpu")} == {right[model, "webgpu"]}
        assert right[model, "webgpu"] > 8900
    pairs = [row for row in rows if " - " in row[2]]
    assert len(pairs) == 12
    assert all(row[6] == "100.0%" for row in pairs if "litert" not in row[2])
    ours = [row[3] for row in pairs if "int8" in row[0] and "litert" not in row[2]]
    assert ours == ["equal to the bit"] * 3
