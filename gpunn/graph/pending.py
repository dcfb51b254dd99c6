"""PendingOperation: an operation that waits for what only a run knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from gpunn.graph.inference import Declared
from gpunn.graph.operation import Operand, Operation, custom_of
from gpunn.ops.call import Call
from gpunn.ops.op import Op
from gpunn.types import OpenShape, Quantization


class Adding(Protocol):
    """A graph, whose module imports this one, as far as pending operations know it; see Graph.add."""

    def add(
        self,
        op: str | Op,
        inputs: Sequence[Operand | None],
        attrs: Mapping[str, Any] | None = None,
        *,
        origin: str = "",
        names: Sequence[str] = (),
        quantization: Sequence[Quantization | None] = (),
        open: Sequence[OpenShape | None] = (),
        hybrid: bool = False,
    ) -> tuple[Operand, ...]:
        """Append an operation and return its outputs."""


G = TypeVar("G", bound=Adding)

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


def _added(
    op: str | Op,
    attrs: Mapping[str, Any],
    origin: str,
    declared: Declared,
    graph: Adding,
    inputs: Sequence[Operand | None],
) -> tuple[Operand, ...]:
    """Add an operation that waited; a function of the module, so that pending operations can be pickled."""
    return graph.add(
        op,
        inputs,
        attrs,
        origin=origin,
        names=declared.names,
        quantization=declared.quantization,
        open=declared.open,
        hybrid=declared.hybrid,
    )


def waiting(
    definition: Op,
    call: Call,
    inputs: Sequence[Operand | None],
    results: Sequence[Operand],
    declared: Declared,
    asks: Sequence[Operand],
    runs: bool,
) -> PendingOperation[Any]:
    """Return the entry of an op whose result types are unknown; `results` are those that are expected.

    `runs`: the operation must run, on the host, as only that tells the shapes of its results.
    """
    outputs = tuple(replace(o, open=o.open or OpenShape(None)) for o in results)
    again = replace(declared, names=tuple(o.name for o in outputs))

    add = partial(_added, custom_of(definition) or call.op, call.attrs, call.origin, again)
    made = Operation(call.op, tuple(inputs), outputs, call.attrs, call.origin, custom_of(definition))
    operation = made if runs else None
    return PendingOperation(call.op, call.origin, made.inputs, outputs, add, tuple(asks), operation)
