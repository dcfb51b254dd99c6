"""structure(): what a graph is apart from values, so that a program for one graph serves all of its kind."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.types import Array

MAX_CONTENT_BYTES = 1 << 14  # constants up to this size are the same where their bytes are, others by place


class Structure:
    """The result of structure(), for comparisons. Its hash is computed once: a graph may have many
    operations.
    """

    __slots__ = ("_described", "_hash")

    def __init__(self, described: Hashable) -> None:
        self._described = described
        self._hash = hash(described)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and self._described == other._described


@dataclass(frozen=True, slots=True)
class _Identity:
    """An object that equals only itself. It is kept, as another one could come to lie in its place."""

    key: Hashable
    kept: object = field(compare=False)


def structure(graph: Graph, operations: Iterable[Operation] = ()) -> Structure:
    """Return what decides on the program of a graph without pending operations, and on that of `operations`.

    That is the types of its operands, its operations with their attributes, and its constants; not the values
    that operands have in a run. Graphs with the same structure have the same operations in the same order.
    """
    numbers: dict[Operand, int] = {}

    def number(operand: Operand | None) -> Hashable:
        if operand is None:
            return None
        if operand.value is not None:
            return operand.type, _constant(operand.value)
        return numbers.setdefault(operand, len(numbers))

    def described(operation: Operation) -> Hashable:
        op = operation.op if operation.custom is None else _identity(operation.custom)
        inputs = tuple(number(i) for i in operation.inputs)
        outputs = tuple((number(o), o.type, o.name, o.hybrid) for o in operation.outputs)
        return op, operation.origin, inputs, outputs, _attribute(operation.attrs)

    inputs = tuple((number(i), i.type) for i in graph.inputs)
    variables = tuple((number(v), v.type, _constant(value)) for v, value in graph.variables.items())
    found = tuple(described(o) for o in graph.operations)
    outputs = tuple(number(o) for o in graph.outputs)
    updates = tuple((number(v), number(o)) for v, o in graph.updates.items())
    return Structure((inputs, variables, found, outputs, updates, tuple(described(o) for o in operations)))


def _constant(value: Array) -> Hashable:
    if value.nbytes <= MAX_CONTENT_BYTES and not value.dtype.hasobject:
        return value.dtype.str, value.shape, value.tobytes()
    place = value.__array_interface__["data"][0], value.dtype.str, value.shape, value.strides
    return _Identity(place, value)


def _identity(value: object) -> _Identity:
    return _Identity(id(value), value)


def _attribute(value: Any) -> Hashable:
    """Return what to compare an attribute by; an object of an unknown kind equals only itself."""
    if isinstance(value, Mapping):
        return tuple((key, _attribute(v)) for key, v in value.items())
    if isinstance(value, (tuple, list)):
        if value and all(isinstance(v, float) for v in value):  # there may be thousands
            return "floats", np.array(value).tobytes()
        return tuple(map(_attribute, value))
    if isinstance(value, np.ndarray):
        return _constant(value)
    if isinstance(value, float):
        return "float", value.hex()  # which tells -0.0 from 0.0
    if isinstance(value, Graph):
        return structure(value) if not value.pending else _identity(value)
    if isinstance(value, (bool, int, str, bytes, type(None))):
        return type(value).__name__, value
    return _identity(value)
