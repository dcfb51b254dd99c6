"""Trained graphs: the constants that are others than in their file, and where they are for other shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from gpunn.errors import ModelError, UnsupportedError
from gpunn.graph.exchange import with_operands
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.types import Array


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


def with_changes(graph: Graph, source: Graph, changes: Iterable[Changed]) -> Graph:
    """Return a graph with the constants that others than `source` have; both are of the same file.

    The graph may be for inputs of other shapes. Raises ModelError if these constants are not in it.
    """
    exchange = {}
    same = [o.op for o in graph.operations] == [o.op for o in source.operations]
    for change in changes:
        place = change.number, change.index
        number, index = place if same else place_in(graph, place, source)
        operand = graph.operations[number].inputs[index]
        if operand is None or operand.type != change.operand.type:
            raise ModelError(f"{change.operand.name!r} has another place for inputs of these shapes")
        exchange[operand] = graph.constant(operand.name, change.value, operand.type)
    return with_operands(graph, exchange)


def place_in(model: Graph, place: tuple[int, int], source: Graph) -> tuple[int, int]:
    """Return where a place in `source` is in a model of the same file, which may have other operations.

    For inputs of other shapes, arrays go between the models of a pipeline through other operations. Raises
    ModelError if the operations of the same origin are others.
    """
    number, index = place
    origin = source.operations[number].origin
    alike = [[k for k, o in enumerate(g.operations) if o.origin == origin] for g in (source, model)]
    ops = [[g.operations[k].op for k in found] for g, found in zip((source, model), alike, strict=True)]
    if not origin or ops[0] != ops[1]:
        raise ModelError(f"the model has other operations {origin or 'of no file'}")
    return alike[1][alike[0].index(number)], index


def _fail(graph: Graph, why: str) -> NoReturn:
    raise UnsupportedError(f"model {graph.name!r} was changed since it was trained: {why}")
