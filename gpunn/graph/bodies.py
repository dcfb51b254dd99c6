"""Graphs among the attributes of operations (gpunn.ops.control), changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operation
from gpunn.ops.control import Body

_G = TypeVar("_G")


def with_bodies(operation: Operation, change: Callable[[Graph], Body]) -> Operation:
    """Return the operation with each graph among its attributes changed."""
    return with_graphs(operation, Graph, change)


def with_graphs(operation: Operation, kind: type[_G], change: Callable[[_G], Body]) -> Operation:
    """Return the operation with each graph of one kind among its attributes changed."""
    if not any([isinstance(v, kind) for v in operation.attrs.values()]):
        return operation
    attrs = {k: change(v) if isinstance(v, kind) else v for k, v in operation.attrs.items()}
    return replace(operation, attrs=attrs)
