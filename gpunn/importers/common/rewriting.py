"""A file's graph for what another one has changed: the same inputs, and new last layers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from gpunn.errors import UnsupportedError
from gpunn.graph.complete import complete
from gpunn.graph.graph import Graph
from gpunn.types import Array, Shape


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


def _fail(graph: Graph, why: str) -> NoReturn:
    raise UnsupportedError(f"model {graph.name!r} was changed since it was trained: {why}")
