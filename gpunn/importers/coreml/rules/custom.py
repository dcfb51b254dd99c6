"""The rule of custom layers: what the user of the library says of their class."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from gpunn.custom import MAX_ENTRIES, MAX_KEY, CustomOperator, Value
from gpunn.errors import FormatError
from gpunn.graph.operation import Operand
from gpunn.importers.common.names import shown
from gpunn.importers.common.node import RefusedError
from gpunn.importers.coreml import node as coreml
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.node import Node
from gpunn.importers.coreml.weights import all_weights
from gpunn.types import DType


def custom(node: Node) -> list[coreml.Value]:
    """Return the results of the op of the layer's class, on the inputs and then on the stored weights.

    What is no float32 becomes float32, as the other layers know nothing else.
    """
    operator = operator_of(node.params, node.custom)
    try:
        attributes = operator.parameters(_parameters(node.params))
    except (FormatError, ValueError, LookupError, struct.error) as error:
        node.corrupt(f"the parameters cannot be read: {error}")
    first = node.add(operator.op, *node.inputs, *_weights(node), **attributes)
    results = [result for result in node.types if result.step == first.step]
    return [_float32(node, result) for result in results]


def operator_of(params: Message, custom: Mapping[str, CustomOperator]) -> CustomOperator:
    """Return what the class of a layer stands for. Raises RefusedError if nobody says it."""
    if params.className not in custom:
        name = shown(params.className)
        raise RefusedError(f"its class {name} has no meaning, gpunn.load(custom=...) can give it one")
    return custom[params.className]


def _parameters(params: Message) -> Mapping[str, Value]:
    """Return the parameters by name; one without a value is None."""
    if len(params.parameters) > MAX_ENTRIES:
        raise FormatError(f"there are {len(params.parameters)}, expected up to {MAX_ENTRIES}")
    found: dict[str, Value] = {}
    for entry in params.parameters:
        if len(entry.key) > MAX_KEY or not entry.key.isprintable():
            raise FormatError(f"the name of one is {entry.key[:MAX_KEY]!r}, which is none")
        kind = entry.value.WhichOneof("value")
        found[entry.key] = None if kind is None else getattr(entry.value, kind)
    return found


def _weights(node: Node) -> list[Operand]:
    """Return the stored weights, each as float32 of rank 1: the file does not say in which shape."""
    found = []
    for number, message in enumerate(node.params.weights):
        try:
            found.append(node.floats(all_weights(message, node.chunks)))
        except FormatError as error:
            node.corrupt(f"weights {number}: {error}")
    return found


def _float32(node: Node, value: coreml.Value) -> coreml.Value:
    if node.type(value).dtype is DType.FLOAT32:
        return value
    return node.add("cast", value, dtype=DType.FLOAT32.value)
