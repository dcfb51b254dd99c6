"""multiply_from_left: layers between two transpositions become products with the weights on the left."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes.left_product import multiply_from_left
from gpunn.types import DType, Shape, TensorType, float32
from tests.ops.harness import EPS, random
from tests.passes.same import expect_unchanged, ops, same
from tests.passes.test_layer_norm import add

SHAPE = (2, 5, 6)
Build = Callable[[Model, Operand], Operand]


def swapped(model: Model, x: Operand) -> Operand:
    *others, a, b = range(x.type.rank)
    return add(model, "transpose", x, perm=(*others, b, a))


def layer(model: Model, x: Operand, outputs: int, bias: bool = True, keep_dims: bool = True) -> Operand:
    depth = x.type.shape[-1]
    weights = model.constant("w", random(outputs, outputs, depth, low=-1, high=1))
    biases = [model.constant("b", random(3, outputs))] if bias else []
    return add(model, "fully_connected", x, weights, *biases, keep_dims=keep_dims)


def one(model: Model, x: Operand) -> Operand:
    return swapped(model, layer(model, swapped(model, x), 7))


def without_a_bias(model: Model, x: Operand) -> Operand:
    return swapped(model, layer(model, swapped(model, x), 7, bias=False))


def perceptron(model: Model, x: Operand) -> Operand:
    """As in MLP-Mixer, beside what it adds to."""
    between = add(model, "gelu", layer(model, swapped(model, x), 9))
    return add(model, "add", x, swapped(model, layer(model, between, 5)))


def gate(model: Model, x: Operand) -> Operand:
    """As in gMLP; the layer has an activation."""
    y = swapped(model, x)
    weights, bias = model.constant("w", random(0, 5, 5)), model.constant("b", random(1, 5))
    y = add(model, "fully_connected", y, weights, bias, keep_dims=True, activation="relu")
    return add(model, "mul", x, swapped(model, y))


def of_one_sample(model: Model, x: Operand) -> Operand:
    """The layer loses the sample, and a reshape brings it back."""
    x = add(model, "reshape", x, shape=(1, 10, 6))
    y = layer(model, swapped(model, x), 4, keep_dims=False)
    return swapped(model, add(model, "reshape", y, shape=(1, 6, 4)))


def of_one_matrix(model: Model, x: Operand) -> Operand:
    """The reshape stands behind the second transposition."""
    x = add(model, "reshape", x, shape=(1, 10, 6))
    y = swapped(model, layer(model, swapped(model, x), 4, bias=False, keep_dims=False))
    return add(model, "reshape", y, shape=(1, 4, 6))


def of_stacks(model: Model, x: Operand) -> Operand:
    x = add(model, "reshape", x, shape=(2, 1, 5, 6))
    return swapped(model, add(model, "tanh", layer(model, swapped(model, x), 3)))


@pytest.mark.parametrize(
    "build", [one, without_a_bias, perceptron, gate, of_one_sample, of_one_matrix, of_stacks]
)
def test_forms(build: Build, backend: str) -> None:
    model = Model()
    model.output(build(model, model.input("x", float32(*SHAPE))))
    found = ops(same(model, multiply_from_left))
    assert "batch_matmul" in found and not {"transpose", "fully_connected"} & {*found}
    x = random(0, *SHAPE)
    with model.compile(backend) as compiled:
        expected = model.evaluate([x])[0]
        np.testing.assert_allclose(compiled(x), expected, atol=64 * EPS * max(np.abs(expected).max(), 1))


def test_who_else_reads_the_transposed_tensor_has_it() -> None:
    model = Model()
    turned = swapped(model, model.input("x", float32(*SHAPE)))
    model.output(swapped(model, layer(model, turned, 7)), add(model, "tanh", turned))
    assert sorted(ops(same(model, multiply_from_left))) == ["add", "batch_matmul", "tanh", "transpose"]


def not_back(model: Model, x: Operand) -> Operand:
    return add(model, "tanh", layer(model, swapped(model, x), 7))


def another_order(model: Model, x: Operand) -> Operand:
    return add(model, "transpose", layer(model, swapped(model, x), 7), perm=(2, 1, 0))


def from_another_order(model: Model, x: Operand) -> Operand:
    return swapped(model, layer(model, add(model, "transpose", x, perm=(2, 1, 0)), 7))


def computed_weights(model: Model, x: Operand) -> Operand:
    weights = add(model, "reduce_sum", add(model, "reshape", x, shape=(2, 6, 5)), axes=(0,), keep_dims=False)
    return swapped(model, add(model, "fully_connected", swapped(model, x), weights, keep_dims=True))


def samples_in_rows(model: Model, x: Operand) -> Operand:
    """The rows of both samples are one matrix."""
    return swapped(model, layer(model, swapped(model, x), 7, keep_dims=False))


def other_rows(model: Model, x: Operand) -> Operand:
    y = layer(model, swapped(model, x), 8)
    return swapped(model, add(model, "reshape", y, shape=(2, 3, 16)))


def read_between(model: Model, x: Operand) -> Operand:
    y = layer(model, swapped(model, x), 5)
    return add(model, "mul", swapped(model, y), add(model, "reshape", y, shape=SHAPE))


def two_operands(model: Model, x: Operand) -> Operand:
    y = layer(model, swapped(model, x), 5)
    return swapped(model, add(model, "add", y, swapped(model, x)))


STAY = (
    *(not_back, another_order, from_another_order, computed_weights),
    *(samples_in_rows, other_rows, read_between, two_operands),
)


@pytest.mark.parametrize("build", STAY)
def test_others_stay(build: Build) -> None:
    expect_unchanged(multiply_from_left, build, SHAPE)


def test_results_of_the_model_halves_and_vectors_stay() -> None:
    model = Model()
    model.output(add(model, "transpose", model.input("x", float32(3)), perm=(0,)))
    assert multiply_from_left(model) is model
    model = Model()
    y = layer(model, swapped(model, model.input("x", float32(*SHAPE))), 7)
    model.output(y, swapped(model, y))
    assert multiply_from_left(model) is model
    model = Model()
    shape: Shape = (3, 4)
    turned = swapped(model, model.input("x", TensorType(DType.FLOAT16, shape)))
    weights = model.constant("w", random(0, 2, 3).astype(np.float16))
    model.output(swapped(model, add(model, "fully_connected", turned, weights, keep_dims=True)))
    assert multiply_from_left(model) is model
