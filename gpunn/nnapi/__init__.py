"""NeuralNetworks.h in Python: Model, Compilation, Execution, Event, Memory, and their types and codes.

    model = Model()
    x = model.add_operand(OperandType(OperandCode.TENSOR_FLOAT32, (1, 4)))
    y = model.add_operand(OperandType(OperandCode.TENSOR_FLOAT32, (1, 4)))
    model.add_operation(OperationCode.RELU, [x], [y])
    model.identify_inputs_and_outputs([x], [y])
    model.finish()
    compilation = Compilation(model)
    compilation.finish()
    execution = Execution(compilation)
    execution.set_input(0, np.array([[-1, 0, 1, 2]], np.float32))
    execution.set_output(0, result := np.empty((1, 4), np.float32))
    execution.start_compute().wait()

If a call of the documents returns a ResultCode other than NO_ERROR, its method raises NnapiError with that
code. Constructors replace the calls that create, and garbage collection those that free. Documents:
NeuralNetworks.h, types.hal 1.0; for later feature levels NeuralNetworks.h of level 30.
"""

from gpunn.errors import NnapiError, ResultCode
from gpunn.importers.nnapi.codes import (
    MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES,
    DeviceStatus,
    FeatureLevelCode,
    FuseCode,
    LSHProjectionType,
    OperandCode,
    OperandLifeTime,
    OperandType,
    OperationCode,
    PaddingCode,
    PreferenceCode,
    SymmPerChannelQuantParams,
)
from gpunn.nnapi.compilation import Compilation
from gpunn.nnapi.device import Support, get_capabilities, get_status, get_supported_operations
from gpunn.nnapi.execution import Event, Execution
from gpunn.nnapi.listing import from_model
from gpunn.nnapi.memory import PROT_NONE, PROT_READ, PROT_WRITE, Memory
from gpunn.nnapi.model import Model
from gpunn.performance import Capabilities, PerformanceInfo

__all__ = [
    "MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES",
    "PROT_NONE",
    "PROT_READ",
    "PROT_WRITE",
    "Capabilities",
    "Compilation",
    "DeviceStatus",
    "Event",
    "Execution",
    "FeatureLevelCode",
    "FuseCode",
    "LSHProjectionType",
    "Memory",
    "Model",
    "NnapiError",
    "OperandCode",
    "OperandLifeTime",
    "OperandType",
    "OperationCode",
    "PaddingCode",
    "PerformanceInfo",
    "PreferenceCode",
    "ResultCode",
    "Support",
    "SymmPerChannelQuantParams",
    "from_model",
    "get_capabilities",
    "get_status",
    "get_supported_operations",
]
