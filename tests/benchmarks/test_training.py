"""The benchmarks of training, in their shortest forms."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks import mnist, training


def figures(heads: tuple[str, ...], text: str, name: str) -> dict[str, str]:
    """Return the figures of the line that begins with a name, by the heads of their columns."""
    lines = text.splitlines()
    assert f"| {' | '.join(heads)} |" in lines
    (found,) = [line.strip("| ").split(" | ") for line in lines if line.startswith(f"| {name} ")]
    return dict(zip(heads, found, strict=True))


def test_steps(gpu: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "BLOCKS", ((64, 2),))
    training.main(["--batch", "2", "--size", "32", "--runs", "1", "--markdown"])
    found = figures(training.HEADS, capsys.readouterr().out, "2 x 32 x 32")
    assert int(found["webgpu CPU ms"].replace(",", "")) > 0
    assert (found["webgpu / torch"] == "-") == (find_spec("torch") is None)


def test_digits(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two bright digits, which are told apart after an epoch."""
    monkeypatch.setattr(mnist, "TESTED", 64)
    labels = np.arange(320) % 2
    images = np.zeros((320, 28, 28), np.uint8)
    images[labels == 0, :14] = images[labels == 1, 14:] = 255
    for name, head, values in (("images-idx3", 16, images), ("labels-idx1", 8, labels.astype(np.uint8))):
        path = tmp_path / f"t10k-{name}-ubyte.gz"
        path.write_bytes(gzip.compress(bytes(head) + values.tobytes()))
    mnist.main([str(tmp_path), "--epochs", "1", "--backend", "cpu", "--markdown"])
    found = figures(mnist.HEADS, capsys.readouterr().out, "SGD, momentum")
    assert found["accuracy"] == "100.0%"
    if find_spec("torch"):
        assert float(found["loss apart"]) < 1e-3
