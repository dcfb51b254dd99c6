"""The reference workload by which devices are compared (types.hal, PerformanceInfo)."""

from __future__ import annotations

import numpy as np

from gpunn.importers.nnapi_codes import FuseCode, OperandCode, OperandType, OperationCode, PaddingCode
from gpunn.nnapi.model import Model
from gpunn.types import Array, Shape

_SCALE, _FILTER_SCALE, _ZERO = 0.5, 0.01, 128


def reference_workload(code: OperandCode) -> Model:
    """A convolution, a depthwise and a pointwise one on a small image, in float32 or 8-bit quantised."""
    builder = _Builder(code)
    x = builder.tensor((1, 96, 96, 16), _SCALE)
    y = builder.layer(OperationCode.CONV_2D, x, (32, 3, 3, 16), 2, (1, 48, 48, 32))
    y = builder.layer(OperationCode.DEPTHWISE_CONV_2D, y, (1, 3, 3, 32), 1, (1, 48, 48, 32))
    y = builder.layer(OperationCode.CONV_2D, y, (64, 1, 1, 32), 1, (1, 48, 48, 64))
    builder.model.identify_inputs_and_outputs([x], [y])
    builder.model.finish()
    return builder.model


class _Builder:
    """Adds layers with random filters."""

    def __init__(self, code: OperandCode) -> None:
        self.model = Model(f"the reference workload in {code.name}")
        self.code = code
        self.quantised = code is OperandCode.TENSOR_QUANT8_ASYMM
        self.rng = np.random.default_rng(0)

    def tensor(self, shape: Shape, scale: float) -> int:
        """A new tensor of the workload's type."""
        affine = (scale, _ZERO) if self.quantised else ()
        return self.model.add_operand(OperandType(self.code, shape, *affine))

    def layer(self, type: OperationCode, x: int, filter: Shape, stride: int, out: Shape) -> int:
        """A layer with SAME padding and RELU6; returns its output."""
        y = self.tensor(out, _SCALE)
        values = self.rng.integers(0, 256, filter).astype(self.code.numpy)
        multiplier = (1,) if type is OperationCode.DEPTHWISE_CONV_2D else ()
        numbers = (PaddingCode.SAME, stride, stride, *multiplier, FuseCode.RELU6)
        weights = self._constant(self.tensor(filter, _FILTER_SCALE), values)
        self.model.add_operation(type, [x, weights, self._bias(out[3]), *map(self._scalar, numbers)], [y])
        return y

    def _constant(self, index: int, value: Array | int) -> int:
        self.model.set_operand_value(index, value)
        return index

    def _scalar(self, value: int) -> int:
        return self._constant(self.model.add_operand(OperandType(OperandCode.INT32)), value)

    def _bias(self, channels: int) -> int:
        type = OperandType(OperandCode.TENSOR_FLOAT32, (channels,))
        if self.quantised:
            type = OperandType(OperandCode.TENSOR_INT32, (channels,), _SCALE * _FILTER_SCALE)
        return self._constant(self.model.add_operand(type), np.zeros(channels, type.type.numpy))
