"""The ncnn writer: its files and, if ncnn is installed, ncnn's results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.bench.job import Job
from gpunn.bench.measure import error_of
from gpunn.bench.peers import PEERS
from gpunn.bench.peers.ncnn_builder import Layer
from gpunn.bench.peers.ncnn_model import as_ncnn, from_ncnn, with_splits, write
from gpunn.comparison.inputs import random_source
from gpunn.types import Array, float32

TOLERANCE = 1e-5  # of the output's range; both sum in float32, in different orders


class Builder:
    """A small model with random weights."""

    def __init__(self, *shape: int) -> None:
        self.model = gpunn.Model("built")
        self.x = self.model.input("x", float32(*shape))
        self._random = np.random.default_rng(1)

    def weight(self, *shape: int) -> gpunn.Operand:
        """A constant."""
        return self.model.constant("w", self._random.normal(size=shape).astype(np.float32))

    def add(self, op: str, *inputs: gpunn.Operand, **attrs: Any) -> gpunn.Operand:
        """Append an operation."""
        (result,) = self.model.add(op, inputs, attrs)
        return result

    def conv(self, x: gpunn.Operand, channels: int, size: int = 1, **attrs: Any) -> gpunn.Operand:
        """Append a convolution with bias; `groups` divides the input channels."""
        depth = x.type.shape[3] // attrs.pop("groups", 1)
        filter, bias = self.weight(channels, size, size, depth), self.weight(channels)
        return self.add("conv2d", x, filter, bias, **attrs)

    def done(self, *outputs: gpunn.Operand) -> gpunn.Model:
        """Return the model with these outputs."""
        self.model.output(*outputs)
        return self.model


def _conv(**attrs: Any) -> Callable[[], gpunn.Model]:
    def build() -> gpunn.Model:
        b = Builder(1, 9, 12, 8)
        return b.done(b.conv(b.x, 8, 3, **attrs))

    return build


def _depthwise() -> gpunn.Model:
    b = Builder(1, 9, 12, 6)
    attrs = {"stride": (2, 2), "padding": "same", "activation": "relu6"}
    return b.done(b.add("depthwise_conv2d", b.x, b.weight(1, 3, 5, 6), b.weight(6), **attrs))


def _pool(op: str, **attrs: Any) -> Callable[[], gpunn.Model]:
    def build() -> gpunn.Model:
        b = Builder(1, 8, 11, 5)
        return b.done(b.add(op, b.x, **attrs))

    return build


def _classifier() -> gpunn.Model:
    b = Builder(1, 6, 6, 4)
    pooled = b.add("average_pool2d", b.conv(b.x, 8, activation="relu"), size=(6, 6))
    scores = b.add("reshape", b.conv(pooled, 5, activation="relu1"), shape=(1, 5))
    return b.done(b.add("softmax", scores))


def _valid_to_one_pixel() -> gpunn.Model:
    b = Builder(1, 3, 3, 4)
    return b.done(b.conv(b.conv(b.x, 6, 3), 3))


def _flat_in_order() -> gpunn.Model:
    b = Builder(1, 3, 4, 5)
    flat = b.add("reshape", b.x, shape=(1, 60))
    return b.done(b.add("fully_connected", flat, b.weight(7, 60), b.weight(7), activation="relu"))


def _residual() -> gpunn.Model:
    b = Builder(1, 5, 4, 4)
    y = b.conv(b.x, 4, 3, padding="same")
    total = b.add("add", b.x, y, activation="relu6")
    return b.done(b.add("concat", total, y, b.x, axis=3, activation="tanh"))


def _mean() -> gpunn.Model:
    b = Builder(1, 5, 4, 4)
    padded = b.add("pad", b.x, paddings=((0, 0), (1, 2), (0, 3), (0, 0)), value=0.5)
    return b.done(b.add("mean", b.add("hard_swish", padded), axes=(1, 2)))


def _several_outputs() -> gpunn.Model:
    b = Builder(1, 5, 4, 4)
    y = b.add("softmax", b.conv(b.x, 3))
    return b.done(y, b.add("logistic", y))


MODELS: dict[str, Callable[[], gpunn.Model]] = {
    "conv same stride 2": _conv(stride=(2, 2), padding="same", activation="relu6"),
    "conv valid": _conv(stride=(1, 2), activation="relu"),
    "conv explicit, dilated": _conv(dilation=(2, 1), padding=((2, 0), (1, 3)), activation="hard_swish"),
    "conv of two groups": _conv(groups=2, padding="same"),
    "depthwise": _depthwise,
    "max pool": _pool("max_pool2d", size=(3, 3), stride=(2, 2), padding="same", activation="relu1"),
    "average pool": _pool("average_pool2d", size=(2, 3), stride=(2, 3), padding="same"),
    "average pool valid": _pool("average_pool2d", size=(3, 2), stride=(2, 2)),
    "classifier": _classifier,
    "to one pixel": _valid_to_one_pixel,
    "flat": _flat_in_order,
    "residual": _residual,
    "mean": _mean,
    "several outputs": _several_outputs,
}


def run_ncnn(model: gpunn.Model, inputs: Sequence[Array], folder: Path) -> Sequence[Array]:
    """Return the model's outputs as computed by ncnn on the CPU."""
    pytest.importorskip("ncnn", reason="ncnn is not installed (extra: bench)")
    written = write(model, folder)
    job = Job(
        peer="ncnn",
        model="",
        inputs="",
        answers="",
        threads=1,
        outputs=[(o.type.dtype.value, o.type.shape) for o in model.outputs],
        ncnn_param=str(written.param),
        ncnn_weights=str(written.weights),
        ncnn_inputs=written.inputs,
        ncnn_outputs=written.outputs,
    )
    peer = PEERS["ncnn"].make()
    peer.load(job)
    return peer.restore(peer.call(peer.prepare(inputs)))


@pytest.mark.parametrize("name", MODELS)
def test_ncnn_computes_the_same(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    (sample,) = random_source(model).samples
    inputs = sample.arrays
    with model.compile(backend="cpu") as compiled:
        result = compiled(*inputs)
    expected = result if isinstance(result, tuple) else (result,)
    error = error_of(run_ncnn(model, inputs, tmp_path), expected)
    assert error is not None and error <= TOLERANCE


def test_same_padding_is_written_out(tmp_path: Path) -> None:
    b = Builder(1, 224, 224, 3)
    attrs = {"stride": (2, 2), "padding": "same", "activation": "relu6"}
    written = write(b.done(b.conv(b.x, 8, 3, **attrs)), tmp_path)
    lines = written.param.read_text().split("\n")
    assert lines == [
        "7767517",
        "2 2",
        "Input layer0 0 1 blob0 0=224 1=224 2=3",
        "Convolution layer1 1 1 blob0 blob1 0=8 1=3 2=1 3=2 4=0 5=1 6=216 9=3 -23310=2,0.0,6.0 "
        "11=3 12=1 13=2 14=0 15=1 16=1",
        "",
    ]
    assert (written.inputs, written.outputs) == (("blob0",), ("blob1",))


def test_weights_are_channels_first_after_a_flag(tmp_path: Path) -> None:
    b = Builder(1, 4, 4, 3)
    model = b.done(b.conv(b.x, 2, 2))
    data = write(model, tmp_path).weights.read_bytes()
    _, filter, bias = model.operations[0].inputs
    assert filter is not None and filter.value is not None and bias is not None and bias.value is not None
    assert data == bytes(4) + filter.value.transpose(0, 3, 1, 2).tobytes() + bias.value.tobytes()


def test_blob_with_several_readers_is_split() -> None:
    layers = [
        Layer("Input", (), ("a",)),
        Layer("BinaryOp", ("a", "a"), ("b",)),
        Layer("ReLU", ("b",), ("c",)),
    ]
    split, outputs = with_splits(layers, ["b", "c"])
    assert split == [
        layers[0],
        Layer("Split", ("a",), ("a_1", "a_2")),
        Layer("BinaryOp", ("a_1", "a_2"), ("b",)),
        Layer("Split", ("b",), ("b_1", "b_2")),
        Layer("ReLU", ("b_1",), ("c",)),
    ]
    assert outputs == ("b_2", "c")


@pytest.mark.parametrize("shape", [(1, 3, 4, 5), (1, 1, 1, 6), (1, 7)])
def test_layouts_are_inverse(shape: tuple[int, ...]) -> None:
    value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    assert np.array_equal(from_ncnn(as_ncnn(value), shape), value)


def _transposed() -> gpunn.Model:
    b = Builder(1, 2, 3, 4)
    return b.done(b.add("transpose", b.x, perm=(0, 2, 1, 3)))


def _batch() -> gpunn.Model:
    b = Builder(2, 3, 3, 4)
    return b.done(b.conv(b.x, 4))


def _broadcast() -> gpunn.Model:
    b = Builder(1, 3, 3, 4)
    return b.done(b.add("add", b.x, b.add("mean", b.x, axes=(1, 2), keep_dims=True)))


def _scalar() -> gpunn.Model:
    b = Builder(1, 3, 3, 4)
    return b.done(b.add("mul", b.x, b.weight(4)))


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (_transposed, "this operation is not written"),
        (_batch, r"shape \[2, 3, 3, 4\]"),
        (_broadcast, "broadcasting"),
        (_scalar, "a constant or absent operand"),
    ],
)
def test_unsupported_models_are_refused(
    build: Callable[[], gpunn.Model], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(gpunn.UnsupportedError, match=reason):
        write(build(), tmp_path)
