"""gpunn: neural networks on any GPU, through WGSL compute shaders."""

from gpunn.backends.base import Stats
from gpunn.backends.webgpu.device import DeviceInfo
from gpunn.errors import DeviceError, FormatError, GpunnError, ModelError, UnsupportedError
from gpunn.importers import load
from gpunn.model import Model, Operand, Operation
from gpunn.runtime import Compilation, Event, Preference, devices
from gpunn.types import DType, Quantization, TensorType

__version__ = "0.1.0"

__all__ = [
    "Compilation",
    "DType",
    "DeviceError",
    "DeviceInfo",
    "Event",
    "FormatError",
    "GpunnError",
    "Model",
    "ModelError",
    "Operand",
    "Operation",
    "Preference",
    "Quantization",
    "Stats",
    "TensorType",
    "UnsupportedError",
    "devices",
    "load",
]
