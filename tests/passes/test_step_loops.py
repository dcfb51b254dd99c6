"""fuse_step_loops: loops that coremltools writes for a GRU become one recurrence, and no others do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.step_loops import fuse_step_loops
from gpunn.types import DType, TensorType, float32
from tests.passes.same import ops, same
from tests.passes.test_layer_norm import add

STEPS, BATCH, SIZE, UNITS = 5, 2, 4, 3
COUNT = TensorType(DType.INT32, (1,))
SCATTER = {
    "update_window_dims": (1, 2),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}


def weights(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@dataclass
class Layer:
    """Builds a loop; `change` names a part of it that is another.

    before: rows of the list in front of the first state; more: rows of it, and of x, which are not in use.
    """

    rounds: int = STEPS
    size: int = SIZE
    bias: bool = True
    given: bool = False
    rest: str = "neg"
    function: str | None = "sum"
    before: int = 0
    more: int = 0
    change: str = ""

    def model(self) -> Model:
        model = Model()
        x = model.input("x", float32(self.rounds + self.more + self.before, BATCH, self.size))
        first = weights(7, self.before + 1, BATCH, UNITS)
        rest = np.zeros((self.rounds + self.more, BATCH, UNITS), np.float32)
        if self.change == "rest":
            rest[1, 1, 1] = 1
        if self.given:
            h = model.input("h", float32(*first.shape))
            states = add(model, "concat", h, model.constant("zeros", rest), axis=0)
        else:
            states = model.constant("states", np.concatenate([first, rest]))
        if self.change == "start":
            start = model.input("start", COUNT)
        else:
            start = model.constant("start", np.array([self.before], np.int32))
        condition, body = Model(), Model()
        for graph in (condition, body):
            for name, type in (("i", COUNT), ("states", states.type), ("x", x.type)):
                graph.input(name, type)
        limit = condition.constant("limit", np.array([self.before + self.rounds], np.int32))
        condition.output(add(condition, "less", condition.inputs[0], limit))
        self.fill(body, *body.inputs)
        attrs = {"condition": condition, "body": body}
        count, states, _ = model.add("while_loop", [start, states, x], attrs)
        model.output(states, *([count] if self.change == "counter" else []))
        return model

    def fill(self, body: Model, i: Operand, states: Operand, x: Operand) -> None:
        """Add a round."""
        behind = add(body, "add", i, body.constant("1", np.int32(2 if self.change == "places" else 1)))
        h = add(body, "gather", states, i, axis=0)
        h = add(body, "reshape", h, shape=(BATCH, UNITS))
        second = add(body, "add", i, i) if self.change == "twice" else i
        row = add(body, "gather", x, behind if self.change == "ahead" else second, axis=0)
        row = add(body, "reshape", row, shape=(BATCH, self.size))
        new = add(body, "reshape", self.cell(body, row, h), shape=(1, BATCH, UNITS))
        place = add(body, "reshape", behind, shape=(1, 1))
        attrs = {**SCATTER, "function": self.function}
        kept = add(body, "neg", x) if self.change == "x" else x
        body.output(behind, add(body, "scatter_slices", states, place, new, **attrs), kept)

    def cell(self, body: Model, row: Operand, h: Operand) -> Operand:
        """Add what computes the state behind h."""
        of_x = [self.product(body, k, row) for k in range(3)]
        of_h = [self.product(body, k, row if self.change == "h" else h) for k in range(3, 6)]
        gate = "tanh" if self.change == "gate" else "logistic"
        r, z = (add(body, gate, add(body, "add_n", *pair)) for pair in zip(of_x[:2], of_h[:2], strict=True))
        inside = add(body, "mul_n", of_h[2], r)
        n = add(body, "tanh", add(body, "add_n", inside, of_x[2]))
        one = body.constant("1", np.ones(1, np.float32))
        if self.rest == "sub":
            rest = add(body, "sub", one, z)
        else:
            less = add(body, "mul", z, body.constant("-1", np.float32(-1))) if self.rest == "mul" else None
            rest = add(body, "add_n", less or add(body, "neg", z), one)
        old = add(body, "mul_n", z, row if self.change == "old" else h)
        return add(body, "add_n", add(body, "mul_n", rest, n), old)

    def product(self, body: Model, seed: int, x: Operand) -> Operand:
        filter = body.constant("w", weights(seed, UNITS, x.type.shape[1]))
        bias = [body.constant("b", weights(seed + 10, UNITS))] if self.bias else []
        return add(body, "fully_connected", x, filter, *bias)


@pytest.mark.parametrize(
    "layer",
    [
        Layer(),
        Layer(rounds=1),
        Layer(bias=False, rest="sub"),
        Layer(given=True, rest="mul"),
        Layer(function=None),
        Layer(function=None, change="rest"),
        Layer(before=2, more=3),
        Layer(before=1, more=1, given=True),
        Layer(more=1, change="ahead"),
    ],
    ids=str,
)
def test_loops_over_steps(layer: Layer, backend: str) -> None:
    model = layer.model()
    found = ops(same(model, fuse_step_loops))
    assert "gru_reset_after" in found and "while_loop" not in found
    inputs = [weights(20 + k, *i.type.shape) for k, i in enumerate(model.inputs)]
    (expected,) = model.evaluate([v.astype(np.float64) for v in inputs])
    with model.compile(backend) as compiled:
        np.testing.assert_allclose(compiled(*inputs), expected, atol=2e-6)


@pytest.mark.parametrize(
    "change", ["start", "counter", "places", "twice", "x", "h", "gate", "old", "rest"], ids=str
)
def test_other_steps_stay(change: str) -> None:
    """`old` is a row of x of as many units as h."""
    layer = Layer(change=change)
    if change in ("places", "twice"):
        layer.more = STEPS
    if change == "old":
        layer.size = UNITS
    model = layer.model()
    assert fuse_step_loops(model) is model
    assert "while_loop" in ops(optimise(model))


def test_a_network_without_steps_stays() -> None:
    model = Model()
    model.output(add(model, "tanh", model.input("x", float32(3))))
    assert fuse_step_loops(model) is model
