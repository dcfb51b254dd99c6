"""Node: an operator of a .tflite file as its rule sees it, with its option table."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import tflite as schema

from gpunn.graph.operation import Operand
from gpunn.importers.common import node as common
from gpunn.importers.tflite.blocks import RowBlocks
from gpunn.importers.tflite.file import CORRUPT, MAX_NAME
from gpunn.importers.tflite.subgraph import FileGraph
from gpunn.types import DType, TensorType

# A table without a single field: every getter answers with the schema's default.
_EMPTY_TABLE = struct.pack("<HHi", 4, 4, 4), 4
_FLOAT_BYTES = 32  # of one in a tuple
ACTIVATIONS = {
    schema.ActivationFunctionType.RELU: "relu",
    schema.ActivationFunctionType.RELU_N1_TO_1: "relu1",
    schema.ActivationFunctionType.RELU6: "relu6",
    schema.ActivationFunctionType.SIGN_BIT: "sign_bit",
    schema.ActivationFunctionType.TANH: "tanh",
}


@dataclass(frozen=True, slots=True)
class Node(common.Node):
    """One operator of a file, as its rule sees it.

    `intermediates` are the types of its intermediate tensors; `graphs` gives its subgraphs, `unfold` refuses
    what unfolds to too many bytes. `version` is the operator's. `blocks`: the inputs in which each block of a
    row has a scale of its own, by position. `warn` notes what the model's user should know of the operator.
    """

    options_type: str = ""
    options_table: tuple[bytes, int] | None = None
    custom_options: bytes = b""
    intermediates: tuple[TensorType | None, ...] = ()
    graphs: Callable[[int], FileGraph] | None = None
    unfold: Callable[[int, str], None] | None = None
    version: int = 1
    blocks: Mapping[int, RowBlocks] = field(default_factory=dict)
    warn: Callable[[str], None] | None = None

    def subgraph(self, index: int) -> FileGraph:
        """Return a subgraph that the options name. Raises FormatError for a circle, and if it is too deep."""
        assert self.graphs is not None
        return self.graphs(index)

    def options(self, name: str) -> Options:
        """Return the operator's option table, which must be of the named type; absent, it is all defaults."""
        if self.options_type not in ("", name):
            self.corrupt(f"expected the option table {name}, got {self.options_type}")
        table = getattr(schema, name)()
        data, position = self.options_table if self.options_type and self.options_table else _EMPTY_TABLE
        table.Init(data, position)
        return Options(self, table)


class Options(NamedTuple):
    """An option table read with bounds."""

    node: Node
    table: Any

    def get(self, name: str) -> Any:
        """Return a scalar field, by the schema class's name for it."""
        try:
            return getattr(self.table, name)()
        except CORRUPT as error:
            self.node.corrupt(f"option {name} cannot be read ({error})")

    def name(self, field: int) -> bytes:
        """Return a short string, by the number of its field; empty if there is none."""
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
        """Return a vector of integers."""
        count = self.get(f"{name}Length")
        if count > common.MAX_INTS:
            self.node.corrupt(f"option {name} has {count} entries, at most {common.MAX_INTS} make sense")
        return tuple(int(v) for v in self.get(f"{name}AsNumpy")) if count else ()

    def floats(self, name: str) -> tuple[float, ...]:
        """Return a vector of numbers, as long as the file has room for, which counts as unfolded."""
        assert self.node.unfold is not None
        count = self.get(f"{name}Length")
        if 4 * count > len(self.table._tab.Bytes):
            self.node.corrupt(f"option {name} has {count} entries, more than the file")
        self.node.unfold(_FLOAT_BYTES * count, self.node.origin)  # operators may share a vector
        return tuple(self.get(f"{name}AsNumpy").tolist()) if count else ()

    def activation(self) -> dict[str, str]:
        """Return the fused activation as an attribute, or no attribute (enum ActivationFunctionType)."""
        number = self.get("FusedActivationFunction")
        if number == schema.ActivationFunctionType.NONE:
            return {}
        if number not in ACTIVATIONS:
            self.node.corrupt(f"there is no fused activation number {number}")
        return {"activation": ACTIVATIONS[number]}


def symmetric(filter: Operand) -> Operand:
    """Return a quantised constant as operators on reals read it: they take uint8 without zero point for int8.

    The converters of 2018 labelled weights like that; TFLite's hybrid kernels take both for the same.
    """
    quantization = filter.type.quantization
    if filter.value is None or filter.type.dtype is not DType.UINT8 or quantization is None:
        return filter
    if any(quantization.zero_point):
        return filter
    type = TensorType(DType.INT8, filter.type.shape, quantization)
    return replace(filter, type=type, value=filter.value.view(np.int8))
