"""Models of signals in the commands: compare, inspect, profile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.importers.tflite.test_signals import FRONT_ENDS, complex64
from tests.tflite_builder import single_op


@pytest.mark.parametrize("name", ["keywords", "mel"])
def test_front_ends_in_the_commands(run: Run, tmp_path: Path, gpu: str, name: str) -> None:
    path = tmp_path / f"{name}.tflite"
    path.write_bytes(FRONT_ENDS[name][0])
    document = run("compare", path, "--per-layer", "--backends", "webgpu,cpu,litert", "--json").json
    assert document["ok"] is True
    assert all(pair["outputs"][0]["metrics"]["snr_db"] > 80 for pair in document["pairs"])
    assert "rfft2d" in run("compare", path, "--per-layer").out
    for command in ("inspect", "profile"):
        outcome = run(command, path)
        assert (outcome.code, outcome.err) == (0, "")
        assert "rfft2d" in outcome.out


def test_complex_inputs_and_outputs_in_the_commands(run: Run, tmp_path: Path, gpu: str) -> None:
    """Errors of complex numbers are those of their parts."""
    path = tmp_path / "product.tflite"
    path.write_bytes(single_op("MUL", [complex64(3, 4), complex64(4)], [complex64(3, 4)]))
    document = run("compare", path, "--per-layer", "--backends", "webgpu,cpu,litert", "--json").json
    assert document["ok"] is True
    (layer,) = document["layers"]
    assert layer["dtype"] == "complex64"
    assert layer["values"]["count"] == 2 * 12
    assert document["pairs"][0]["outputs"][0]["metrics"]["max_abs_error"] < 1e-6
    assert "complex64" in run("inspect", path).out
    assert run("profile", path).code == 0
