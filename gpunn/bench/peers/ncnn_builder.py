"""A builder of ncnn models: layers, blobs and weights.

The numbers of the parameters are those of ncnn's docs/developer-guide/operators.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

import numpy as np

from gpunn.errors import UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.types import Array, DType

Value: TypeAlias = int | float | tuple[float, ...]
Params: TypeAlias = dict[int, Value]

_FLOAT32 = b"\0\0\0\0"  # in front of a filter: what follows is plain float32
_ARRAY = -23300  # the key of an array is this minus the parameter's number
ACTIVATION, ACTIVATION_PARAMS = 9, 10  # the parameters of every layer that can fuse one

_FUSED: dict[str, tuple[int, tuple[float, ...]]] = {
    "relu": (1, ()),
    "relu1": (3, (-1.0, 1.0)),
    "relu6": (3, (0.0, 6.0)),
}
UNARY: dict[str, tuple[str, Params]] = {
    "relu": ("ReLU", {}),
    "relu1": ("Clip", {0: -1.0, 1: 1.0}),
    "relu6": ("Clip", {0: 0.0, 1: 6.0}),
    "logistic": ("Sigmoid", {}),
    "tanh": ("TanH", {}),
    "hard_swish": ("HardSwish", {0: 1 / 6, 1: 0.5}),
}


@dataclass(frozen=True, slots=True)
class Layer:
    """One line of a .param file."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: Params = field(default_factory=dict)

    def line(self, number: int) -> str:
        """Format the layer in ncnn's notation."""
        counts = (str(len(self.inputs)), str(len(self.outputs)))
        params = (_parameter(key, value) for key, value in sorted(self.params.items()))
        return " ".join((self.kind, f"layer{number}", *counts, *self.inputs, *self.outputs, *params))


def _parameter(key: int, value: Value) -> str:
    """Format key=value. ncnn tells floats from integers by the decimal point, which repr() always writes."""
    if isinstance(value, tuple):
        return f"{_ARRAY - key}={len(value)}," + ",".join(repr(float(v)) for v in value)
    return f"{key}={value!r}"


class NcnnBuilder:
    """A builder of ncnn layers and weights; `origin` names the operation that is being written."""

    def __init__(self, model: Graph) -> None:
        self.layers: list[Layer] = []
        self.weights: list[bytes] = []
        self.origin = model.name
        self._blobs: dict[Operand, str] = {}
        for operand in model.inputs:
            if operand.type.dtype is not DType.FLOAT32:
                self.refuse(f"an input of {operand.type.dtype.value}")
            height, width, channels = self.pixels(operand)
            pixel = self.single(operand)
            size: Params = {0: channels} if pixel else {0: width, 1: height, 2: channels}
            self._blobs[operand] = self.append("Input", (), size)
        self.inputs = tuple(self._blobs.values())

    def finish(self, model: Graph) -> tuple[str, ...]:
        """Return the blobs of the model's outputs."""
        self.origin = model.name
        return tuple(self.blob(operand) for operand in model.outputs)

    def refuse(self, what: str) -> NoReturn:
        """Raise UnsupportedError, naming the operation at hand."""
        raise UnsupportedError(f"{self.origin}: {what} is not written for ncnn")

    def tensor(self, operand: Operand | None) -> Operand:
        """Return an operand that must be a computed tensor."""
        if operand is None or operand not in self._blobs:
            self.refuse("a constant or absent operand here")
        return operand

    def blob(self, operand: Operand | None) -> str:
        """Return the blob of a computed tensor."""
        return self._blobs[self.tensor(operand)]

    def constant(self, operand: Operand | None) -> Array:
        """Return the value of a weight."""
        if operand is None or operand.value is None or operand.value.dtype != np.float32:
            self.refuse("a filter or bias that is no float32 constant")
        return operand.value

    def pixels(self, operand: Operand) -> tuple[int, int, int]:
        """Return (height, width, channels) of a tensor; rank 2 is a single pixel."""
        shape = operand.type.shape
        if len(shape) not in (2, 4) or shape[0] != 1:
            self.refuse(f"a tensor of shape {list(shape)}")
        return (shape[1], shape[2], shape[3]) if len(shape) == 4 else (1, 1, shape[1])

    def single(self, operand: Operand) -> bool:
        """Tell whether a tensor is a single pixel, in ncnn a vector."""
        return self.pixels(operand)[:2] == (1, 1)

    def append(self, kind: str, inputs: tuple[str, ...], params: Params) -> str:
        """Append a layer and return its output."""
        blob = f"blob{len(self.layers)}"
        self.layers.append(Layer(kind, inputs, (blob,), params))
        return blob

    def emit(
        self, operation: Operation, kind: str, params: Params, *inputs: str, vector: bool = False
    ) -> None:
        """Append the layer of an operation and the layers that follow it: its activation, Flatten.

        Inputs default to the first operand. The activation is a layer of its own unless `params` fuse it.
        `vector` says that the layer itself makes a vector of a single pixel.
        """
        blob = self.append(kind, inputs or (self.blob(operation.inputs[0]),), params)
        activation = operation.attrs.get("activation")
        if activation is not None and ACTIVATION not in params:
            if activation not in UNARY:
                self.refuse(f"the activation {activation!r}")
            name, numbers = UNARY[activation]
            blob = self.append(name, (blob,), numbers)
        (output,) = operation.outputs
        if self.single(output) and not vector:
            blob = self.append("Flatten", (blob,), {})
        self._blobs[output] = blob

    def alias(self, operation: Operation, blob: str) -> None:
        """Let a blob that exists be an operation's output."""
        self._blobs[operation.outputs[0]] = blob

    def flat(self, operand: Operand) -> str:
        """Return the blob of a computed tensor as a vector in the order of [H, W, C]."""
        blob = self.blob(operand)
        if self.single(operand):
            return blob
        last = self.append("Permute", (blob,), {0: 3})
        return self.append("Flatten", (last,), {})

    def add_weights(self, operation: Operation, filter: Array) -> bool:
        """Append a filter in ncnn's order, and the bias of operand 2; return whether there is a bias."""
        self.weights += [_FLOAT32, np.ascontiguousarray(filter, "<f4").tobytes()]
        biased = len(operation.inputs) > 2 and operation.inputs[2] is not None
        if biased:
            self.weights.append(np.ascontiguousarray(self.constant(operation.inputs[2]), "<f4").tobytes())
        return biased


def fused(operation: Operation) -> Params:
    """Return the parameters that fuse an operation's activation into its layer; none if ncnn cannot."""
    activation = operation.attrs.get("activation")
    if activation not in _FUSED:
        return {}
    number, limits = _FUSED[activation]
    return {ACTIVATION: number, ACTIVATION_PARAMS: limits} if limits else {ACTIVATION: number}
