"""Biases that layers of int16 do not have, though their options state a type: LiteRT rounds sums by it."""

from __future__ import annotations

import numpy as np
import tflite as schema

from gpunn.graph.operation import Lifetime, Operand
from gpunn.importers.tflite.node import Options
from gpunn.types import DType, TensorType

_TYPES = {schema.TensorType.INT32: DType.INT32, schema.TensorType.INT64: DType.INT64}


def with_bias(
    options: Options, x: Operand, filter: Operand, bias: tuple[Operand | None, ...]
) -> tuple[Operand | None, ...]:
    """Return the bias, of zeros if it is absent from a layer of int16 whose options state its type.

    bias: the operator's inputs from it on, if there are any.
    """
    dtype = _TYPES.get(options.get("QuantizedBiasType"))
    if dtype is None or x.type.dtype is not DType.INT16 or any(b is not None for b in bias):
        return bias
    type = TensorType(dtype, filter.type.shape[:1])
    assert options.node.unfold is not None
    options.node.unfold(type.nbytes, options.node.origin)
    return (Operand(f"{filter.name}: bias", type, Lifetime.CONSTANT, np.zeros(type.shape, dtype.numpy)),)
