"""Random models whose shapes follow from values: compilations against the references of ops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.parts import OpenBody, parts
from gpunn.model import Model
from gpunn.types import Array, float32
from tests.graph.test_pending import COUNT, positives, repeated

RUNS = 5


class Builder:
    """A model that grows at random; `vectors` and `counts` are its results so far."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.model = Model(f"seed {seed}")
        self.vectors = [self.model.input("x", float32(4))]
        self.counts = [self.model.input("n", COUNT)]
        self.one = self.model.constant("one", np.array([1], np.int32))
        self.half = self.model.constant("half", np.float32(0.5))
        steps: list[Callable[[Operand], Operand]] = [
            lambda a: self.model.add("tanh", [a])[0],
            lambda a: self.model.add("sub", [a, self.half])[0],
            lambda a: self.model.add("concat", [a, self.any(self.vectors)], {"axis": 0})[0],
            lambda a: self.model.add(positives, [a], names=["places", "found"])[1],
            self.found,
            self.tiled,
            self.branch,
        ]
        for _ in range(self.random.integers(3, 9)):
            self.vectors.append(steps[self.random.integers(len(steps))](self.any(self.vectors)))
            if self.random.random() < 0.2:
                self.counts.append(self.model.add("add", [self.any(self.counts), self.one])[0])
        self.model.output(*dict.fromkeys(self.vectors[-3:]))

    def any(self, operands: list[Operand]) -> Operand:
        return operands[self.random.integers(len(operands))]

    def found(self, a: Operand) -> Operand:
        (large,) = self.model.add("greater", [a, self.half])
        return self.model.add("gather_nd", [a, *self.model.add("where", [large])])[0]

    def tiled(self, a: Operand) -> Operand:
        (rows,) = self.model.add(repeated, [a, self.any(self.counts)])
        return self.model.add("reduce_sum", [rows], {"axes": (0,), "keep_dims": False})[0]

    def branch(self, a: Operand) -> Operand:
        (condition,) = self.model.add("greater", [self.any(self.counts), self.one])
        bodies = {"then": OpenBody(self.body()), "otherwise": OpenBody(self.body())}
        return self.model.add("if_else", [condition, a], bodies)[0]

    def body(self) -> Model:
        body = Model("body")
        x = body.input("x", float32(4), open=None)
        kind = self.random.integers(3)
        if kind == 0:
            body.output(*body.add("neg", [x]))
        elif kind == 1:
            body.output(*body.add("concat", [x, x], {"axis": 0}))
        else:
            body.output(body.add(positives, [x], names=["places", "found"])[1])
        return body


def by_references(model: Model, inputs: list[Array]) -> tuple[Array, ...]:
    last = parts(model, inputs, Graph.evaluate)[-1]
    return last.graph.evaluate(last.inputs)


@pytest.mark.parametrize("seed", range(25))
def test_any_values_in_any_order(seed: int, backend: str) -> None:
    """Values repeat in other orders, so that programs and sections are used again."""
    random, model = np.random.default_rng(seed), Builder(seed).model
    with model.compile(backend) as compiled:
        for _ in range(RUNS):
            x = random.integers(-3, 4, 4).astype(np.float32) / 2
            inputs = [x, random.integers(0, 3, 1).astype(np.int32)]
            found = compiled(*inputs)
            wanted = by_references(model, inputs)
            for y, expected in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
                assert y.shape == expected.shape
                np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
