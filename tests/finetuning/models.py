"""A small classifier to fine-tune."""

from __future__ import annotations

import numpy as np

from gpunn.types import DType, Quantization, TensorType, float32
from tests.metadata import Scores, metadata
from tests.tflite_builder import Graph


def two_layers(
    *, softmax: bool = True, shared: bool = False, quantised: bool = False, threshold: float | None = None
) -> bytes:
    """A classifier of 6 by 6 pixels with two convolutions, the last one for four classes."""
    g, random = Graph(), np.random.default_rng(0)
    options = {"stride_w": 1, "stride_h": 1, "padding": "VALID"}
    x = g.input(float32(1, 6, 6, 3))
    filter = g.constant(random.normal(size=(4, 3, 3, 3)).astype(np.float32), "first")
    relu = {**options, "fused_activation_function": "RELU"}
    (y,) = g.add("CONV_2D", [x, filter, g.constant(np.zeros(4, np.float32))], [float32(1, 4, 4, 4)], relu)
    values = random.normal(size=(4, 4, 4, 4)).astype(np.float32)
    last = g.constant(values, "last")
    if quantised:
        type = TensorType(DType.INT8, (4, 4, 4, 4), Quantization((0.02,), (0,)))
        last = g.tensor(type, "last", (values / 0.02).astype(np.int8).tobytes())
    bias = g.constant(np.zeros(4, np.float32))
    (y,) = g.add("CONV_2D", [y, last, bias], [float32(1, 1, 1, 4)], options)
    if shared:
        (y,) = g.add("ADD", [y, bias], [float32(1, 1, 1, 4)])
    (y,) = g.add("SQUEEZE", [y], [float32(1, 4)], {"squeeze_dims": (1, 2)})
    if softmax:
        (y,) = g.add("SOFTMAX", [y], [float32(1, 4)], {"beta": 1.0})
    if threshold is None:
        return g.build([y])
    stated = metadata(None, scores=Scores(threshold=threshold))
    return g.build([y], metadata={"TFLITE_METADATA": stated})
