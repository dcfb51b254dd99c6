"""Recurrent layers whose steps are written one after the other, as LiteRT Torch writes those of PyTorch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import float32
from tests.passes.test_layer_norm import add

STEPS, UNITS = 4, 3


def part(model: Model, x: Operand, axis: int, first: int, count: int) -> Operand:
    begin, end = [0] * x.type.rank, [*x.type.shape]
    begin[axis], end[axis] = first, first + count
    strides = (1,) * x.type.rank
    return add(model, "strided_slice", x, begin=tuple(begin), end=tuple(end), strides=strides, shrink_axes=())


def weights(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def joined(model: Model, states: list[Operand], **attrs: Any) -> Operand:
    return model.add("concat", states, {"axis": 0, **attrs})[0]


@dataclass
class Layer(ABC):
    """Builds steps; `change` names a part of one of them that is another."""

    gates: int
    bias: bool = True
    given: bool = False
    reverse: bool = False
    change: str = ""
    cells: list[Operand] = field(default_factory=list)

    @property
    def sums(self) -> int:
        """The sums of a step, of all gates."""
        return self.gates * UNITS

    def states(self, model: Model, x: Operand) -> list[Operand]:
        """Add the steps on sums of x [steps, batch, sums], and return their states h."""
        filters = [model.constant("w", weights(k, self.sums, UNITS)) for k in (1, 2)]
        bias = [model.constant("b", weights(3, self.sums))] if self.bias else []
        before: list[Operand] = []
        if self.given:
            names = "hc"[: self.gates - 2]
            before = [add(model, "tanh", model.input(n, float32(*x.type.shape[1:-1], UNITS))) for n in names]
            before = [add(model, "reshape", s, shape=(1, *s.type.shape)) for s in before]
        found = []
        order = [*range(STEPS)[::-1]] if self.reverse else [*range(STEPS)]
        if self.change == "order":
            order[:2] = order[1::-1]
        for step, place in enumerate(order):
            filter = filters[self.change == "filter" and step == 2]
            product = (
                add(model, "fully_connected", before[0], filter, *bias, keep_dims=True) if before else None
            )
            before = self.step(model, part(model, x, 0, place, 1), product, before, step)
            found.append(before[0])
            self.cells.append(before[-1])
        return found

    @abstractmethod
    def step(
        self, model: Model, x: Operand, product: Operand | None, before: list[Operand], number: int
    ) -> list[Operand]:
        """Add a step, and return its states."""

    def first(self) -> Any:
        """What stands for the product with zeros."""
        return weights(4 if self.change == "start" else 3, self.sums)[None]

    def whole(self, batch: int = 1, last: bool = False) -> Model:
        """A network of the layer; last: with the last states as results."""
        model = Model()
        x = add(model, "neg", model.input("x", float32(STEPS, batch, self.sums)))
        states = self.states(model, x)
        results = [joined(model, states[::-1] if self.reverse else states)]
        model.output(*results, *(dict.fromkeys([states[-1], self.cells[-1]]) if last else []))
        return model


def both_directions(forwards: Layer, backwards: Layer) -> Model:
    """As a bidirectional layer has them: sums the other way round, then states the other way round."""
    model = Model()
    x = add(model, "neg", model.input("x", float32(STEPS, 1, forwards.sums)))
    attrs = {"begin": (None,) * 3, "end": (None,) * 3, "strides": (-1, 1, 1), "shrink_axes": ()}
    turned = add(model, "strided_slice", x, **attrs)
    both = joined(model, forwards.states(model, x)), joined(model, backwards.states(model, turned)[::-1])
    model.output(joined(model, [*both], axis=2))
    return model
