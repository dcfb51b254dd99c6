"""fuse_steps: cells of each kind, steps one after the other as TensorFlow's converter writes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.fold import fold_constants
from gpunn.passes.rejoin import rejoin
from gpunn.passes.unrolled import fuse_steps
from gpunn.types import float32
from tests.passes.same import ops, same
from tests.passes.test_cells import (
    BATCH,
    KINDS,
    SIZE,
    STEPS,
    UNITS,
    Step,
    constant,
    gates,
    mixed,
    product,
    unlike,
)
from tests.passes.test_layer_norm import add
from tests.passes.unrolled import weights


def lstm_on_zeros(model: Model, x: Operand) -> list[Operand]:
    i, _, g, o = gates(model, add(model, "add", product(model, 1, x, 4 * UNITS), bias(model, 4)), 4)
    cell = add(model, "mul", add(model, "logistic", i), add(model, "tanh", g))
    return [add(model, "mul", add(model, "logistic", o), add(model, "tanh", cell)), cell]


def gru_on_zeros(model: Model, x: Operand) -> list[Operand]:
    z, _, n = gates(model, product(model, 1, x, 3 * UNITS, bias=True), 3)
    rest = add(model, "sub", constant(model, 1), add(model, "logistic", z))
    return [add(model, "mul", rest, add(model, "tanh", n))]


def gru_reset_after_on_zeros(model: Model, x: Operand) -> list[Operand]:
    of_x = gates(model, product(model, 1, x, 3 * UNITS, bias=True), 3)
    of_h = [constant(model, bias) for bias in np.split(weights(2 + 50, 3 * UNITS), 3)]
    z, r = (add(model, "logistic", add(model, "add", a, b)) for a, b in zip(of_x[:2], of_h[:2], strict=True))
    n = add(model, "tanh", add(model, "add", of_x[2], add(model, "mul", r, of_h[2])))
    return [add(model, "mul", add(model, "sub", constant(model, 1), z), n)]


def plain_on_zeros(model: Model, x: Operand) -> list[Operand]:
    return [add(model, "tanh", product(model, 1, x, bias=True))]


def bias(model: Model, count: int) -> Operand:
    return constant(model, weights(3, count * UNITS))


# What a converter leaves of a step whose states are known to be 0.
ON_ZEROS = {
    "plain": plain_on_zeros,
    "lstm": lstm_on_zeros,
    "gru": gru_on_zeros,
    "gru, reset after": gru_reset_after_on_zeros,
}


def unrolled(
    kind: str, start: str, batch: int = BATCH, axis: int = 0, reverse: bool = False, other: Step | None = None
) -> Model:
    """Rows of x along an axis, and the steps on them; start: "given", "zeros" or "left out" first states.

    other: the cell of the last step. Results are all states h, and the last states.
    """
    step, count, _ = KINDS[kind]
    model = Model()
    shape = (STEPS, batch, SIZE) if axis == 0 else (batch, STEPS, SIZE)
    rows = model.add("unstack", [model.input("x", float32(*shape))], {"axis": axis})
    if start == "given":
        states = [model.input(f"state{k}", float32(batch, UNITS)) for k in range(count)]
    else:
        states = [constant(model, np.zeros((batch, UNITS)))] * count
    made = []
    for number, row in enumerate(rows[::-1] if reverse else rows):
        cell = other if other is not None and number == STEPS - 1 else step
        left_out = start == "left out" and not made
        states = ON_ZEROS[kind](model, row) if left_out else cell(model, row, states)
        made.append(states[0])
    (listed,) = model.add("stack", made[::-1] if reverse else made, {"axis": axis})
    model.output(listed, *states)
    return model


def fused(model: Graph) -> Graph:
    return fuse_steps(fold_constants(model))


STARTS = [(kind, start) for kind in KINDS for start in ("given", "zeros", "left out")]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kind", "start"), [(kind, start) for kind, start in STARTS if start != "left out" or kind in ON_ZEROS]
)
def test_cells_step_by_step(kind: str, start: str, backend: str) -> None:
    for batch, axis, reverse in ((1, 0, False), (1, 1, True), (BATCH, 1, False), (BATCH, 0, True)):
        model = unrolled(kind, start, batch, axis, reverse)
        found = rejoin(same(model, fused))
        assert ops(found).count(KINDS[kind][2]) == 1
        assert not {"logistic", "tanh", "relu", "stack"} & {*ops(found)}
        inputs = [weights(20 + k, *i.type.shape) for k, i in enumerate(model.inputs)]
        expected = model.evaluate([v.astype(np.float64) for v in inputs])
        with model.compile(backend) as compiled:
            for a, b in zip(compiled(*inputs), expected, strict=True):
                np.testing.assert_allclose(a, b, atol=4e-6)


def with_own_filter(operation: Operation, more: float) -> Operation:
    """Return a product with a constant of its own, one of whose weights is larger."""
    x, filter, *rest = operation.inputs
    assert filter is not None and filter.value is not None
    value = filter.value.copy()
    value[0, 0] += more
    return replace(operation, inputs=(x, Model().constant("own", value), *rest))


@pytest.mark.parametrize("kind", KINDS)
def test_each_step_may_have_its_own_constants(kind: str) -> None:
    """Core ML files have a filter for each product; those of other values are of other layers."""
    model = unrolled(kind, "given")
    for more in (0.0, 0.5):
        operations = [
            with_own_filter(o, more * number) if o.op == "fully_connected" else o
            for number, o in enumerate(model.operations)
        ]
        assert (KINDS[kind][2] in ops(same(model.with_operations(operations), fused))) is (more == 0)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "both" not in kind])
def test_first_states_of_one_row_stay(kind: str) -> None:
    """They broadcast to the sequences."""
    step, count, _ = KINDS[kind]
    model = Model()
    rows = model.add("unstack", [model.input("x", float32(STEPS, BATCH, SIZE))], {"axis": 0})
    states = [model.input(f"state{k}", float32(1, UNITS)) for k in range(count)]
    for row in rows:
        states = step(model, row, states)
    model.output(*states)
    assert KINDS[kind][2] not in ops(same(model, fused))


def test_gates_that_add_the_same_numbers_stay() -> None:
    """Those of x are not a piece for each gate."""
    model = Model()
    x = model.input("x", float32(STEPS, BATCH, UNITS))
    h = model.input("h", float32(BATCH, UNITS))
    for row in model.add("unstack", [x], {"axis": 0}):
        of_h = gates(model, product(model, 2, h, 3 * UNITS, bias=True), 3)
        z, r = (add(model, "logistic", add(model, "add", row, b)) for b in of_h[:2])
        n = add(model, "tanh", add(model, "add", row, add(model, "mul", r, of_h[2])))
        (h,) = mixed(model, z, h, n)
    model.output(h)
    assert "gru_reset_after" not in ops(same(model, fused))


@pytest.mark.parametrize("kind", KINDS)
def test_a_last_step_that_is_another_stays(kind: str) -> None:
    """Steps must read all of x; those before the last one do not."""
    model = unrolled(kind, "given", other=unlike(kind))
    assert KINDS[kind][2] not in ops(optimise(model))
