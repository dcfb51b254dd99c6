"""gpunn: neural networks on any GPU, through WGSL compute shaders.

A module is imported when a public name of it is first asked for: `gpunn --help` needs none, and most programs
do not need all. So `import gpunn` takes hardly any time, and the first use of a name takes it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpunn.garbage import rare_collections as _rare_collections
from gpunn.updating import update_by as _update_by
from gpunn.version import __version__ as __version__

if TYPE_CHECKING:
    from gpunn import nnapi, vision
    from gpunn.backends.adapter import DeviceInfo
    from gpunn.backends.base import DeviceMemory, Stats
    from gpunn.comparison.compare import compare
    from gpunn.comparison.result import Comparison
    from gpunn.compilation.base import Compilation
    from gpunn.compilation.compiler import devices, memory
    from gpunn.compilation.event import Event
    from gpunn.compilation.preference import Preference
    from gpunn.compilation.tune import tune
    from gpunn.custom import CustomOperator
    from gpunn.errors import (
        DeviceError,
        DivergenceError,
        FormatError,
        GpunnError,
        LimitError,
        MissingFileError,
        ModelError,
        ModelFileError,
        NnapiError,
        OutOfMemoryError,
        ResultCode,
        RunCancelledError,
        RunTimeoutError,
        UnsupportedError,
    )
    from gpunn.finetuning.finetune import Finetuned, finetune
    from gpunn.finetuning.progress import Epoch, FinetuneProgress
    from gpunn.graph.operation import Operand, Operation
    from gpunn.limits import Limits
    from gpunn.model import Model, load
    from gpunn.ops.fixed_point.affine import dequantize, quantize
    from gpunn.profiling import Profile, profile
    from gpunn.training.coreml import update
    from gpunn.training.gradients import gradients
    from gpunn.training.optimizers import SGD, Adam
    from gpunn.training.trainer import Progress, Trainer
    from gpunn.tuning.result import Tuning
    from gpunn.types import DType, Quantization, TensorType

__all__ = [
    "SGD",
    "Adam",
    "Comparison",
    "Compilation",
    "CustomOperator",
    "DType",
    "DeviceError",
    "DeviceInfo",
    "DeviceMemory",
    "DivergenceError",
    "Epoch",
    "Event",
    "FinetuneProgress",
    "Finetuned",
    "FormatError",
    "GpunnError",
    "LimitError",
    "Limits",
    "MissingFileError",
    "Model",
    "ModelError",
    "ModelFileError",
    "NnapiError",
    "Operand",
    "Operation",
    "OutOfMemoryError",
    "Preference",
    "Profile",
    "Progress",
    "Quantization",
    "ResultCode",
    "RunCancelledError",
    "RunTimeoutError",
    "Stats",
    "TensorType",
    "Trainer",
    "Tuning",
    "UnsupportedError",
    "compare",
    "dequantize",
    "devices",
    "finetune",
    "gradients",
    "load",
    "memory",
    "nnapi",
    "profile",
    "quantize",
    "tune",
    "update",
    "vision",
]

_MODULES = {  # by the public names that come from them
    "Adam": "gpunn.training.optimizers",
    "Comparison": "gpunn.comparison.result",
    "Compilation": "gpunn.compilation.base",
    "CustomOperator": "gpunn.custom",
    "DType": "gpunn.types",
    "DeviceError": "gpunn.errors",
    "DeviceInfo": "gpunn.backends.adapter",
    "DeviceMemory": "gpunn.backends.base",
    "DivergenceError": "gpunn.errors",
    "Epoch": "gpunn.finetuning.progress",
    "Event": "gpunn.compilation.event",
    "FinetuneProgress": "gpunn.finetuning.progress",
    "Finetuned": "gpunn.finetuning.finetune",
    "FormatError": "gpunn.errors",
    "GpunnError": "gpunn.errors",
    "LimitError": "gpunn.errors",
    "Limits": "gpunn.limits",
    "MissingFileError": "gpunn.errors",
    "Model": "gpunn.model",
    "ModelError": "gpunn.errors",
    "ModelFileError": "gpunn.errors",
    "NnapiError": "gpunn.errors",
    "Operand": "gpunn.graph.operation",
    "Operation": "gpunn.graph.operation",
    "OutOfMemoryError": "gpunn.errors",
    "Preference": "gpunn.compilation.preference",
    "Profile": "gpunn.profiling",
    "Progress": "gpunn.training.trainer",
    "Quantization": "gpunn.types",
    "ResultCode": "gpunn.errors",
    "RunCancelledError": "gpunn.errors",
    "RunTimeoutError": "gpunn.errors",
    "SGD": "gpunn.training.optimizers",
    "Stats": "gpunn.backends.base",
    "TensorType": "gpunn.types",
    "Trainer": "gpunn.training.trainer",
    "Tuning": "gpunn.tuning.result",
    "UnsupportedError": "gpunn.errors",
    "compare": "gpunn.comparison.compare",
    "dequantize": "gpunn.ops.fixed_point.affine",
    "devices": "gpunn.compilation.compiler",
    "finetune": "gpunn.finetuning.finetune",
    "gradients": "gpunn.training.gradients",
    "load": "gpunn.model",
    "memory": "gpunn.compilation.compiler",
    "nnapi": "gpunn.nnapi",
    "profile": "gpunn.profiling",
    "quantize": "gpunn.ops.fixed_point.affine",
    "tune": "gpunn.compilation.tune",
    "update": "gpunn.training.coreml",
    "vision": "gpunn.vision",
}


def _update(*args: Any, **options: Any) -> Model:
    """Call update(), of a module that is imported when a model is first updated."""
    from gpunn.training.coreml import update

    return update(*args, **options)


_update_by(_update)

if not TYPE_CHECKING:  # to a type checker a module with __getattr__ has every attribute

    def __getattr__(name: str) -> object:
        """Return a public name of a module that is imported when it is first asked for."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with _rare_collections():
            module = import_module(_MODULES[name])
        globals()[name] = module if module.__name__ == f"gpunn.{name}" else getattr(module, name)
        return globals()[name]

    def __dir__() -> list[str]:
        """Return all names, also those of modules that have not been imported."""
        return sorted({*globals(), *__all__})
