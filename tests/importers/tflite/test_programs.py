"""Random programs of assignments, branches and loops: variables have the values that LiteRT gives them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gpunn.graph.parts import walk
from gpunn.model import load
from gpunn.types import DType, TensorType
from tests.importers.tflite.test_resources import ONE, assign, first, once, one, plus, read, variable
from tests.importers.tflite.test_subgraphs import Sub
from tests.tflite_builder import Graph, litert_runs

NAMES = b"a", b"b", b"c"
FLAG = TensorType(DType.BOOL, (1,))
DEEPEST = 2  # of nested branches and loops
FRAMES = [[one(v)] for v in (1, 2, -3)]


class Program:
    """Graphs under construction: the main one, and those that it and others call."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.called: list[Sub] = [first(k, name) for k, name in enumerate(NAMES, 1)]

    def build(self) -> bytes:
        main = Graph()
        x = main.input(ONE)
        for index in range(len(NAMES)):
            once(main, index + 1)
        y = self.steps(main, x, 0, self.random.randint(3, 8))
        return main.build([y], called=self.called)

    def steps(self, graph: Graph, x: int, depth: int, count: int) -> int:
        """Add some steps; return the tensor that x becomes."""
        kinds = [self.add, self.add, self.assign, self.assign, self.scale]
        kinds += [self.branch, self.loop] if depth < DEEPEST else []
        y = x
        for _ in range(count):
            y = self.random.choice(kinds)(graph, y, depth)
        for operator, limit in ("MINIMUM", 1000), ("MAXIMUM", -1000):
            (y,) = graph.add(operator, [y, graph.constant(one(limit))], [ONE])
        return y

    def any(self, graph: Graph) -> int:
        return variable(graph, self.random.choice(NAMES))

    def add(self, graph: Graph, x: int, depth: int) -> int:
        return plus(graph, x, read(graph, self.any(graph)))

    def assign(self, graph: Graph, x: int, depth: int) -> int:
        assign(graph, self.any(graph), x)
        return x

    def scale(self, graph: Graph, x: int, depth: int) -> int:
        return graph.add("MUL", [x, graph.constant(one(self.random.choice([-1, 0.5, 2])))], [ONE])[0]

    def subgraph(self, depth: int) -> int:
        """Add a subgraph of some further steps; return its number."""
        graph = Graph()
        x = graph.input(ONE)
        y = self.steps(graph, x, depth + 1, self.random.randint(1, 4))
        self.called.append((graph, [y]))
        return len(self.called)

    def branch(self, graph: Graph, x: int, depth: int) -> int:
        (less,) = graph.add("LESS", [read(graph, self.any(graph)), x], [FLAG])
        options = {
            "then_subgraph_index": self.subgraph(depth),
            "else_subgraph_index": self.subgraph(depth),
        }
        return graph.add("IF", [less, x], [ONE], options)[0]

    def loop(self, graph: Graph, x: int, depth: int) -> int:
        """Add a loop of up to three rounds, while a variable is not too large."""
        condition, body = Graph(), Graph()
        (count, _), (left, inside) = ([g.input(ONE), g.input(ONE)] for g in (condition, body))
        flags = [
            *condition.add("GREATER", [count, condition.constant(one(0))], [FLAG]),
            *condition.add(
                "LESS", [read(condition, self.any(condition)), condition.constant(one(99))], [FLAG]
            ),
        ]
        self.called.append((condition, list(condition.add("LOGICAL_AND", flags, [FLAG]))))
        options = {"cond_subgraph_index": len(self.called)}
        less = body.add("SUB", [left, body.constant(one(1))], [ONE])
        y = self.steps(body, inside, depth + 1, self.random.randint(1, 4))
        self.called.append((body, [*less, y]))
        options["body_subgraph_index"] = len(self.called)
        times = graph.constant(one(self.random.randint(0, 3)))
        return graph.add("WHILE", [times, x], [ONE, ONE], options)[1]


@pytest.mark.parametrize("seed", range(16))
def test_every_run_agrees_with_litert(seed: int) -> None:
    file = Program(seed).build()
    with load(file).compile(backend="cpu") as compiled:
        found = [[compiled(*frame)] for frame in FRAMES]
    np.testing.assert_array_equal(found, litert_runs(file, FRAMES))


def test_branches_and_loops_are_nested() -> None:
    models = [load(Program(seed).build()) for seed in range(16)]
    assert max(len([*walk(model)]) for model in models) > 8
    assert {o.op for model in models for m in walk(model) for o in m.operations} > {"if_else", "while_loop"}
