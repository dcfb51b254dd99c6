"""The ONNX writer: what onnxruntime and PyTorch compute with its files, beside gpunn in numpy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.bench.job import Job
from gpunn.bench.measure import batched, error_of
from gpunn.bench.peers import PEERS
from gpunn.bench.peers.onnx_rules import RULES, write
from gpunn.comparison.inputs import random_source
from tests.bench.peers.test_ncnn_model import TOLERANCE, Builder

Build = Callable[[Builder], gpunn.Operand]


def _same(b: Builder) -> gpunn.Operand:
    """Cubes, whose shape does not tell the order of their axes."""
    return b.conv(b.x, 5, 3, padding="same", activation="relu1")


def _convolutions(b: Builder) -> gpunn.Operand:
    x = b.conv(b.x, 8, 3, stride=(2, 1), padding=((1, 0), (2, 1)), activation="relu6")
    x = b.conv(x, 6, 2, groups=2, dilation=(1, 2))
    depthwise = b.add("depthwise_conv2d", x, b.weight(1, 3, 2, 12), None, padding="same", stride=(1, 2))
    return b.add("depthwise_conv2d", depthwise, b.weight(1, 2, 2, 12), b.weight(12), activation="tanh")


def _pools(b: Builder) -> gpunn.Operand:
    x = b.add("average_pool2d", b.x, size=(3, 2), stride=(1, 2), padding="same")
    x = b.add("max_pool2d", x, size=(2, 3), stride=(2, 1), padding=((1, 0), (1, 1)))
    whole = b.add("average_pool2d", x, size=tuple(x.type.shape[1:3]), activation="relu")
    return b.add("mul", x, whole)


def _arithmetic(b: Builder) -> gpunn.Operand:
    x = b.add("add", b.x, b.weight(5), activation="relu6")
    x = b.add("sub", b.weight(1, 1, 6, 1), x)
    x = b.add("maximum", b.add("mul", x, b.add("logistic", x)), b.weight(1))
    x = b.add("minimum", b.add("div", b.add("hard_swish", x), b.weight(6, 5)), b.x)
    mean = b.add("mean", x, axes=(1, 2), keep_dims=True)
    return b.add("mul", b.add("tanh", x), b.add("relu", mean))


def _placed(b: Builder) -> gpunn.Operand:
    x = b.add("pad", b.x, paddings=((0, 0), (1, 0), (0, 2), (1, 1)), value=0.5)
    x = b.add("concat", b.add("relu1", x), x, axis=3)
    x = b.add("concat", x, x, axis=1)
    x = b.add("softmax", x, axis=2, beta=0.5)
    _, height, width, _ = x.type.shape
    return b.add("resize_nearest", x, size=(2 * height, width * 3))


def _reshaped(b: Builder) -> gpunn.Operand:
    """Elements keep the order of the model."""
    x = b.add("reshape", b.x, shape=(1, 5, 6, 6))
    x = b.add("reshape", b.conv(x, 4), shape=(1, 30, 4))
    x = b.add("softmax", x, axis=-1)
    return b.add("reshape", x, shape=(1, 4, 10, 3))


def _framed(b: Builder) -> gpunn.Operand:
    return b.add("pad", b.x, paddings=((0, 0), (2, 0), (0, 1), (0, 0)))


def _classifier(b: Builder) -> gpunn.Operand:
    rows = b.add("fully_connected", b.x, b.weight(7, 180), b.weight(7), activation="relu")
    pixel = b.add("reshape", rows, shape=(1, 1, 1, 7))
    pixel = b.add("squeeze", b.conv(pixel, 9), axes=(1, 2))
    return b.add("softmax", b.add("fully_connected", pixel, b.weight(4, 9)))


def _mean(b: Builder) -> gpunn.Operand:
    x = b.add("mean", b.x, axes=(1, -2))
    return b.add("add", x, b.add("mean", x, axes=(1,), keep_dims=True))


CASES: tuple[tuple[tuple[int, ...], Build], ...] = (
    ((1, 5, 5, 5), _same),
    ((1, 9, 12, 4), _convolutions),
    ((2, 8, 11, 5), _pools),
    ((2, 4, 6, 5), _arithmetic),
    ((1, 3, 4, 5), _placed),
    ((1, 6, 6, 5), _reshaped),
    ((1, 6, 6, 5), _framed),
    ((1, 6, 6, 5), _classifier),
    ((2, 4, 6, 5), _mean),
)


READERS = (
    "onnxruntime",
    "torch",
    "torch-channels-last",
    "torch-cuda",
    "torch-cuda-channels-last",
    "torch-cuda-graph",
)
NOT_IN_TORCH = {_pools: "AvgPool with non symmetrical padding", _placed: "'value'"}  # for onnx2torch 1.5


def _compare(model: gpunn.Model, path: Path, reader: str) -> None:
    """Compare twice: a CUDA graph is captured first, and replayed then."""
    if PEERS[reader].missing:
        pytest.skip(PEERS[reader].missing)
    (sample,) = random_source(model).samples
    outputs = [("float32", output.type.shape) for output in model.outputs]
    peer = PEERS[reader].make()
    try:
        peer.load(Job(reader, "", "", "", 1, outputs, onnx=str(path), channels_first=True))
    except RuntimeError as error:
        if "no CUDA device" not in str(error):
            raise
        pytest.skip(str(error))
    peer.call(peer.prepare([np.zeros_like(array) for array in sample.arrays]))
    found = peer.restore(peer.call(peer.prepare(sample.arrays)))
    with model.compile("cpu") as compiled:
        expected = compiled(*sample.arrays)
    error = error_of(found, expected if isinstance(expected, tuple) else (expected,))
    assert error is not None and error <= TOLERANCE


@pytest.fixture
def onnx() -> Any:
    return pytest.importorskip("onnx", reason="onnx is not installed (extra: bench)")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("shape", "build"), CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_written_models(shape: tuple[int, ...], build: Build, reader: str, onnx: Any, tmp_path: Path) -> None:
    b = Builder(*shape)
    model = b.done(build(b))
    write(model, tmp_path / "model.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "model.onnx"), full_check=True)
    refused = NOT_IN_TORCH.get(build) if reader.startswith("torch") else None
    with pytest.raises(Exception, match=refused) if refused else nullcontext():
        _compare(model, tmp_path / "model.onnx", reader)


@pytest.mark.parametrize("reader", READERS)
def test_a_batch_of_a_model(reader: str, onnx: Any, tmp_path: Path) -> None:
    b = Builder(1, 6, 6, 5)
    model = batched(b.done(_same(b)), 3)
    write(model, tmp_path / "model.onnx")
    _compare(model, tmp_path / "model.onnx", reader)


def test_every_rule_has_a_case() -> None:
    written = set()
    for shape, build in CASES:
        b = Builder(*shape)
        written |= {operation.op for operation in b.done(build(b)).operations}
    assert set(RULES) - written == {"relu6"}, "which is an activation in the cases"


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda b: b.add("transpose", b.x, perm=(0, 2, 1, 3)), "transpose .*: this operation is not written"),
        (lambda b: b.add("mean", b.x, axes=(1,)), "a mean whose result has axes in another order"),
        (lambda b: b.add("add", b.x, b.add("mean", b.x, axes=(0, 1, 2))), "another order|different ranks"),
        (lambda b: b.add("add", b.x, b.x, activation="relu01"), "the activation 'relu01'"),
    ],
)
def test_refusals(build: Build, reason: str, onnx: Any, tmp_path: Path) -> None:
    b = Builder(1, 4, 6, 5)
    with pytest.raises(gpunn.UnsupportedError, match=reason):
        write(b.done(build(b)), tmp_path / "model.onnx")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    b = Builder(1, 5, 5, 5)
    with pytest.raises(
        gpunn.UnsupportedError, match="needs an ONNX file of the same network, or the package"
    ):
        write(b.done(_same(b)), tmp_path / "model.onnx")
