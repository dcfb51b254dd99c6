"""What a TFLite rule works on, a Node (an operator with operands and options), and what it answers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import tflite as schema

from gpunn.errors import FormatError
from gpunn.graph.operation import Lifetime, Operand
from gpunn.importers.tflite.file import CORRUPT, MAX_NAME
from gpunn.importers.tflite.subgraph import FileGraph
from gpunn.ops.op import Op
from gpunn.types import Array, DType, Quantization, TensorType

# A table without a single field: every getter answers with the schema's default.
_EMPTY_TABLE = struct.pack("<HHi", 4, 4, 4), 4
_FLOAT_BYTES = 32  # of one in a tuple
MAX_INTS = 64  # axes, extents or indices in one list: well over any rank
ACTIVATIONS = {
    schema.ActivationFunctionType.RELU: "relu",
    schema.ActivationFunctionType.RELU_N1_TO_1: "relu1",
    schema.ActivationFunctionType.RELU6: "relu6",
    schema.ActivationFunctionType.SIGN_BIT: "sign_bit",
    schema.ActivationFunctionType.TANH: "tanh",
}


class RefusedError(Exception):
    """A rule's answer that its operator is well-formed but cannot be expressed; the text is the reason."""


class ComputedError(RefusedError):
    """A rule's answer that it needs the value of an operand, which is computed at run time."""

    def __init__(self, reason: str, operand: Operand) -> None:
        super().__init__(reason)
        self.operand = operand


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of a file, as its rule sees it.

    `outputs` and `intermediates` are the types that the file states; `graphs` gives its subgraphs, `unfold`
    refuses what unfolds to too many bytes.
    """

    origin: str
    inputs: tuple[Operand | None, ...]
    options_type: str = ""
    options_table: tuple[bytes, int] | None = None
    outputs: tuple[TensorType | None, ...] = ()
    custom_options: bytes = b""
    intermediates: tuple[TensorType | None, ...] = ()
    graphs: Callable[[int], FileGraph] | None = None
    unfold: Callable[[int, str], None] | None = None

    def corrupt(self, what: str) -> NoReturn:
        """Raise FormatError naming this operator."""
        raise FormatError(f"{self.origin}: {what}")

    def subgraph(self, index: int) -> FileGraph:
        """A subgraph that the options name. Raises FormatError where that leads back here, or too deep."""
        assert self.graphs is not None
        return self.graphs(index)

    def operand(self, index: int) -> Operand:
        """Input `index`, which must be there."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            self.corrupt(f"input {index} is missing, got {len(self.inputs)} inputs")
        return found

    def options(self, name: str) -> Options:
        """The operator's option table, which must be of the named type; absent, it is all defaults."""
        if self.options_type not in ("", name):
            self.corrupt(f"expected the option table {name}, got {self.options_type}")
        table = getattr(schema, name)()
        data, position = self.options_table if self.options_type and self.options_table else _EMPTY_TABLE
        table.Init(data, position)
        return Options(self, table)

    def constant(self, index: int, what: str, *dtypes: str) -> Array:
        """The value of input `index`, which must be known now."""
        operand = self.operand(index)
        if operand.type.dtype.value not in dtypes:
            self.corrupt(f"the {what} should be {' or '.join(dtypes)}, got {operand.type.dtype.value}")
        if operand.value is None:
            raise ComputedError(f"the {what} are computed at run time", operand)
        return operand.value

    @property
    def known(self) -> bool:
        """Whether all inputs are constants."""
        return all(o is None or o.value is not None for o in self.inputs)

    def ints(self, index: int, what: str, count: int | None = None) -> tuple[int, ...]:
        """The integers of constant input `index`; a scalar counts as one."""
        type = self.operand(index).type
        expected = MAX_INTS if count is None else count
        if type.rank > 1 or type.size > expected or (count is not None and type.size != count):
            self.corrupt(f"expected {'at most ' if count is None else ''}{expected} {what}, got {type.size}")
        return tuple(int(v) for v in self.constant(index, what, "int32", "int64").reshape(-1))


@dataclass(frozen=True, slots=True)
class Options:
    """An option table read with bounds."""

    node: Node
    table: Any

    def get(self, name: str) -> Any:
        """A scalar field, by the schema class's name for it."""
        try:
            return getattr(self.table, name)()
        except CORRUPT as error:
            self.node.corrupt(f"option {name} cannot be read ({error})")

    def name(self, field: int) -> bytes:
        """A short string, by the number of its field; empty where there is none."""
        table = self.table._tab
        try:
            place = table.Offset(4 + 2 * field)
            length = table.VectorLen(place) if place else 0
            found = table.String(table.Pos + place) if 0 < length <= MAX_NAME else b""
        except CORRUPT as error:
            self.node.corrupt(f"option {field} cannot be read ({error})")
        if length > MAX_NAME:
            self.node.corrupt(f"option {field} has {length} bytes, at most {MAX_NAME} make a name")
        return bytes(found)

    def ints(self, name: str) -> tuple[int, ...]:
        """A vector of integers."""
        count = self.get(f"{name}Length")
        if count > MAX_INTS:
            self.node.corrupt(f"option {name} has {count} entries, at most {MAX_INTS} make sense")
        return tuple(int(v) for v in self.get(f"{name}AsNumpy")) if count else ()

    def floats(self, name: str) -> tuple[float, ...]:
        """A vector of numbers, as long as the file has room for, which counts as unfolded."""
        assert self.node.unfold is not None
        count = self.get(f"{name}Length")
        if 4 * count > len(self.table._tab.Bytes):
            self.node.corrupt(f"option {name} has {count} entries, more than the file")
        self.node.unfold(_FLOAT_BYTES * count, self.node.origin)  # operators may share a vector
        return tuple(self.get(f"{name}AsNumpy").tolist()) if count else ()

    def activation(self) -> dict[str, str]:
        """The fused activation as an attribute, none if there is none (enum ActivationFunctionType)."""
        number = self.get("FusedActivationFunction")
        if number == schema.ActivationFunctionType.NONE:
            return {}
        if number not in ACTIVATIONS:
            self.node.corrupt(f"there is no fused activation number {number}")
        return {"activation": ACTIVATIONS[number]}


@dataclass(frozen=True, slots=True)
class Step:
    """An op to add, one of gpunn's by name; PREVIOUS among the inputs is the result of the step before."""

    op: str | Op
    inputs: tuple[Operand | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """A result of a layer of a Network, both by number."""

    layer: int
    index: int = 0


Value = Operand | Result | None


@dataclass(frozen=True, slots=True)
class Layer:
    """A step in a Network, which may take any result of the layers before.

    `quantization` is what the results shall have, where that does not follow from the inputs.
    """

    op: str
    inputs: tuple[Value, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    quantization: tuple[Quantization | None, ...] = ()

    def on(self, results: Sequence[tuple[Operand, ...]]) -> Step:
        """The step, given the results of the layers before."""
        found = (results[i.layer][i.index] if isinstance(i, Result) else i for i in self.inputs)
        return Step(self.op, tuple(found), self.attrs)


@dataclass(frozen=True, slots=True)
class Network:
    """A rule's answer of several ops.

    `outputs` are the operator's; `states` say which of its inputs it overwrites, by position, and with what.
    """

    layers: Sequence[Layer]
    outputs: tuple[Result, ...]
    states: Mapping[int, Result] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """A rule's answer that the results are constants, which follow from the types of the inputs."""

    value: Array
    more: tuple[Array, ...] = ()

    @property
    def values(self) -> tuple[Array, ...]:
        """All of them."""
        return self.value, *self.more


def constant(name: str, value: Array) -> Operand:
    """A constant that a rule brings, unquantised."""
    return Operand(name, TensorType(DType.of(value.dtype), value.shape), Lifetime.CONSTANT, value)


def symmetric(filter: Operand) -> Operand:
    """A quantised constant as operators on reals read it: they take uint8 without zero point for int8.

    The converters of 2018 labelled weights like that; TFLite's hybrid kernels take both for the same.
    """
    quantization = filter.type.quantization
    if filter.value is None or filter.type.dtype is not DType.UINT8 or quantization is None:
        return filter
    if any(quantization.zero_point):
        return filter
    type = TensorType(DType.INT8, filter.type.shape, quantization)
    return replace(filter, type=type, value=filter.value.view(np.int8))


@dataclass(frozen=True, slots=True)
class Computed:
    """A rule's answer that the shapes of its results depend on values: the host computes these of `inputs`.

    What `function` raises as a RefusedError or a FormatError is the fault of the values.
    """

    inputs: tuple[Operand, ...]
    function: Callable[..., tuple[Array, ...]]


def when_known(rule: Callable[[Node], Known | Computed], node: Node) -> Computed:
    """What a rule that works on constants would answer if it knew all inputs of its operator."""
    open = tuple(dict.fromkeys(o for o in node.inputs if o is not None and o.value is None))

    def function(*values: Array) -> tuple[Array, ...]:
        known = {o: replace(o, value=v) for o, v in zip(open, values, strict=True)}
        answer = rule(replace(node, inputs=tuple(o and known.get(o, o) for o in node.inputs)))
        assert isinstance(answer, Known)
        return answer.values

    return Computed(open, function)


def is_short(type: TensorType) -> bool:
    """Whether a tensor may be a shape, or indices into one."""
    return type.dtype in (DType.INT32, DType.INT64) and type.quantization is None and type.size <= MAX_INTS


PREVIOUS = None  # only ever the first input, which is never optional
