"""fuse_steps: steps become one recurrence, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.unrolled import fuse_steps
from gpunn.types import float32
from tests.passes.same import expect_unchanged, ops, same
from tests.passes.test_layer_norm import add
from tests.passes.unrolled import STEPS, UNITS, Layer, both_directions, joined, part


class Lstm(Layer):
    """nn.LSTM: sums of all gates, of which each is a piece."""

    def __init__(self, **how: Any) -> None:
        super().__init__(4, **how)

    def step(
        self, model: Model, x: Operand, product: Operand | None, before: list[Operand], number: int
    ) -> list[Operand]:
        sums = x
        if product is not None:
            sums = add(model, "add", product, sums)
        elif self.bias:
            sums = add(model, "add", sums, model.constant("b", self.first()))
        i, f, g, o = (part(model, sums, -1, k * UNITS, UNITS) for k in range(4))
        if self.change == "gates":
            i, f = f, i
        cell = add(model, "mul", add(model, "logistic", i), add(model, "tanh", g))
        if before:
            gate = add(model, "tanh" if self.change == "gate" else "logistic", f)
            cell = add(model, "add", add(model, "mul", gate, before[1]), cell)
        turned = add(model, "logistic" if self.change == "state" and number == 1 else "tanh", cell)
        return [add(model, "mul", add(model, "logistic", o), turned), cell]


class Gru(Layer):
    """nn.GRU: sums of each gate from a piece of both."""

    def __init__(self, **how: Any) -> None:
        super().__init__(3, **how)

    def step(
        self, model: Model, x: Operand, product: Operand | None, before: list[Operand], number: int
    ) -> list[Operand]:
        rows = add(model, "reshape", x, shape=x.type.shape[1:])
        sums = [part(model, rows, -1, k * UNITS, UNITS) for k in range(3)]
        h = before[0] if before else model.constant("zeros", np.zeros((), np.float32))
        if product is None:
            constants = np.split(self.first()[None], 3, -1)
            products = [model.constant("b", value) for value in constants]
        else:
            products = [part(model, product, -1, k * UNITS, UNITS) for k in range(3)]
        if self.change == "gates":
            products[:2] = products[1::-1]
        gate = "tanh" if self.change == "gate" else "logistic"
        reset, update = (
            add(model, gate, add(model, "add", a, b)) for a, b in zip(products[:2], sums[:2], strict=True)
        )
        inside = add(model, "mul", products[2], reset)
        n = add(model, "tanh", add(model, "add", sums[2], inside))
        if self.change == "state" and number == 1:
            h = add(model, "sin", h)
        return [add(model, "add", add(model, "mul", add(model, "sub", h, n), update), n)]


KINDS: dict[str, tuple[Callable[..., Layer], str]] = {
    "lstm": (Lstm, "lstm_recurrence"),
    "gru": (Gru, "gru_reset_after"),
}
EACH = pytest.mark.parametrize("kind", KINDS)


# Without bias and first states, the first step of a GRU has another form, which is not known.
FORMS = [(k, b, g) for k in KINDS for b in (True, False) for g in (True, False) if k == "lstm" or b or g]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("kind", "bias", "given"), FORMS)
def test_all_states(kind: str, bias: bool, given: bool, batch: int, reverse: bool, backend: str) -> None:
    layer, op = KINDS[kind]
    model = layer(bias=bias, given=given, reverse=reverse).whole(batch)
    found = same(model, lambda m: optimise(m))  # type: ignore[arg-type, return-value]
    assert [o for o in ops(found) if o not in ("tanh", "reshape")] == ["neg", *["add"] * bias, op]
    rng = np.random.default_rng(0)
    values = [rng.normal(size=i.type.shape).astype(np.float32) for i in model.inputs]
    with model.compile(backend) as compiled:
        np.testing.assert_allclose(compiled(*values), model.evaluate(values)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@EACH
def test_last_states(kind: str, reverse: bool) -> None:
    layer, op = KINDS[kind]
    found = same(layer(reverse=reverse).whole(2, last=True), fuse_steps)
    assert ops(found).count(op) == 1
    assert not {"logistic", "tanh", "fully_connected"} & {*ops(found)}


@EACH
def test_both_directions(kind: str) -> None:
    layer, op = KINDS[kind]
    model = both_directions(layer(), layer())
    found = same(model, lambda m: optimise(m))  # type: ignore[arg-type, return-value]
    assert sorted(ops(found)) == sorted(["add", "add", "concat", "neg", op, op])
    assert [o.attrs["reverse"] for o in found.operations if o.op == op] == [False, True]


@EACH
def test_a_state_that_others_read(kind: str) -> None:
    layer, op = KINDS[kind]
    made, model = layer(), Model()
    x = add(model, "neg", model.input("x", float32(STEPS, 1, made.sums)))
    model.output(add(model, "sin", made.states(model, x)[1]))
    found = same(model, lambda m: optimise(m))  # type: ignore[arg-type, return-value]
    assert op in ops(found)
    assert "logistic" not in ops(found)


@pytest.mark.parametrize("change", ["order", "filter", "start", "gate", "state"])
@EACH
def test_other_steps_stay(kind: str, change: str) -> None:
    layer, _ = KINDS[kind]
    made = layer(change=change)
    expect_unchanged(fuse_steps, lambda model, x: joined(model, made.states(model, x)), (STEPS, 1, made.sums))


def test_gates_in_another_order() -> None:
    found = same(Gru(change="gates").whole(), fuse_steps)
    assert "gru_reset_after" in ops(found)
    assert "logistic" not in ops(found)


@EACH
def test_some_of_the_steps_stay(kind: str) -> None:
    layer, _ = KINDS[kind]
    made = layer()
    expect_unchanged(
        fuse_steps, lambda model, x: joined(model, made.states(model, x)), (STEPS + 1, 1, made.sums)
    )


def test_a_cell_state_that_others_read_stays() -> None:
    made = Lstm()

    def build(model: Model, x: Operand) -> Operand:
        return joined(model, [*made.states(model, x), made.cells[1]])

    expect_unchanged(fuse_steps, build, (STEPS, 1, made.sums))
