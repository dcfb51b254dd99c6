"""The numbers of NNAPI as its documents define them, and OperandType.

NeuralNetworks.h and types.hal 1.0; the five operations BATCH_TO_SPACE_ND, MEAN, SPACE_TO_BATCH_ND, SQUEEZE
and TRANSPOSE are from types.hal 1.1.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpunn.types import DType, Quantization, Shape, TensorType

MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES = 128


class OperandCode(enum.IntEnum):
    """Types of operands; a TENSOR_ type has dimensions, the others are scalars."""

    FLOAT32 = 0
    INT32 = 1
    UINT32 = 2
    TENSOR_FLOAT32 = 3
    TENSOR_INT32 = 4
    TENSOR_QUANT8_ASYMM = 5

    @property
    def is_tensor(self) -> bool:
        """Tell whether operands of this type have dimensions."""
        return self >= OperandCode.TENSOR_FLOAT32

    @property
    def numpy(self) -> np.dtype[Any]:
        """Return the numpy dtype of the elements."""
        return _NUMPY[self]


_NUMPY: dict[OperandCode, np.dtype[Any]] = {
    OperandCode.FLOAT32: np.dtype(np.float32),
    OperandCode.INT32: np.dtype(np.int32),
    OperandCode.UINT32: np.dtype(np.uint32),
    OperandCode.TENSOR_FLOAT32: np.dtype(np.float32),
    OperandCode.TENSOR_INT32: np.dtype(np.int32),
    OperandCode.TENSOR_QUANT8_ASYMM: np.dtype(np.uint8),
}


class OperationCode(enum.IntEnum):
    """Operations: of NNAPI 1.0, from BATCH_TO_SPACE_ND on of 1.1."""

    ADD = 0
    AVERAGE_POOL_2D = 1
    CONCATENATION = 2
    CONV_2D = 3
    DEPTHWISE_CONV_2D = 4
    DEPTH_TO_SPACE = 5
    DEQUANTIZE = 6
    EMBEDDING_LOOKUP = 7
    FLOOR = 8
    FULLY_CONNECTED = 9
    HASHTABLE_LOOKUP = 10
    L2_NORMALIZATION = 11
    L2_POOL_2D = 12
    LOCAL_RESPONSE_NORMALIZATION = 13
    LOGISTIC = 14
    LSH_PROJECTION = 15
    LSTM = 16
    MAX_POOL_2D = 17
    MUL = 18
    RELU = 19
    RELU1 = 20
    RELU6 = 21
    RESHAPE = 22
    RESIZE_BILINEAR = 23
    RNN = 24
    SOFTMAX = 25
    SPACE_TO_DEPTH = 26
    SVDF = 27
    TANH = 28
    BATCH_TO_SPACE_ND = 29
    DIV = 30
    MEAN = 31
    PAD = 32
    SPACE_TO_BATCH_ND = 33
    SQUEEZE = 34
    STRIDED_SLICE = 35
    SUB = 36
    TRANSPOSE = 37


class FuseCode(enum.IntEnum):
    """Fused activation functions."""

    NONE = 0
    RELU = 1
    RELU1 = 2
    RELU6 = 3


class PaddingCode(enum.IntEnum):
    """Implicit padding algorithms."""

    SAME = 1
    VALID = 2


class PreferenceCode(enum.IntEnum):
    """Execution preferences; gpunn.Preference has the same values."""

    LOW_POWER = 0
    FAST_SINGLE_ANSWER = 1
    SUSTAINED_SPEED = 2


class LSHProjectionType(enum.IntEnum):
    """The last input of LSH_PROJECTION."""

    SPARSE = 1
    DENSE = 2


class OperandLifeTime(enum.IntEnum):
    """The use of an operand (types.hal)."""

    TEMPORARY_VARIABLE = 0
    MODEL_INPUT = 1
    MODEL_OUTPUT = 2
    CONSTANT_COPY = 3
    CONSTANT_REFERENCE = 4
    NO_VALUE = 5


class DeviceStatus(enum.IntEnum):
    """Status of a device (types.hal)."""

    AVAILABLE = 0
    BUSY = 1
    OFFLINE = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class OperandType:
    """The type of an operand: ANeuralNetworksOperandType.

    dimensions: none for a scalar, at least one for a tensor; 0 if the size is given at execution. scale,
    zero_point: for TENSOR_QUANT8_ASYMM, real = scale * (stored - zero_point); the scale also for a
    TENSOR_INT32 that is a bias; else 0. A plain record: Model.add_operand checks it.
    """

    type: OperandCode
    dimensions: Shape = ()
    scale: float = 0.0
    zero_point: int = 0

    @property
    def specified(self) -> bool:
        """Tell whether all dimensions are known."""
        return 0 not in self.dimensions

    @property
    def nbytes(self) -> int:
        """Return the bytes of a value; 0 if a dimension is unspecified."""
        return math.prod(self.dimensions) * self.type.numpy.itemsize

    @property
    def quantization(self) -> Quantization | None:
        """Return scale and zero point in gpunn's form; None if the type has none."""
        if self.type is OperandCode.TENSOR_QUANT8_ASYMM or (self.type.is_tensor and self.scale):
            return Quantization((float(np.float32(self.scale)),), (self.zero_point,))  # a C float
        return None

    @property
    def tensor(self) -> TensorType:
        """Return the type in gpunn's form, for a tensor with specified dimensions."""
        return TensorType(DType.of(self.type.numpy), self.dimensions, self.quantization)

    def __str__(self) -> str:
        scale = f" (scale {self.scale:g}, zero point {self.zero_point})" if self.scale else ""
        return f"{self.type.name}{list(self.dimensions) if self.type.is_tensor else ''}{scale}"
