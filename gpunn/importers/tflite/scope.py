"""What the reader of a subgraph offers to operators that call other subgraphs or name resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.rest import OpenBody
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.subgraph import FileGraph
from gpunn.importers.tflite.target import Target
from gpunn.importers.tflite.work import Work
from gpunn.types import Shape, TensorType

Source = Callable[[Sequence[Shape]], Graph]  # a subgraph read again for inputs of other shapes


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

    def body(
        self,
        index: int,
        arguments: Sequence[Operand],
        fixed: Set[int],
        target: Target,
        without: Set[int] = frozenset(),
    ) -> Source:
        """Read a subgraph into a model of its own, whose inputs are the arguments that are not `fixed`.

        It is `without` the outputs of those numbers. Where shapes in it depend on values it has a rest.
        """


@dataclass(frozen=True, slots=True)
class Deferred:
    """What an operator comes to where shapes of its results are known only when its subgraphs have run.

    `op` of `inputs` and `bodies` gives the outputs that `types` has, by number, without the shapes that are
    said there. The others are `known`.
    """

    op: str
    inputs: tuple[Operand, ...]
    bodies: Mapping[str, OpenBody]
    types: Mapping[int, TensorType]
    known: Mapping[int, Operand]


Control = Callable[[Node, Sequence[str], Scope], tuple[Operand, ...] | Deferred]
