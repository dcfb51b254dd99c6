"""Graphs with pending operations, as given inputs complete them: one part after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpunn.graph.complete import Cut, cut, without_state
from gpunn.graph.graph import Graph
from gpunn.types import Array

Evaluate = Callable[[Graph, Sequence[Array]], tuple[Array, ...]]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a graph and its inputs.

    `cut` says what follows, if anything does, and `following` are the inputs of that.
    """

    graph: Graph
    inputs: tuple[Array, ...]
    cut: Cut | None = None
    following: tuple[Array, ...] = ()


def parts(graph: Graph, inputs: Sequence[Array], evaluate: Evaluate) -> tuple[Part, ...]:
    """The parts of a graph, in order, that the values lead to from its initial state; of most there is one.

    `evaluate` computes a part, the last one excepted.
    """
    if not graph.pending:
        return (Part(graph, tuple(inputs)),)
    arrays = (*inputs, *graph.variables.values())
    graph = without_state(graph)
    found: list[Part] = []
    while graph.pending:
        split = cut(graph)
        following = split.run_operations(split.operations, evaluate(split.front, arrays))
        found.append(Part(split.front, arrays, split, following))
        graph, arrays = split.follow(following), following
    return (*found, Part(graph, arrays))
