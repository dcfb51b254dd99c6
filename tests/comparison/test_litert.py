"""LiteRT as one of the sides."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import gpunn
from gpunn import vision
from tests.importers.tflite.test_resources import using
from tests.resources import shared


def need_litert() -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed (extra: compare)")


@pytest.mark.parametrize("name", ["litert", "litert-ref"])
def test_float_layers_agree(name: str) -> None:
    need_litert()
    found = gpunn.compare(vision.default_model(), 1, [name], per_layer=True)
    assert found.ok
    for layer in found.layers:
        (side,) = layer.sides
        assert side.place == "litert"
        assert side.isolated is not None and side.isolated.ratio < 1
        assert side.accumulated is not None and side.accumulated.ratio < 1
    assert any(
        not layer.sides[0].isolated.metrics.identical for layer in found.layers if layer.sides[0].isolated
    )


def test_quantised_layers_are_equal() -> None:
    need_litert()
    found = gpunn.compare(shared("models/tflite/cifar10_resnet8_int8.tflite"), 2, ["litert"], per_layer=True)
    assert found.ok
    assert found.pairs[0].outputs[0].metrics.max_steps == 0
    for layer in found.layers:
        assert layer.sides[0].isolated is not None and layer.sides[0].isolated.metrics.max_steps == 0


def test_hybrid_layers_are_within_the_rounding_of_activations() -> None:
    """LiteRT rounds activations to 127 steps: far over float32's tolerance, within that of hybrid kernels."""
    need_litert()
    found = gpunn.compare(shared("models/tflite/kws_ref_float.tflite"), 1, ["litert"], per_layer=True)
    assert found.ok
    first = found.layers[0].sides[0].isolated
    assert first is not None
    assert first.metrics.max_abs_error > 1e-3
    assert 0.1 < first.ratio < 1


def test_every_sample_starts_from_the_first_values_of_variables() -> None:
    """LiteRT's own reset of variables leaves out named variables."""
    need_litert()
    assert gpunn.compare(using("orwr"), 3, ["cpu", "litert"]).ok


def test_a_model_has_no_file() -> None:
    with pytest.raises(gpunn.ModelError, match="litert runs files: compare a path"):
        gpunn.compare(gpunn.load(vision.default_model()), 1, ["litert"])


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    with pytest.raises(gpunn.UnsupportedError, match=r"pip install 'gpunn\[compare\]'"):
        gpunn.compare(vision.default_model(), 1, ["litert"])


def test_file_of_another_format(tmp_path: Path) -> None:
    model = gpunn.Model("sum")
    x = model.input("x", gpunn.TensorType(gpunn.DType.FLOAT32, (2,)))
    model.output(*model.add("exp", [x]))
    case = tmp_path / "case.npz"
    gpunn.compare(model, [np.zeros(2, np.float32)], ["cpu"], case=(0, case))
    with pytest.raises(gpunn.UnsupportedError, match=r"litert runs \.tflite files"):
        gpunn.compare(case, backends=["litert"])
