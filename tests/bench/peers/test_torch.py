"""PyTorch as a peer: its precision, and where it puts what a module has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpunn.bench.job import Job
from gpunn.bench.measure import error_of
from gpunn.bench.peers import CHANNELS_LAST, CUDA, FLOAT16, PEERS
from gpunn.bench.peers.onnx_rules import write
from tests.bench.peers.test_ncnn_model import TOLERANCE, Builder

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: bench-torch)")
pytest.importorskip("onnx2torch", reason="onnx2torch is not installed (extra: bench-torch)")


def _loaded(path: Path, *forms: str) -> Any:
    from gpunn.bench.peers.torch import Torch

    b = Builder(1, 6, 6, 5)
    write(b.done(b.add("reshape", b.conv(b.x, 4), shape=(1, 144))), path / "model.onnx")
    peer = Torch(*forms)
    shapes = [("float32", (1, 144))]
    peer.load(Job("torch", "", "", "", 1, shapes, onnx=str(path / "model.onnx"), channels_first=True))
    return peer


def test_float16_is_computed_in_float16(tmp_path: Path) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (1, 6, 6, 5)).astype(np.float32)
    exact, half = _loaded(tmp_path), _loaded(tmp_path, CHANNELS_LAST, FLOAT16)
    expected, found = (peer.restore(peer.call(peer.prepare([x]))) for peer in (exact, half))
    assert found[0].dtype == np.float32
    error = error_of(found, expected)
    assert error is not None and TOLERANCE < error < 0.01, "5 products and a bias, each rounded by 2^-11"


def test_weights_are_placed_and_shapes_stay_on_the_host(tmp_path: Path) -> None:
    module = _loaded(tmp_path, CHANNELS_LAST, FLOAT16)._module
    held = [*module.parameters(), *module.buffers()]
    assert {tensor.dtype for tensor in held} == {torch.float16, torch.int64}
    filters = [tensor for tensor in held if tensor.dim() == 4]
    assert filters and all(f.is_contiguous(memory_format=torch.channels_last) for f in filters)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_there_is_a_reason(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="PyTorch finds no CUDA device"):
        _loaded(tmp_path, CUDA)


def test_all_of_them_are_named_by_their_forms() -> None:
    named = {name: kind.arguments for name, kind in PEERS.items() if name.startswith("torch")}
    assert all((CUDA in forms) == ("-cuda" in name) for name, forms in named.items())
    assert all((FLOAT16 in forms) == name.endswith("-f16") for name, forms in named.items())
