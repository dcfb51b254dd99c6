"""The numbers of NNAPI as its documents define them, and OperandType.

NeuralNetworks.h and types.hal 1.0; the five operations BATCH_TO_SPACE_ND, MEAN, SPACE_TO_BATCH_ND, SQUEEZE
and TRANSPOSE are from types.hal 1.1. What feature levels 29 and 30 added is from NeuralNetworks.h of these
levels.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpunn.types import DType, Quantization, Shape, TensorType

MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES = 128


class FeatureLevelCode(enum.IntEnum):
    """Versions of NNAPI, by the API level of Android that brought them: NNAPI 1.0, 1.1, 1.2 and 1.3."""

    FEATURE_LEVEL_1 = 27
    FEATURE_LEVEL_2 = 28
    FEATURE_LEVEL_3 = 29
    FEATURE_LEVEL_4 = 30


@dataclass(frozen=True, slots=True)
class OperandForm:
    """The properties that all operands of a type share.

    dtype: of the elements; is_tensor: they have dimensions; scale: "over 0", "0 or more" or "0"; zero_points:
    the lowest and the highest one; since: the first feature level that has the type.
    """

    dtype: np.dtype[Any]
    is_tensor: bool = True
    scale: str = "0"
    zero_points: tuple[int, int] = (0, 0)
    since: int = 27

    @property
    def quantised(self) -> bool:
        """Tell whether the elements stand for real numbers by one scale and one zero point."""
        return self.scale == "over 0"


def _scalar(dtype: type[np.generic], since: int = 27) -> OperandForm:
    return OperandForm(np.dtype(dtype), is_tensor=False, since=since)


def _quantised(dtype: type[np.generic], low: int, high: int, since: int) -> OperandForm:
    return OperandForm(np.dtype(dtype), scale="over 0", zero_points=(low, high), since=since)


class OperandCode(enum.IntEnum):
    """Types of operands; a TENSOR_ type has dimensions, the others are scalars.

    Those from BOOL on are there from feature level 29 on, TENSOR_QUANT8_ASYMM_SIGNED from 30 on.
    """

    form: OperandForm  # what holds for all operands of the type

    FLOAT32 = 0
    INT32 = 1
    UINT32 = 2
    TENSOR_FLOAT32 = 3
    TENSOR_INT32 = 4
    TENSOR_QUANT8_ASYMM = 5
    BOOL = 6
    TENSOR_FLOAT16 = 8
    FLOAT16 = 10
    TENSOR_QUANT8_SYMM_PER_CHANNEL = 11
    TENSOR_QUANT8_SYMM = 13
    TENSOR_QUANT8_ASYMM_SIGNED = 14

    @property
    def is_tensor(self) -> bool:
        """Tell whether operands of this type have dimensions."""
        return self.form.is_tensor

    @property
    def numpy(self) -> np.dtype[Any]:
        """Return the numpy dtype of the elements."""
        return self.form.dtype


_FORMS: dict[OperandCode, OperandForm] = {
    OperandCode.FLOAT32: _scalar(np.float32),
    OperandCode.INT32: _scalar(np.int32),
    OperandCode.UINT32: _scalar(np.uint32),
    OperandCode.TENSOR_FLOAT32: OperandForm(np.dtype(np.float32)),
    OperandCode.TENSOR_INT32: OperandForm(np.dtype(np.int32), scale="0 or more"),
    OperandCode.TENSOR_QUANT8_ASYMM: _quantised(np.uint8, 0, 255, 27),
    OperandCode.BOOL: _scalar(np.bool_, 29),
    OperandCode.TENSOR_FLOAT16: OperandForm(np.dtype(np.float16), since=29),
    OperandCode.FLOAT16: _scalar(np.float16, 29),
    OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL: OperandForm(np.dtype(np.int8), since=29),
    OperandCode.TENSOR_QUANT8_SYMM: _quantised(np.int8, 0, 0, 29),
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: _quantised(np.int8, -128, 127, 30),
}
for _code, _form in _FORMS.items():
    _code.form = _form


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
    """The last input of LSH_PROJECTION.

    From feature level 29 on the documents call 1 SPARSE_DEPRECATED, and 3, which adds an offset to each
    signature, SPARSE.
    """

    SPARSE = 1
    DENSE = 2
    SPARSE_WITH_OFFSET = 3


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
class SymmPerChannelQuantParams:
    """Scales of a TENSOR_QUANT8_SYMM_PER_CHANNEL, one for each index along dimension `channel_dim`."""

    channel_dim: int
    scales: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class OperandType:
    """The type of an operand: ANeuralNetworksOperandType.

    dimensions: none for a scalar; 0 if the size is given at execution. For a tensor at least one; from
    feature level 29 on none says that the rank is given at execution, too. scale, zero_point: for
    TENSOR_QUANT8_ASYMM, TENSOR_QUANT8_ASYMM_SIGNED and TENSOR_QUANT8_SYMM, real = scale * (stored -
    zero_point); the scale also for a TENSOR_INT32 that is a bias; else 0. channels: scales of a
    TENSOR_QUANT8_SYMM_PER_CHANNEL, which Model.set_operand_symm_per_channel_quant_params() gives as well. A
    plain record: Model.add_operand checks it.
    """

    type: OperandCode
    dimensions: Shape = ()
    scale: float = 0.0
    zero_point: int = 0
    channels: SymmPerChannelQuantParams | None = None

    @property
    def ranked(self) -> bool:
        """Tell whether the number of dimensions is known."""
        return bool(self.dimensions) or not self.type.is_tensor

    @property
    def specified(self) -> bool:
        """Tell whether all dimensions are known."""
        return self.ranked and 0 not in self.dimensions

    @property
    def nbytes(self) -> int:
        """Return the bytes of a value; 0 if a dimension is unspecified."""
        return math.prod(self.dimensions) * self.type.numpy.itemsize if self.ranked else 0

    @property
    def quantization(self) -> Quantization | None:
        """Return scale and zero point in gpunn's form; None if the type has none."""
        if self.channels is not None:
            scales = tuple(float(np.float32(scale)) for scale in self.channels.scales)
            return Quantization(scales, (0,) * len(scales), self.channels.channel_dim)
        if self.type.form.quantised or (self.type.is_tensor and self.scale):
            return Quantization((float(np.float32(self.scale)),), (self.zero_point,))  # a C float
        return None

    @property
    def tensor(self) -> TensorType:
        """Return the type in gpunn's form, for a tensor with specified dimensions."""
        return TensorType(DType.of(self.type.numpy), self.dimensions, self.quantization)

    def __str__(self) -> str:
        scale = f" (scale {self.scale:g}, zero point {self.zero_point})" if self.scale else ""
        if self.channels is not None:
            scale = f" ({len(self.channels.scales)} scales along dimension {self.channels.channel_dim})"
        if not self.ranked:
            return f"{self.type.name} of any rank{scale}"
        return f"{self.type.name}{list(self.dimensions) if self.type.is_tensor else ''}{scale}"
