"""The reader of a subgraph, for operators that call other subgraphs or name resources."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Protocol

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.importers.tflite.context import Context
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.subgraph import FileGraph
from gpunn.importers.tflite.target import Target


class Scope(Protocol):
    """The reader of the subgraph that the operator stands in, and where it adds what it reads."""

    context: Context
    target: Target

    def subgraph(self, index: int) -> FileGraph:
        """Return another subgraph. Raises FormatError where it leads back here, or too deep."""

    def nested(
        self,
        index: int,
        inputs: Sequence[Operand],
        names: Sequence[str] = (),
        target: Target | None = None,
    ) -> tuple[Operand, ...]:
        """Return the results of a subgraph on given operands: inlined, or read into another `target`.

        `names` are what the results shall be called.
        """

    def body(
        self,
        index: int,
        arguments: Sequence[Operand],
        fixed: Set[int],
        target: Target,
        without: Set[int] = frozenset(),
    ) -> Graph:
        """Read a subgraph into a model of its own, whose inputs are the arguments that are not `fixed`.

        It is `without` the outputs of those numbers. Where the type of an argument is unknown, those of all
        inputs are. Returns the model's template (see Graph), which serves if the model has no state.
        """


Control = Callable[[Node, Sequence[str], Scope], tuple[Operand, ...]]
