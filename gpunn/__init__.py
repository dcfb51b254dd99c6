"""gpunn: neural networks on any GPU, through WGSL compute shaders."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from gpunn.backends.base import Stats
from gpunn.backends.webgpu.device import DeviceInfo
from gpunn.comparison import Comparison, compare
from gpunn.compilation.compiler import devices
from gpunn.compilation.runtime import Compilation, Event, Preference
from gpunn.custom import CustomOperator
from gpunn.errors import (
    DeviceError,
    FormatError,
    GpunnError,
    ModelError,
    NnapiError,
    ResultCode,
    UnsupportedError,
)
from gpunn.graph.operation import Operand, Operation
from gpunn.model import Model, load
from gpunn.profiling import Profile, profile
from gpunn.types import DType, Quantization, TensorType
from gpunn.version import __version__ as __version__

if TYPE_CHECKING:
    from gpunn import nnapi

__all__ = [
    "Comparison",
    "Compilation",
    "CustomOperator",
    "DType",
    "DeviceError",
    "DeviceInfo",
    "Event",
    "FormatError",
    "GpunnError",
    "Model",
    "ModelError",
    "NnapiError",
    "Operand",
    "Operation",
    "Preference",
    "Profile",
    "Quantization",
    "ResultCode",
    "Stats",
    "TensorType",
    "UnsupportedError",
    "compare",
    "devices",
    "load",
    "nnapi",
    "profile",
]

if not TYPE_CHECKING:  # to a type checker a module with __getattr__ has every attribute

    def __getattr__(name: str) -> ModuleType:
        """Return gpunn.nnapi, which is imported at its first use: most programs do without it."""
        if name == "nnapi":
            return import_module("gpunn.nnapi")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
