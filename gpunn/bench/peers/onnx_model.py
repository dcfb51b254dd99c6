"""A writer of a gpunn Graph as an ONNX file: other libraries run the same model with the same weights.

Convolutions and pools of ONNX have channels first, and execution providers are made for that: each tensor of
rank 4, [N, H, W, C], is [N, C, H, W] in the file, inputs and outputs, too. All others are as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from gpunn.errors import UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.types import Array, DType, Shape

CHANNELS_FIRST = (0, 3, 1, 2)  # the axes of NHWC in the order of NCHW
_CHANNELS_LAST = (0, 2, 3, 1)
_VERSION, _OPERATORS = 8, 16  # of the file format, and of the operators: what onnx2torch 1.5 knows

_ACTIVATIONS: dict[str, tuple[str, tuple[float, ...]]] = {
    "relu": ("Relu", ()),
    "relu1": ("Clip", (-1.0, 1.0)),
    "relu6": ("Clip", (0.0, 6.0)),
    "logistic": ("Sigmoid", ()),
    "tanh": ("Tanh", ()),
    "hard_swish": ("HardSwish", ()),
}
ACTIVATIONS = tuple(_ACTIVATIONS)


class OnnxBuilder:
    """A builder of an ONNX graph; `origin` names the operation that is being written."""

    def __init__(self, model: Graph) -> None:
        """Begin with the inputs. Raises UnsupportedError if the package onnx is not installed."""
        try:
            import onnx
        except ImportError:
            raise UnsupportedError("needs an ONNX file of the same network, or the package onnx") from None
        self._onnx = onnx
        self.origin = model.name
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._names: dict[Operand, str] = {o: f"input{k}" for k, o in enumerate(model.inputs)}
        self._inputs = [self._described(name, operand) for operand, name in self._names.items()]

    def refuse(self, what: str) -> NoReturn:
        """Raise UnsupportedError, naming the operation at hand."""
        raise UnsupportedError(f"{self.origin}: {what} is not written for ONNX")

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Append a node and return its result."""
        name = f"tensor{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value: Array) -> str:
        """Add a constant as it is."""
        name = f"constant{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def numbers(self, *values: int) -> str:
        """Add a vector of int64."""
        return self.constant(np.array(values, np.int64))

    def weight(self, operand: Operand | None) -> Array:
        """Return the value of a filter or bias."""
        if operand is None or operand.value is None or operand.value.dtype != np.float32:
            self.refuse("a filter or bias that is no float32 constant")
        return operand.value

    def tensor(self, operand: Operand | None, rank: int | None = None) -> str:
        """Return an operand as the file has it; a constant with axes of extent 1 in front, up to a rank."""
        if operand is None or operand.type.dtype is not DType.FLOAT32:
            self.refuse("an absent operand, or one that is not float32,")
        if operand in self._names:
            if rank not in (None, operand.type.rank):
                self.refuse("broadcasting of tensors of different ranks")
            return self._names[operand]
        if operand.value is None:
            self.refuse("a variable")
        value = operand.value.reshape((1,) * ((rank or 0) - operand.type.rank) + operand.type.shape)
        return self.constant(value.transpose(CHANNELS_FIRST) if value.ndim == 4 else value)

    def ordered(self, operand: Operand | None) -> str:
        """Return an operand with its elements in the model's order."""
        name = self.tensor(operand)
        assert operand is not None
        return name if _same_order(operand.type.shape) else self.node("Transpose", name, perm=_CHANNELS_LAST)

    def reshaped(self, ordered: str, shape: Shape) -> str:
        """Give elements in the model's order a shape of the model; return the tensor as the file has it."""
        if _same_order(shape):
            return self.node("Reshape", ordered, self.numbers(*_in_file(shape)))
        return self.node(
            "Transpose", self.node("Reshape", ordered, self.numbers(*shape)), perm=CHANNELS_FIRST
        )

    def activated(self, name: str, activation: str | None) -> str:
        """Append an activation."""
        if activation is None:
            return name
        if activation not in _ACTIVATIONS:
            self.refuse(f"the activation {activation!r}")
        kind, limits = _ACTIVATIONS[activation]
        return self.node(kind, name, *(self.constant(np.array(limit, np.float32)) for limit in limits))

    def result(self, operation: Operation, name: str) -> None:
        """Let a tensor be an operation's result, after its activation if it has one."""
        self._names[operation.outputs[0]] = self.activated(name, operation.attrs.get("activation"))

    def save(self, model: Graph, path: Path) -> None:
        """Write the file."""
        self.origin, helper = model.name, self._onnx.helper
        outputs = []
        for k, operand in enumerate(model.outputs):
            self._nodes.append(helper.make_node("Identity", [self.tensor(operand)], [f"output{k}"]))
            outputs.append(self._described(f"output{k}", operand))
        graph = helper.make_graph(self._nodes, "model", self._inputs, outputs, self._constants)
        operators = [helper.make_opsetid("", _OPERATORS)]
        self._onnx.save(helper.make_model(graph, opset_imports=operators, ir_version=_VERSION), path)

    def _described(self, name: str, operand: Operand) -> Any:
        """Describe an input or output."""
        if operand.type.dtype is not DType.FLOAT32:
            self.refuse(f"an input or output of {operand.type.dtype.value}")
        kind, shape = self._onnx.TensorProto.FLOAT, _in_file(operand.type.shape)
        return self._onnx.helper.make_tensor_value_info(name, kind, shape)


def axis_in_file(axis: int, rank: int) -> int:
    """Return the place in the file of an axis of a tensor, which may be counted from the end."""
    return CHANNELS_FIRST.index(axis % rank) if rank == 4 else axis % rank


def _in_file(shape: Shape) -> Shape:
    return tuple(shape[k] for k in CHANNELS_FIRST) if len(shape) == 4 else shape


def _same_order(shape: Shape) -> bool:
    """Tell whether the elements of a tensor lie in the same order in the file."""
    return len(shape) != 4 or shape[1:3] == (1, 1) or shape[3] == 1
