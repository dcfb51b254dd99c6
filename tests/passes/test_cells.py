"""fuse_step_loops: cells of each kind in loops as TensorFlow's converter writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.step_loops import fuse_step_loops
from gpunn.types import float32
from tests.passes.same import ops, same
from tests.passes.test_layer_norm import add
from tests.passes.unrolled import part, weights

STEPS, BATCH, SIZE, UNITS = 5, 2, 4, 3
Step = Callable[[Model, Operand, list[Operand]], list[Operand]]


def product(body: Model, seed: int, x: Operand, count: int = UNITS, bias: bool = False) -> Operand:
    filter = shared(body, f"w{seed}", weights(seed, count, x.type.shape[-1]))
    more = [body.constant("b", weights(seed + 50, count))] if bias else []
    return add(body, "fully_connected", x, filter, *more)


def shared(body: Model, name: str, value: Any) -> Operand:
    """Return the constant of that name, which is added once."""
    found = (o for operation in body.operations for o in operation.inputs if o is not None and o.name == name)
    return next(found, None) or body.constant(name, value)


def gates(body: Model, sums: Operand, count: int) -> list[Operand]:
    return list(body.add("split", [sums], {"sizes": (UNITS,) * count, "axis": -1}))


def constant(body: Model, value: Any) -> Operand:
    return body.constant("c", np.array(value, np.float32))


def plain(body: Model, x: Operand, states: list[Operand]) -> list[Operand]:
    sums = add(body, "add", product(body, 1, x, bias=True), product(body, 2, states[0]))
    return [add(body, "tanh", sums)]


def plain_fused(body: Model, x: Operand, states: list[Operand]) -> list[Operand]:
    """The sum has the activation."""
    sums = [product(body, 1, x, bias=True), product(body, 2, states[0])]
    return [add(body, "add", *sums, activation="relu")]


def plain_of_both(body: Model, x: Operand, states: list[Operand]) -> list[Operand]:
    """One product of x and h side by side, in the other order."""
    both = add(body, "concat", states[0], x, axis=-1)
    return [add(body, "relu", add(body, "add", product(body, 1, both), constant(body, weights(3, UNITS))))]


def lstm_of(body: Model, sums: list[Operand], c: Operand) -> list[Operand]:
    i, f, g, o = sums
    entry = add(body, "mul", add(body, "logistic", i), add(body, "tanh", g))
    cell = add(body, "add", add(body, "mul", c, add(body, "logistic", f)), entry)
    return [add(body, "mul", add(body, "logistic", o), add(body, "tanh", cell)), cell]


def lstm(body: Model, x: Operand, states: list[Operand]) -> list[Operand]:
    sums = add(body, "add", product(body, 1, x, 4 * UNITS), product(body, 2, states[0], 4 * UNITS))
    sums = add(body, "add", sums, constant(body, weights(3, 4 * UNITS)))
    return lstm_of(body, gates(body, sums, 4), states[1])


def lstm_of_both(body: Model, x: Operand, states: list[Operand]) -> list[Operand]:
    """TensorFlow 1: one product, gates in another order, and 1 is added to the forget gate."""
    both = add(body, "concat", x, states[0], axis=1)
    i, g, f, o = gates(body, product(body, 1, both, 4 * UNITS, bias=True), 4)
    return lstm_of(body, [i, add(body, "add", f, constant(body, 1)), g, o], states[1])


def mixed(body: Model, z: Operand, h: Operand, n: Operand) -> list[Operand]:
    rest = add(body, "sub", constant(body, 1), z)
    return [add(body, "add", add(body, "mul", z, h), add(body, "mul", rest, n))]


def gru(body: Model, x: Operand, states: list[Operand]) -> list[Operand]:
    """Keras, with reset_after=False: the reset gate is before the product."""
    (h,) = states
    of_x = gates(body, product(body, 1, x, 3 * UNITS, bias=True), 3)
    of_h = gates(body, product(body, 2, h, 2 * UNITS), 2)
    z, r = (add(body, "logistic", add(body, "add", a, b)) for a, b in zip(of_x[:2], of_h, strict=True))
    late = product(body, 3, add(body, "mul", r, h))
    return mixed(body, z, h, add(body, "tanh", add(body, "add", late, of_x[2])))


def gru_reset_after(body: Model, x: Operand, states: list[Operand]) -> list[Operand]:
    (h,) = states
    of_x = gates(body, product(body, 1, x, 3 * UNITS, bias=True), 3)
    whole = product(body, 2, h, 3 * UNITS, bias=True)
    of_h = [part(body, whole, -1, k * UNITS, UNITS) for k in range(3)]
    z, r = (add(body, "logistic", add(body, "add", a, b)) for a, b in zip(of_x[:2], of_h[:2], strict=True))
    n = add(body, "tanh", add(body, "add", of_x[2], add(body, "mul", r, of_h[2])))
    return mixed(body, z, h, n)


def gru_by_difference(body: Model, x: Operand, states: list[Operand]) -> list[Operand]:
    (h,) = states
    of_x, of_h = (gates(body, product(body, k, v, 3 * UNITS, bias=True), 3) for k, v in ((1, x), (2, h)))
    r, z = (add(body, "logistic", add(body, "add", a, b)) for a, b in zip(of_x[:2], of_h[:2], strict=True))
    n = add(body, "tanh", add(body, "add", add(body, "mul", of_h[2], r), of_x[2]))
    return [add(body, "add", add(body, "mul", add(body, "sub", h, n), z), n)]


KINDS: dict[str, tuple[Step, int, str]] = {
    "plain": (plain, 1, "recurrence"),
    "plain, fused": (plain_fused, 1, "recurrence"),
    "plain of both": (plain_of_both, 1, "recurrence"),
    "lstm": (lstm, 2, "lstm_recurrence"),
    "lstm of both": (lstm_of_both, 2, "lstm_recurrence"),
    "gru": (gru, 1, "gru_recurrence"),
    "gru, reset after": (gru_reset_after, 1, "gru_reset_after"),
    "gru by difference": (gru_by_difference, 1, "gru_reset_after"),
}


def looping(
    step: Step, count: int, listed: bool, results: Sequence[int], given: bool = False, batch: int = BATCH
) -> Model:
    """A loop with the state of a counter, a list of all h or the last one, h, perhaps c, and x."""
    model, condition, body = Model(), Model(), Model()
    x = model.input("x", float32(STEPS, batch, SIZE))
    rows = STEPS if listed else 1
    start = [model.constant("i", np.int32(0)), constant(model, np.zeros((rows, batch, UNITS)))]
    for k in range(count):
        state = weights(5 + k, batch, UNITS)
        start.append(model.input(f"state{k}", float32(*state.shape)) if given else constant(model, state))
    start.append(x)
    for graph in (condition, body):
        for operand in start:
            graph.input(operand.name, operand.type)
    condition.output(add(condition, "less", condition.inputs[0], condition.constant("n", np.int32(STEPS))))
    i, states, *before, whole = body.inputs
    behind = step(body, add(body, "gather", whole, i, axis=0), before)
    new = add(body, "reshape", behind[0], shape=(1, batch, UNITS))
    if listed:
        places = [add(body, "reshape", i, shape=(1,)), body.constant("zeros", np.zeros(2, np.int32))]
        new = add(body, "dynamic_update_slice", states, new, add(body, "concat", *places, axis=0), clip=False)
    body.output(add(body, "add", i, body.constant("1", np.int32(1))), new, *behind, whole)
    found = model.add("while_loop", start, {"condition": condition, "body": body})
    model.output(*(found[1 + k] for k in results))
    return model


@pytest.mark.sample(2)
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_cells_in_loops(kind: str, listed: bool, backend: str) -> None:
    step, count, op = KINDS[kind]
    for results in ([0], [*range(1 + count)]):
        for given in (False, True):
            for batch in (1, BATCH):
                model = looping(step, count, listed, results, given, batch)
                found = ops(same(model, fuse_step_loops))
                assert op in found and "while_loop" not in found
                inputs = [weights(20 + k, *i.type.shape) for k, i in enumerate(model.inputs)]
                expected = model.evaluate([v.astype(np.float64) for v in inputs])
                with model.compile(backend) as compiled:
                    got = compiled(*inputs)
                got = [got] if len(results) == 1 else got
                for a, b in zip(got, expected, strict=True):
                    np.testing.assert_allclose(a, b, atol=4e-6)


def unlike(kind: str) -> Step:
    """Change what a step of a cell computes."""
    step, _, _ = KINDS[kind]

    def changed(body: Model, x: Operand, states: list[Operand]) -> list[Operand]:
        h, *others = step(body, x, [add(body, "neg", states[0]), *states[1:]])
        return [h, *others]

    return changed


def swapped(body: Model, x: Operand, states: list[Operand]) -> list[Operand]:
    """An LSTM that forgets h instead of c."""
    sums = add(body, "add", product(body, 1, x, 4 * UNITS), product(body, 2, states[0], 4 * UNITS))
    return lstm_of(body, gates(body, sums, 4), states[0])


def three(body: Model, x: Operand, states: list[Operand]) -> list[Operand]:
    """A layer of x, h and the squares of x."""
    sums = add(body, "add", product(body, 1, x), product(body, 2, states[0]))
    return [add(body, "tanh", add(body, "add", sums, product(body, 3, add(body, "square", x))))]


def single(body: Model, x: Operand, states: list[Operand]) -> list[Operand]:
    """A GRU with one update gate for all units."""
    (h,) = states
    z = add(body, "logistic", add(body, "add", product(body, 1, x, 1), product(body, 2, h, 1)))
    r = add(body, "logistic", add(body, "add", product(body, 3, x), product(body, 4, h)))
    n = add(body, "add", product(body, 5, x), add(body, "mul", r, product(body, 6, h)))
    return mixed(body, z, h, add(body, "tanh", n))


def computed(body: Model, x: Operand, states: list[Operand]) -> list[Operand]:
    """A layer whose weights are computed."""
    filter = add(body, "mul", constant(body, weights(1, UNITS, SIZE)), part(body, x, 1, 0, 1))
    sums = add(body, "fully_connected", x, filter)
    return [add(body, "tanh", add(body, "add", sums, product(body, 2, states[0])))]


@pytest.mark.parametrize(
    ("step", "count"),
    [*((unlike(kind), KINDS[kind][1]) for kind in KINDS), (swapped, 2), (three, 1), (single, 1)],
    ids=[*KINDS, "swapped", "three", "single"],
)
def test_other_cells_stay(step: Step, count: int) -> None:
    model = looping(step, count, True, [0])
    assert fuse_step_loops(model) is model
    assert "while_loop" in ops(optimise(model))


def test_computed_weights_stay() -> None:
    model = looping(computed, 1, True, [0], batch=UNITS)
    assert fuse_step_loops(model) is model
