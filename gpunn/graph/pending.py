"""PendingOperation: an operation that waits for what only a run knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpunn.graph.operation import Operand, Operation

G = TypeVar("G")  # the graph, whose module imports this one

FOR_VALUES = "what follows is planned for each shape that values lead to"
FOR_SHAPES = "the shape of the result follows from values: what follows is planned for each shape"


@dataclass(frozen=True, slots=True, eq=False)
class PendingOperation(Generic[G]):
    """An operation of a graph whose result types are not known yet.

    Either types of `inputs` are unknown as well, for they are results of other pending operations; or the
    values of the operands `asks` must be known; or the operation must run, on the host, as nothing else tells
    the shapes of its results: then `operation` is the whole of it. `add` adds the operation to a graph that
    knows more, on that graph's operands for `inputs`, and returns its results, which may be pending there.
    `outputs` are the results here: each has the dtype that is expected, and a shape without meaning.
    """

    op: str
    origin: str
    inputs: tuple[Operand | None, ...]
    outputs: tuple[Operand, ...]
    add: Callable[[G, Sequence[Operand | None]], tuple[Operand, ...]]
    asks: tuple[Operand, ...] = ()
    operation: Operation | None = None
    reason: str = FOR_SHAPES

    @property
    def where(self) -> str:
        """Say which operation waits, and why."""
        return f"{self.origin or self.op}: {self.reason}"
