"""The reference workload for comparing devices (types.hal, PerformanceInfo)."""

from __future__ import annotations

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.ops.contraction.conv import conv2d, depthwise_conv2d
from gpunn.ops.op import Op
from gpunn.types import Array, DType, Quantization, Shape, TensorType

_IMAGE = Quantization((0.5,), (128,))
_FILTER = Quantization((0.01,), (128,))
_BIAS = Quantization((0.5 * 0.01,), (0,))


def reference_workload(quantised: bool) -> Graph:
    """Make a small model of three convolutions, one of them depthwise and one pointwise: 60 million products.

    In float32, or quantised to uint8.
    """
    model = Graph("the reference workload")
    x = model.input("x", _tensor((1, 112, 112, 16), _IMAGE if quantised else None))
    y = _layer(model, conv2d, x, (64, 3, 3, 16), 2)
    y = _layer(model, depthwise_conv2d, y, (1, 3, 3, 64), 1)
    model.output(_layer(model, conv2d, y, (128, 1, 1, 64), 1))
    return model


def _tensor(shape: Shape, quantization: Quantization | None) -> TensorType:
    return TensorType(DType.UINT8 if quantization else DType.FLOAT32, shape, quantization)


def _layer(model: Graph, op: Op, x: Operand, filter: Shape, stride: int) -> Operand:
    """Add a convolution with a random filter, padding and a RELU6."""
    quantised = x.type.quantization is not None
    rng = np.random.default_rng(0)
    weights: Array = rng.integers(0, 256, filter).astype(np.uint8)
    assert op.filter is not None and op.filter.output_axis is not None
    bias: Array = np.zeros(filter[op.filter.output_axis], np.int32 if quantised else np.float32)
    if not quantised:
        weights = (weights.astype(np.float32) - 128) / 100
    bias_type = TensorType(DType.INT32, bias.shape, _BIAS) if quantised else None
    operands = [
        x,
        model.constant("filter", weights, _tensor(filter, _FILTER if quantised else None)),
        model.constant("bias", bias, bias_type),
    ]
    attrs = {"stride": (stride, stride), "padding": "same", "activation": "relu6"}
    (y,) = model.add(op, operands, attrs, quantization=[x.type.quantization])
    return y
