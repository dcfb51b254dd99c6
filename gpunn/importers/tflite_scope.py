"""What the reader of a subgraph offers to operators that call other subgraphs or name resources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gpunn.importers.tflite_file import FileGraph
from gpunn.importers.tflite_node import Node
from gpunn.importers.tflite_target import Target
from gpunn.importers.tflite_work import Work
from gpunn.operation import Operand


class Scope(Protocol):
    """The reader of the subgraph that the operator stands in, and where it adds what it reads."""

    work: Work
    target: Target

    def subgraph(self, index: int) -> FileGraph:
        """Another subgraph. Raises FormatError where it leads back here, or too deep."""

    def nested(
        self,
        index: int,
        inputs: Sequence[Operand],
        names: Sequence[str] = (),
        target: Target | None = None,
    ) -> tuple[Operand, ...]:
        """The results of a subgraph on given operands: inlined, or read into another `target`."""


Control = Callable[[Node, Sequence[str], Scope], tuple[Operand, ...]]
