"""Constants of a graph that are others than in its file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from gpunn.errors import UnsupportedError
from gpunn.graph.complete import complete
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.types import Array, Shape


@dataclass(frozen=True, slots=True, eq=False)
class Changed:
    """A constant that has another value than in the file.

    `operation` of the file's graph reads `operand` as input `index`; the graph has `value` there. `number` is
    the operation's.
    """

    number: int
    operation: Operation
    index: int
    operand: Operand
    value: Array


@dataclass(frozen=True, slots=True, eq=False)
class NewLayer:
    """The last layer of a classifier, for other classes.

    `number` is the operation's in the graph, which has `old` classes; `filter` and `bias` are the new values.
    """

    number: int
    old: int
    filter: Array
    bias: Array

    @classmethod
    def random(
        cls, number: int, shape: Shape, axis: int, count: int, random: np.random.Generator
    ) -> NewLayer:
        """Draw the filter of `count` classes for one of another shape that has its classes along an axis.

        The bias is 0. Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward
        neural networks", 2010, equation 16.
        """
        inputs = math.prod(shape) // max(shape[axis], 1)
        limit = math.sqrt(6 / (inputs + count))
        drawn = random.uniform(-limit, limit, (*shape[:axis], count, *shape[axis + 1 :])).astype(np.float32)
        return cls(number, shape[axis], drawn, np.zeros(count, np.float32))

    @property
    def count(self) -> int:
        """Return the number of new classes."""
        return self.bias.size


def read_alike(unread: Graph, graph: Graph) -> Graph:
    """Return the graph of a file, in which all is pending so far, for inputs of the shapes of another graph.

    Raises UnsupportedError if that has other inputs.
    """
    if len(unread.inputs) != len(graph.inputs):
        _fail(graph, "it has other inputs")
    return complete(unread, graph.input_types)


def changed_constants(read: Graph, graph: Graph) -> tuple[Changed, ...]:
    """Return each constant of a graph that is another one than in `read`, the graph of its file, once.

    Raises UnsupportedError if the two differ in something else.
    """
    found: dict[Operand, Changed] = {}
    for change in _changes(read, graph):
        known = found.setdefault(change.operand, change)
        if not np.array_equal(known.value, change.value, equal_nan=True):
            _fail(graph, f"{change.operand.name!r} has several values")
    return tuple(found.values())


def _changes(read: Graph, graph: Graph) -> Iterator[Changed]:
    sides = [[*g.inputs, *g.variables] for g in (read, graph)]
    if len(sides[0]) != len(sides[1]) or len(read.operations) != len(graph.operations):
        _fail(graph, "it has other operations or variables")
    same = dict(zip(*sides, strict=True))
    for number, (old, new) in enumerate(zip(read.operations, graph.operations, strict=True)):
        if (old.op, len(old.inputs), len(old.outputs)) != (new.op, len(new.inputs), len(new.outputs)):
            _fail(graph, f"operation {number} is {new.op} instead of {old.op}")
        for index, (before, after) in enumerate(zip(old.inputs, new.inputs, strict=True)):
            if before is None or after is None or after.value is None:
                if before is not after and (before is None or same.get(before) is not after):
                    _fail(graph, f"{new.op} ({new.origin}) reads something else")
            elif before.value is None or not np.array_equal(before.value, after.value, equal_nan=True):
                yield Changed(number, old, index, before, after.value)
        same.update(zip(old.outputs, new.outputs, strict=True))
    for before, after in zip(read.outputs, graph.outputs, strict=False):
        if before.value is None and same.get(before) is not after:
            _fail(graph, f"output {after.name!r} is another one")
    if len(read.outputs) != len(graph.outputs):
        _fail(graph, "it has other outputs")


def _fail(graph: Graph, why: str) -> NoReturn:
    raise UnsupportedError(f"model {graph.name!r} was changed since it was trained: {why}")
