"""gpunn: neural networks on any GPU, through WGSL compute shaders."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpunn.backends.adapter import DeviceInfo
from gpunn.backends.base import DeviceMemory, Stats
from gpunn.compilation.base import Compilation
from gpunn.compilation.compiler import devices, memory
from gpunn.compilation.event import Event
from gpunn.compilation.preference import Preference
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
    ResultCode,
    RunCancelledError,
    RunTimeoutError,
    UnsupportedError,
)
from gpunn.graph.operation import Operand, Operation
from gpunn.limits import Limits
from gpunn.model import Model, load
from gpunn.model import update_by as _update_by
from gpunn.ops.fixed_point.affine import dequantize, quantize
from gpunn.types import DType, Quantization, TensorType
from gpunn.version import __version__ as __version__

if TYPE_CHECKING:
    from gpunn import nnapi, vision
    from gpunn.comparison.compare import compare
    from gpunn.comparison.result import Comparison
    from gpunn.compilation.tune import tune
    from gpunn.finetuning.finetune import Finetuned, finetune
    from gpunn.finetuning.progress import Epoch, FinetuneProgress
    from gpunn.profiling import Profile, profile
    from gpunn.training.coreml import update
    from gpunn.training.gradients import gradients
    from gpunn.training.optimizers import SGD, Adam
    from gpunn.training.trainer import Progress, Trainer
    from gpunn.tuning.result import Tuning

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

# Modules that most programs do without, by the public names that come from them.
_LATER = {
    "Adam": "gpunn.training.optimizers",
    "Comparison": "gpunn.comparison.result",
    "Epoch": "gpunn.finetuning.progress",
    "FinetuneProgress": "gpunn.finetuning.progress",
    "Finetuned": "gpunn.finetuning.finetune",
    "Profile": "gpunn.profiling",
    "Progress": "gpunn.training.trainer",
    "SGD": "gpunn.training.optimizers",
    "Trainer": "gpunn.training.trainer",
    "Tuning": "gpunn.tuning.result",
    "compare": "gpunn.comparison.compare",
    "finetune": "gpunn.finetuning.finetune",
    "gradients": "gpunn.training.gradients",
    "nnapi": "gpunn.nnapi",
    "profile": "gpunn.profiling",
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
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(_LATER[name])
        globals()[name] = module if module.__name__ == f"gpunn.{name}" else getattr(module, name)
        return globals()[name]
