"""Templates: graphs in which all that is to be read of a file is still pending, for inputs of any shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpunn.errors import FormatError, ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.pending import PendingOperation

# Adds operators to a graph on inputs of it, and declares its outputs.
Read = Callable[[Graph, Sequence[Operand | None]], tuple[()]]


def template(name: str, inputs: Sequence[Operand], read: Read, like: Graph | None = None) -> Graph:
    """Return a graph with these inputs, in which only `read` is pending.

    The classes, the scale of pixels, the scoring and the warnings are those of `like`.
    """
    like = like or Graph()
    made = Graph(
        name,
        list(inputs),
        labels=like.labels,
        classes=like.classes,
        pixel_scale=like.pixel_scale,
        scoring=like.scoring,
        warnings=like.warnings,
    )
    made.pend(PendingOperation("subgraph", name, tuple(inputs), (), read))
    return made


def checked(read: Read) -> Read:
    """Return the same for operators that have been read before: errors are not the file's then."""

    def read_again(graph: Graph, inputs: Sequence[Operand | None]) -> tuple[()]:
        try:
            return read(graph, inputs)
        except FormatError as error:
            raise ModelError(str(error)) from None

    return read_again
