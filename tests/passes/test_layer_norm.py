"""fuse_layer_norms: every form in which converters write it becomes one operation, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.layer_norm import fuse_layer_norms
from gpunn.types import Shape, float32
from tests.passes.same import expect_unchanged, ops, same

SHAPE = (2, 5, 8)
Build = Callable[[Model, Operand], Operand]


def add(model: Model, op: str, *inputs: Operand | float, **attrs: Any) -> Operand:
    """Add an op; numbers are constants of one element."""
    operands = [model.constant("c", np.float32(i)) if isinstance(i, float) else i for i in inputs]
    return model.add(op, operands, attrs)[0]


def mean(model: Model, x: Operand, axis: int = -1) -> Operand:
    return add(model, "mean", x, axes=(axis,), keep_dims=True)


def reciprocal(model: Model, squares: Operand, epsilon: float = 1e-5, axis: int = -1) -> Operand:
    return add(model, "rsqrt", add(model, "add", mean(model, squares, axis), epsilon))


def weights(model: Model, *shape: int) -> Operand:
    return model.constant("w", np.linspace(0.5, 1.5, int(np.prod(shape)), dtype=np.float32).reshape(shape))


def of_a_square(model: Model, x: Operand) -> Operand:
    away = add(model, "sub", x, mean(model, x))
    return add(model, "mul", away, reciprocal(model, add(model, "square", away)))


def of_a_product(model: Model, x: Operand) -> Operand:
    away = add(model, "sub", x, mean(model, x))
    return add(model, "mul", reciprocal(model, add(model, "mul", away, away)), away)


def of_a_squared_difference(model: Model, x: Operand) -> Operand:
    centre = mean(model, x)
    factor = reciprocal(model, add(model, "squared_difference", x, centre))
    return add(model, "mul", add(model, "sub", x, centre), factor)


def divided(model: Model, x: Operand) -> Operand:
    away = add(model, "sub", x, mean(model, x))
    variance = mean(model, add(model, "square", away))
    return add(model, "div", away, add(model, "sqrt", add(model, "add", 1e-5, variance)))


def of_sums(model: Model, x: Operand) -> Operand:
    def mean_of(of: Operand, op: str, share: float) -> Operand:
        return add(model, op, add(model, "reduce_sum", of, axes=(2,), keep_dims=True), share)

    away = add(model, "sub", x, mean_of(x, "mul", 1 / 8))
    variance = mean_of(add(model, "square", away), "div", 8.0)
    return add(model, "mul", away, add(model, "rsqrt", add(model, "add", variance, 1e-3)))


def of_two_differences(model: Model, x: Operand) -> Operand:
    centre = mean(model, x)
    square = add(model, "square", add(model, "sub", x, centre))
    return add(model, "mul", add(model, "sub", x, centre), reciprocal(model, square))


def along_another_axis(model: Model, x: Operand) -> Operand:
    away = add(model, "sub", x, mean(model, x, 1))
    return add(model, "mul", away, reciprocal(model, add(model, "square", away), axis=1))


def without_the_mean(model: Model, x: Operand) -> Operand:
    return add(model, "mul", x, reciprocal(model, add(model, "square", x)))


def of_a_difference_of_others(model: Model, x: Operand) -> Operand:
    """RMSNorm of a difference, in which no mean is taken out."""
    away = add(model, "sub", x, add(model, "sin", x))
    return add(model, "mul", away, reciprocal(model, add(model, "square", away)))


def of_a_mean_along_another_axis(model: Model, x: Operand) -> Operand:
    """RMSNorm, too: along its own axis nothing is taken out."""
    away = add(model, "sub", x, mean(model, x, 1))
    return add(model, "mul", away, reciprocal(model, add(model, "square", away)))


def of_all_samples(model: Model, x: Operand) -> Operand:
    return litert_torch(model, x, to=(5, 1))


def along_two_axes(model: Model, x: Operand) -> Operand:
    centre = add(model, "mean", x, axes=(1, 2), keep_dims=True)
    square = add(model, "square", add(model, "sub", x, centre))
    variance = add(model, "mean", square, axes=(1, 2), keep_dims=True)
    factor = add(model, "rsqrt", add(model, "add", variance, 1e-5))
    return add(model, "mul", add(model, "sub", x, centre), factor)


CENTRED = (
    *(of_a_square, of_a_product, of_a_squared_difference, divided, of_sums, of_two_differences),
    *(along_another_axis, along_two_axes, of_all_samples),
)
OTHERS = without_the_mean, of_a_difference_of_others, of_a_mean_along_another_axis


@pytest.mark.parametrize("build", [*CENTRED, *OTHERS])
def test_forms(build: Build, backend: str) -> None:
    model = Model()
    x = model.input("x", float32(*SHAPE))
    model.output(build(model, x))
    found = same(model, lambda m: optimise(m))  # type: ignore[arg-type, return-value]
    assert ops(found)[-1] == "layer_normalization"
    (norm,) = (o for o in found.operations if o.op == "layer_normalization")
    assert norm.attrs["centred"] is (build in CENTRED)
    given = np.random.default_rng(0).normal(2, 3, SHAPE).astype(np.float32)
    with model.compile(backend) as compiled:
        np.testing.assert_allclose(compiled(given), model.evaluate([given])[0], rtol=1e-5, atol=1e-5)


def keras(model: Model, x: Operand, scale: Operand | None, bias: Operand) -> Operand:
    centre = mean(model, x)
    factor = reciprocal(model, add(model, "squared_difference", x, centre), 1e-3)
    if scale is not None:
        factor = add(model, "mul", factor, scale)
    rest = add(model, "sub", bias, add(model, "mul", centre, factor))
    return add(model, "add", add(model, "mul", x, factor), rest, activation="relu")


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("computed", [True, False])
def test_as_keras_writes_it(scaled: bool, computed: bool) -> None:
    model = Model()
    x, bias = model.input("x", float32(*SHAPE)), weights(model, 8)
    if computed:
        bias = add(model, "sin", model.input("b", float32(8)))
    model.output(keras(model, x, weights(model, 8) if scaled else None, bias))
    found = same(model, lambda m: optimise(m))  # type: ignore[arg-type, return-value]
    expected = ["layer_normalization", *["mul"] * scaled, "add"]
    assert ops(found) == (["sin", *expected] if computed else expected)
    assert found.operations[-1].activation == "relu"


@pytest.mark.parametrize("shape", [(1, 5, 8), (1, 2, 5, 8), (1, 1, 8)], ids=str)
@pytest.mark.parametrize("scaled", [True, False])
def test_as_litert_torch_writes_it(shape: Shape, scaled: bool, backend: str) -> None:
    """Means lose the dimension, and the numbers of rows get it back in different places."""
    model = Model()
    x = model.input("x", float32(*shape))
    y = litert_torch(model, x)
    if scaled:
        y = add(model, "mul", y, weights(model, shape[-1]))
    model.output(y)
    found = same(model, lambda m: optimise(m))  # type: ignore[arg-type, return-value]
    assert ops(found) == ["layer_normalization", *["mul"] * scaled]
    given = np.random.default_rng(0).normal(2, 3, shape).astype(np.float32)
    with model.compile(backend) as compiled:
        np.testing.assert_allclose(compiled(given), model.evaluate([given])[0], rtol=1e-5, atol=1e-5)


def litert_torch(model: Model, x: Operand, bias: float = 0.0, to: Shape | None = None) -> Operand:
    """x f + reshape(bias - mean f). to: the shape that numbers of rows get."""
    axes = 0, x.type.rank - 1
    to = to or (*x.type.shape[:-1], 1)
    centre = add(model, "mean", x, axes=axes, keep_dims=False)
    square = add(model, "squared_difference", x, add(model, "reshape", centre, shape=to))
    variance = add(model, "mean", square, axes=axes, keep_dims=False)
    factor = add(model, "rsqrt", add(model, "add", variance, 1e-5))
    rest = add(model, "sub", bias, add(model, "mul", factor, centre))
    scaled = add(model, "mul", x, add(model, "reshape", factor, shape=to))
    return add(model, "add", scaled, add(model, "reshape", rest, shape=to))


def test_a_root_mean_square_with_a_reshape(backend: str) -> None:
    """As LiteRT Torch writes RMSNorm: between mean and root the dimension comes back."""
    model = Model()
    x = model.input("x", float32(*SHAPE))
    total = add(model, "mean", add(model, "mul", x, x), axes=(2,), keep_dims=False)
    spread = add(model, "reshape", add(model, "add", total, 1e-6), shape=(2, 5, 1))
    model.output(add(model, "mul", x, add(model, "rsqrt", spread)))
    found = same(model, lambda m: optimise(m))  # type: ignore[arg-type, return-value]
    assert ops(found) == ["layer_normalization"]


def reshaped_with_a_bias(model: Model, x: Operand) -> Operand:
    return litert_torch(model, rows_of(model, x), 1.0)


def reshaped_to_columns(model: Model, x: Operand) -> Operand:
    """Eight numbers of rows stand beside eight columns."""
    rows = {"begin": (0, 0, 0), "end": (2, 4, 8), "strides": (1, 1, 1), "shrink_axes": ()}
    square = add(model, "reshape", add(model, "strided_slice", x, **rows), shape=(1, 8, 8))
    return litert_torch(model, square, to=(1, 1, 8))


def rows_of(model: Model, x: Operand) -> Operand:
    return add(model, "reshape", x, shape=(1, 10, 8))


def no_epsilon(model: Model, x: Operand) -> Operand:
    away = add(model, "sub", x, mean(model, x))
    return add(model, "mul", away, add(model, "rsqrt", mean(model, add(model, "square", away))))


def another_share(model: Model, x: Operand) -> Operand:
    away = add(model, "sub", x, mean(model, x))
    total = add(model, "reduce_sum", add(model, "square", away), axes=(2,), keep_dims=True)
    variance = add(model, "mul", total, 1 / 7)  # Bessel's correction
    return add(model, "mul", away, add(model, "rsqrt", add(model, "add", variance, 1e-5)))


def another_reader(model: Model, x: Operand) -> Operand:
    away = add(model, "sub", x, mean(model, x))
    factor = reciprocal(model, add(model, "square", away))
    return add(model, "add", add(model, "mul", away, factor), factor)


def of_something_else(model: Model, x: Operand) -> Operand:
    away = add(model, "sub", x, mean(model, x))
    return add(model, "mul", away, reciprocal(model, add(model, "square", x)))


def an_infinite_epsilon(model: Model, x: Operand) -> Operand:
    away = add(model, "sub", x, mean(model, x))
    return add(model, "mul", away, reciprocal(model, add(model, "square", away), np.inf))


def an_undefined_epsilon(model: Model, x: Operand) -> Operand:
    away = add(model, "sub", x, mean(model, x))
    return add(model, "mul", away, reciprocal(model, add(model, "square", away), np.nan))


def an_epsilon_of_more_dimensions(model: Model, x: Operand) -> Operand:
    """The result has four dimensions, x has three."""
    away = add(model, "sub", x, mean(model, x))
    epsilon = model.constant("epsilon", np.full((1, 1, 1, 1), 1e-5, np.float32))
    spread = add(model, "add", mean(model, add(model, "square", away)), epsilon)
    return add(model, "mul", away, add(model, "rsqrt", spread))


STAYS = (
    *(no_epsilon, another_share, another_reader, of_something_else),
    *(an_infinite_epsilon, an_undefined_epsilon, an_epsilon_of_more_dimensions),
    *(reshaped_with_a_bias, reshaped_to_columns),
)


@pytest.mark.parametrize("build", STAYS)
def test_what_stays(build: Build) -> None:
    expect_unchanged(fuse_layer_norms, build, SHAPE)


@pytest.mark.parametrize(("count", "found"), [(2047, False), (2048, True)])
def test_one_term_fewer_is_no_mean(count: int, found: bool) -> None:
    """Bessel's correction of long rows differs from a mean by little, but by more than rounding does."""
    model = Model()
    x = model.input("x", float32(2, 2048))
    away = add(model, "sub", x, mean(model, x))
    total = add(model, "reduce_sum", add(model, "square", away), axes=(1,), keep_dims=True)
    spread = add(model, "add", add(model, "mul", total, 1 / count), 1e-5)
    model.output(add(model, "mul", away, add(model, "rsqrt", spread)))
    assert ("layer_normalization" in ops(fuse_layer_norms(model))) is found
