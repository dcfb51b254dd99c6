"""Weights of four and of two bits: LiteRT's results, or near them if LiteRT rounds its input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from gpunn.errors import FormatError, UnsupportedError
from gpunn.model import load
from gpunn.types import Array, DType, Quantization, Shape, TensorType, float32
from tests.ops.harness import random
from tests.ops.quantized import quantized, stored
from tests.tflite_builder import Graph, litert_run

WINDOW = {"stride_w": 1, "stride_h": 1, "padding": "VALID"}
# The shapes of input, weights and result, the weights' axis of channels, options; odd numbers of weights.
LAYERS: dict[str, tuple[Shape, Shape, Shape, int, Mapping[str, Any]]] = {
    "FULLY_CONNECTED": ((3, 7), (5, 7), (3, 5), 0, {}),
    "CONV_2D": ((1, 5, 4, 3), (5, 3, 3, 3), (1, 3, 2, 5), 0, WINDOW),
    "DEPTHWISE_CONV_2D": ((1, 5, 4, 7), (1, 3, 3, 7), (1, 3, 2, 7), 3, {**WINDOW, "depth_multiplier": 1}),
}


def packed(values: Array, bits: int) -> bytes:
    """Return the bytes of integers of `bits` bits each; the first integer is in the lowest bits."""
    digits = "".join(f"{v % 2**bits:0{bits}b}" for v in reversed(values.reshape(-1).tolist()))
    return int(digits, 2).to_bytes(-(-len(digits) // 8), "little")


def single_operator(operator: str, name: str, scales: int, integer: bool) -> tuple[bytes, Array, float]:
    """Return a file of one operator, a sample, and how far reals may be off as LiteRT rounds the sample."""
    x, shape, y, axis, options = LAYERS[operator]
    bits = int(name[-1])
    values = np.random.default_rng(bits).integers(-(2 ** (bits - 1)), 2 ** (bits - 1), shape)
    steps = tuple(float(np.float32(s)) for s in np.linspace(0.03, 0.05, shape[axis])[:scales])
    type = TensorType(DType.INT8, shape, Quantization(steps, (0,) * len(steps), axis))
    graph = Graph()
    kind = quantized(DType.INT8, x, 0.1, 3) if integer else float32(*x)
    weights = graph.tensor(type, data=packed(values, bits), stored_as=name)
    bias = graph.constant(np.zeros(y[-1], np.int32 if integer else np.float32))
    result = quantized(DType.INT8, y, 0.5, -2) if integer else float32(*y)
    file = graph.build(graph.add(operator, [graph.input(kind), weights, bias], [result], options, version=7))
    sample = stored(1, kind) if integer else random(1, *x)
    channels = np.moveaxis(np.abs(values) * 0.05, axis, 0).reshape(y[-1], -1)
    return file, sample, float(channels.sum(axis=1).max() * np.abs(random(1, *x)).max() / 127)


@pytest.mark.parametrize("scales", [1, 9])
@pytest.mark.parametrize(
    ("operator", "name", "integer"),
    [
        *((operator, "INT4", True) for operator in LAYERS),
        ("FULLY_CONNECTED", "INT4", False),
        ("CONV_2D", "INT4", False),
        ("FULLY_CONNECTED", "INT2", True),
        ("FULLY_CONNECTED", "INT2", False),
    ],
)
def test_weights_of_few_bits(operator: str, name: str, integer: bool, scales: int, backend: str) -> None:
    """Other operators are not compared: LiteRT's convolution misreads weights of two bits."""
    file, sample, near = single_operator(operator, name, scales, integer)
    with load(file).compile(backend=backend) as compiled:
        found = compiled(sample)
    answer = litert_run(file, [sample])[0]
    np.testing.assert_allclose(found, answer, rtol=0, atol=0 if integer else near)
    assert np.ptp(answer.astype(np.float64)) > 20 * (0.05 if integer else near)


def test_packed_constants_of_a_wrong_size_are_refused() -> None:
    graph = Graph()
    constant = graph.tensor(TensorType(DType.INT8, (3, 3)), data=bytes(4), stored_as="INT4")
    with pytest.raises(FormatError, match="9 integers of 4 bits do not fill 4 bytes"):
        load(graph.build(graph.add("ABS", [constant], [float32(3, 3)])))


def test_only_constants_may_have_few_bits() -> None:
    type = TensorType(DType.INT8, (2, 2))
    graph = Graph()
    x = graph.tensor(type, stored_as="INT4")
    graph.inputs.append(x)
    with pytest.raises(UnsupportedError, match="is INT4"):
        load(graph.build(graph.add("NEG", [x], [type])))
