"""fuse_swish: x times its gate is one operation, which convolutions apply to their sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.swish import fuse_swish
from gpunn.types import DType, Quantization, TensorType, float32
from tests.passes.same import ops, same


def add(model: Model, op: str, *inputs: Operand, **attrs: Any) -> Operand:
    return model.add(op, inputs, attrs)[0]


@pytest.mark.parametrize("first", [True, False])
def test_either_factor_may_be_the_gate(first: bool) -> None:
    model = Model()
    x = add(model, "tanh", model.input("x", float32(2, 3)))
    gate = add(model, "logistic", x)
    model.output(add(model, "mul", *((gate, x) if first else (x, gate))))
    assert ops(same(model, fuse_swish)) == ["tanh", "silu"]


def test_a_convolution_applies_it() -> None:
    model = Model()
    filter = model.constant("w", np.linspace(-1, 1, 8).reshape(4, 1, 1, 2).astype(np.float32))
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": "valid", "activation": None}
    x = add(model, "conv2d", model.input("x", float32(1, 3, 3, 2)), filter, **attrs)
    model.output(add(model, "mul", x, add(model, "logistic", x)))
    (layer,) = same(model, optimise).operations
    assert (layer.op, layer.activation) == ("conv2d", "silu")


def test_the_gate_may_have_another_reader() -> None:
    model = Model()
    x = model.input("x", float32(5))
    gate = add(model, "logistic", x)
    model.output(add(model, "mul", x, gate), add(model, "neg", gate))
    assert fuse_swish(model) is model


def test_a_gate_of_something_else_stays() -> None:
    model = Model()
    x, z = model.input("x", float32(5)), model.input("z", float32(5))
    model.output(add(model, "mul", x, add(model, "logistic", z)))
    assert fuse_swish(model) is model


def test_a_product_with_an_activation_stays() -> None:
    model = Model()
    x = model.input("x", float32(5))
    model.output(add(model, "mul", x, add(model, "logistic", x), activation="relu"))
    assert fuse_swish(model) is model


def test_quantised_products_keep_their_bits() -> None:
    model = Model()
    x = model.input("x", TensorType(DType.INT8, (5,), Quantization((0.1,), (3,))))
    gate = add(model, "logistic", x)
    model.output(*model.add("mul", [x, gate], {}, quantization=[Quantization((0.05,), (-5,))]))
    assert fuse_swish(model) is model


def relu01(model: Model, x: Operand, sixth: float = 1 / 6, half: float = 0.5) -> Operand:
    return add(model, "relu01", add(model, "add", constant(model, half), times(model, x, sixth)))


def relu6(model: Model, x: Operand) -> Operand:
    return times(model, add(model, "relu6", add(model, "add", x, constant(model, 3))), 1 / 6)


def relu6_over_6(model: Model, x: Operand) -> Operand:
    return add(
        model, "div", add(model, "relu6", add(model, "add", x, constant(model, 3))), constant(model, 6)
    )


def times(model: Model, x: Operand, factor: float) -> Operand:
    return add(model, "mul", x, constant(model, factor))


def constant(model: Model, value: float) -> Operand:
    return model.constant(f"constant {len(model.operations)} {value}", np.float32(value))


def above(model: Model, x: Operand, bound: float = -3.0) -> Operand:
    below = add(model, "less", x, constant(model, bound))
    return add(model, "select", below, add(model, "zeros_like", x), x)


GATES = [relu01, relu6, relu6_over_6]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("thresholded", [True, False])
@pytest.mark.parametrize("gate", GATES)
def test_gates_of_straight_lines(gate: Any, thresholded: bool, first: bool) -> None:
    model = Model()
    x = add(model, "tanh", times(model, model.input("x", float32(200)), 9))
    found = x = times(model, x, 5)
    if thresholded:
        found = above(model, x)
    opened = gate(model, found)
    model.output(add(model, "mul", *((opened, found) if first else (found, opened))))
    assert ops(same(model, fuse_swish)) == ["mul", "tanh", "mul", "hard_swish"]


@pytest.mark.parametrize("bound", [-3.0, -4.0])
def test_what_a_threshold_does_to_infinite_and_undefined_elements(bound: float) -> None:
    values = np.float32([-np.inf, -1e30, -4, -3, -2, 0, 2, 3, 4, 1e30, np.inf, np.nan])
    model = Model()
    found = above(model, model.input("x", float32(12)), bound)
    model.output(add(model, "mul", found, relu01(model, found)))
    fused = fuse_swish(model)
    assert ops(fused) == ["hard_swish"]
    expected, got = (g.evaluate([values.astype(np.float64)])[0] for g in (model, fused))
    np.testing.assert_allclose(got, expected, rtol=1e-7)
    assert got[0] == 0 and np.isnan(got[-1])


@pytest.mark.parametrize(
    "gate",
    [
        lambda model, x: relu01(model, x, 1 / 5),
        lambda model, x: relu01(model, x, 1 / 6, 0.25),
        lambda model, x: relu6(model, add(model, "neg", x)),
    ],
)
def test_other_lines_stay(gate: Any) -> None:
    model = Model()
    x = model.input("x", float32(5))
    model.output(add(model, "mul", x, gate(model, x)))
    assert fuse_swish(model) is model


def test_a_threshold_where_the_gate_is_open_stays() -> None:
    model = Model()
    found = above(model, model.input("x", float32(5)), -2.0)
    model.output(add(model, "mul", found, relu01(model, found)))
    assert ops(same(model, fuse_swish)) == ["less", "zeros_like", "select", "hard_swish"]
