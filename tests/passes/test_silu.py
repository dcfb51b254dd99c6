"""fuse_silu: x times logistic(x) is one operation, which convolutions apply to their sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.silu import fuse_silu
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
    assert ops(same(model, fuse_silu)) == ["tanh", "silu"]


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
    assert fuse_silu(model) is model


def test_a_gate_of_something_else_stays() -> None:
    model = Model()
    x, z = model.input("x", float32(5)), model.input("z", float32(5))
    model.output(add(model, "mul", x, add(model, "logistic", z)))
    assert fuse_silu(model) is model


def test_a_product_with_an_activation_stays() -> None:
    model = Model()
    x = model.input("x", float32(5))
    model.output(add(model, "mul", x, add(model, "logistic", x), activation="relu"))
    assert fuse_silu(model) is model


def test_quantised_products_keep_their_bits() -> None:
    model = Model()
    x = model.input("x", TensorType(DType.INT8, (5,), Quantization((0.1,), (3,))))
    gate = add(model, "logistic", x)
    model.output(*model.add("mul", [x, gate], {}, quantization=[Quantization((0.05,), (-5,))]))
    assert fuse_silu(model) is model
