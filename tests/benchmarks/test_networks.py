"""Networks with random weights: LiteRT is the oracle of their answers, and they tell classes apart."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import networks
from gpunn.model import load
from gpunn.types import DType
from tests.tflite_builder import litert_run

NAMES = "efficientnet_b0", "mobilenet_v3", "vit_block", "unet", "densenet121", "r3d18"


@pytest.mark.parametrize("name", NAMES)
def test_networks_have_litert_s_answers(name: str, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    networks.main([str(tmp_path), name])
    file = (tmp_path / f"{name}.tflite").read_bytes()
    model = load(file)
    x = np.random.default_rng(1).uniform(-1, 1, model.inputs[0].type.shape).astype(np.float32)
    (expected,) = litert_run(file, [x])
    with model.compile("cpu") as compiled:
        found = compiled(x)
    spread = np.ptp(expected)
    assert spread > 1e-4
    assert spread < 0.999 or name == "vit_block"  # no class is certain
    # A layer adds up to 2,000 terms, each rounded to 2^-24; more than 50 layers hand the errors on.
    assert np.abs(found - expected).max() < 50 * np.sqrt(2000) * 2.0**-24 * spread


def test_int8_networks_have_litert_s_bits(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_quantizer", reason="ai-edge-quantizer is not installed (extra: bench)")
    networks.main([str(tmp_path), "vit_block_int8"])
    file = (tmp_path / "vit_block_int8.tflite").read_bytes()
    model = load(file)
    assert {operation.outputs[0].type.dtype for operation in model.operations} == {DType.INT8}
    x = np.random.default_rng(1).integers(-128, 128, model.inputs[0].type.shape).astype(np.int8)
    with model.compile("cpu") as compiled:
        np.testing.assert_array_equal(compiled(x), litert_run(file, [x])[0])


def test_int8_networks_say_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_quantizer.quantizer", None)
    with pytest.raises(SystemExit, match="NAME_int8 needs ai-edge-quantizer"):
        networks.main([str(tmp_path), "vit_block_int8"])


def test_unknown_names_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        networks.main([str(tmp_path), "resnet51"])
    assert "there is no network resnet51; there are resnet50" in capsys.readouterr().err
