"""Rules that write operations for another library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn, Protocol, TypeVar

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operation


class Builder(Protocol):
    """A builder of a library's model; `origin` names the operation that is being written."""

    origin: str

    def refuse(self, what: str) -> NoReturn:
        """Raise UnsupportedError, naming the operation at hand."""


_Builder = TypeVar("_Builder", bound=Builder)


def write_operations(
    model: Graph, builder: _Builder, rules: Mapping[str, Callable[[_Builder, Operation], None]]
) -> None:
    """Write each operation of a model with its rule. Raises UnsupportedError, also if there is none."""
    for operation in model.operations:
        builder.origin = f"{operation.op} ({operation.origin})"
        if operation.op not in rules:
            builder.refuse("this operation")
        rules[operation.op](builder, operation)
