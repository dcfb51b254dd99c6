"""Layers of int16 without a bias, whose options state a type: their sums round as with a bias of it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from gpunn.model import load
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.quantized import quantized, stored
from tests.tflite_builder import Graph, litert_run

ROWS, DEPTH, CHANNELS = 500, 90, 16
SCALES = tuple(float(np.float32(s)) for s in np.linspace(0.003, 0.019, CHANNELS))


@cache
def made(operator: str, kind: str) -> tuple[bytes, Array, Array]:
    """A file of one layer, values for its input, and LiteRT's answer."""
    window = operator == "TRANSPOSE_CONV"
    shapes = [(1, ROWS, 1, DEPTH), (CHANNELS, 1, 1, DEPTH), (1, ROWS, 1, CHANNELS)]
    shapes = shapes if window else [(ROWS, DEPTH), (CHANNELS, DEPTH), (ROWS, CHANNELS)]
    x, y = quantized(DType.INT16, shapes[0], 0.0004), quantized(DType.INT16, shapes[2], 0.0011)
    weights = TensorType(DType.INT8, shapes[1], Quantization(SCALES, (0,) * CHANNELS, 0))
    values, filter = stored(1, x), stored(2, weights)
    options = {"quantized_bias_type": kind}
    if window:
        options |= {"padding": "VALID", "stride_w": 1, "stride_h": 1}
    graph = Graph()
    numbers = [graph.input(x), graph.tensor(weights, data=filter.tobytes())]
    if window:
        extents = np.array(shapes[2], np.int32)
        numbers = [graph.tensor(TensorType(DType.INT32, (4,)), data=extents.tobytes()), *reversed(numbers)]
    file = graph.build(graph.add(operator, numbers, [y], options, version=2 if window else 4))
    return file, values, litert_run(file, [values])[0]


@pytest.mark.parametrize("kind", ["FLOAT32", "INT32", "INT64"])
@pytest.mark.parametrize("operator", ["FULLY_CONNECTED", "TRANSPOSE_CONV"])
def test_sums_round_as_under_a_bias_of_the_stated_type(operator: str, kind: str, backend: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    file, values, answer = made(operator, kind)
    with load(file).compile(backend=backend) as compiled:
        np.testing.assert_array_equal(compiled(values), answer)
    assert np.any(made(operator, "INT32")[2] != made(operator, "INT64")[2])
