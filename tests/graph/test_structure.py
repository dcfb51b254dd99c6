"""Structures: graphs with equal ones share a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from gpunn.custom import like, op
from gpunn.graph.graph import Graph
from gpunn.graph.structure import MAX_CONTENT_BYTES, Structure, structure
from gpunn.types import Array, float32

SMALL, LARGE = np.arange(3, dtype=np.float32), np.zeros((MAX_CONTENT_BYTES, 3), np.float32)


def found(
    attrs: Mapping[str, Any] | None = None, constant: Array = SMALL, name: str = "y", rows: int = 2
) -> Structure:
    """Return the structure of leaky_relu(x + constant)."""
    graph = Graph()
    x = graph.input("x", float32(rows, 3))
    (a,) = graph.add("add", [x, graph.constant("c", constant)])
    graph.output(*graph.add("leaky_relu", [a], attrs or {"alpha": 0.5}, names=[name]))
    return structure(graph)


def test_graphs_of_equal_operations_have_equal_structures() -> None:
    first, second = found(), found(constant=SMALL.copy())
    assert first == second and hash(first) == hash(second) and first != "something else"
    assert found(constant=LARGE[:2]) == found(constant=LARGE[:2])


@pytest.mark.parametrize(
    "changed",
    [
        {"attrs": {"alpha": 0.25}},
        {"attrs": {"alpha": -0.5}},
        {"constant": SMALL + 1},
        {"constant": SMALL[None]},
        {"name": "z"},
        {"rows": 3},
    ],
)
def test_each_difference_makes_another_structure(changed: dict[str, Any]) -> None:
    assert found() != found(**changed)


def test_a_zero_differs_from_a_negative_zero() -> None:
    assert found({"alpha": 0.0}) != found({"alpha": -0.0})
    assert found(constant=np.zeros(3, np.float32)) != found(constant=np.full(3, -0.0, np.float32))


def test_lists_of_numbers_are_part_of_the_structure() -> None:
    def bucketing(*boundaries: float) -> Structure:
        graph = Graph()
        graph.output(*graph.add("bucketize", [graph.input("x", float32(3))], {"boundaries": boundaries}))
        return structure(graph)

    assert bucketing(0.0, 1.0) == bucketing(0.0, 1.0)
    assert len({bucketing(0.0, 1.0), bucketing(-0.0, 1.0), bucketing(0.0), bucketing(0.0, 1.5)}) == 4


def test_large_constants_are_compared_by_address() -> None:
    """To compare their contents would take long."""
    assert LARGE.nbytes > MAX_CONTENT_BYTES
    one, other = (Graph() for _ in range(2))
    for graph, value in ((one, LARGE), (other, LARGE.copy())):
        graph.output(*graph.add("add", [graph.input("x", float32(3)), graph.constant("c", value)]))
    assert structure(one) == structure(one) != structure(other)


def test_the_address_of_a_compared_constant_is_not_used_again() -> None:
    """A structure keeps the constants that it compares by address."""
    kept = found(constant=LARGE[:2].repeat(MAX_CONTENT_BYTES, 0), rows=2 * MAX_CONTENT_BYTES)
    for k in range(10):
        value = np.full((2 * MAX_CONTENT_BYTES, 3), k, np.float32)
        assert found(constant=value, rows=2 * MAX_CONTENT_BYTES) != kept
        del value


def test_custom_operations_are_compared_by_op() -> None:
    @op(like, name="same")
    def first(x: Array) -> Array:
        return x

    @op(like, name="same")
    def second(x: Array) -> Array:
        return -x

    graphs = [Graph() for _ in range(3)]
    for graph, function in zip(graphs, (first, first, second), strict=True):
        graph.output(*graph.add(function, [graph.input("x", float32(3))]))
    a, b, c = map(structure, graphs)
    assert a == b != c


def test_bodies_are_part_of_the_structure() -> None:
    def branching(op: str) -> Structure:
        bodies = {}
        for name in ("then", "otherwise"):
            body = Graph(name)
            body.output(*body.add(op, [body.input("x", float32(3))]))
            bodies[name] = body
        graph = Graph()
        condition = graph.constant("condition", np.array(True))
        graph.output(*graph.add("if_else", [condition, graph.input("x", float32(3))], bodies))
        return structure(graph)

    assert branching("neg") == branching("neg") != branching("abs")
