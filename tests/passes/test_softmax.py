"""fuse_softmax: softmax and log_softmax that are written out become one operation, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes.softmax import fuse_softmax
from gpunn.types import DType, TensorType, float32
from tests.ops.harness import EPS, random
from tests.passes.same import expect_unchanged, ops, same
from tests.passes.test_layer_norm import add

SHAPE = (2, 3, 4, 5)
Build = Callable[[Model, Operand], Operand]


def reduced(model: Model, op: str, x: Operand, axis: int) -> Operand:
    """Reduce an axis, and bring it back."""
    beside = tuple(1 if d == axis % x.type.rank else n for d, n in enumerate(x.type.shape))
    return add(model, "reshape", add(model, op, x, axes=(axis,), keep_dims=False), shape=beside)


def differences(model: Model, x: Operand, axis: int) -> Operand:
    return add(model, "sub", x, reduced(model, "reduce_max", x, axis))


def plain(model: Model, x: Operand, axis: int = -1) -> Operand:
    powers = add(model, "exp", differences(model, x, axis))
    total = add(model, "reduce_sum", powers, axes=(axis,), keep_dims=True)
    return add(model, "div", powers, total)


def litert_torch(model: Model, x: Operand, axis: int = 2, lowest: float = -np.inf) -> Operand:
    """The maximum is one with the lowest number, before it gets its axis back."""
    beside = tuple(1 if d == axis else n for d, n in enumerate(x.type.shape))
    top = add(model, "reduce_max", x, axes=(axis,), keep_dims=False)
    top = add(model, "reshape", add(model, "maximum", top, lowest), shape=beside)
    powers = add(model, "exp", add(model, "sub", x, top))
    return add(model, "div", powers, reduced(model, "reduce_sum", powers, axis))


def along_one_of_two(model: Model, x: Operand) -> Operand:
    """The other axis has one element."""
    x = add(model, "reshape", x, shape=(6, 1, 20))
    top = add(model, "reduce_max", x, axes=(1, 2), keep_dims=True)
    powers = add(model, "exp", add(model, "sub", x, top))
    total = add(model, "reduce_sum", powers, axes=(2, 1), keep_dims=True)
    return add(model, "reshape", add(model, "div", powers, total), shape=SHAPE)


def logarithm(model: Model, x: Operand) -> Operand:
    d = differences(model, x, 1)
    total = add(model, "reduce_sum", add(model, "exp", d), axes=(1,), keep_dims=True)
    return add(model, "sub", d, add(model, "log", total))


def logarithm_before_its_axis(model: Model, x: Operand) -> Operand:
    d = differences(model, x, -1)
    total = add(model, "reduce_sum", add(model, "exp", d), axes=(-1,), keep_dims=False)
    return add(model, "sub", d, add(model, "reshape", add(model, "log", total), shape=(2, 3, 4, 1)))


FORMS = plain, litert_torch, along_one_of_two, logarithm, logarithm_before_its_axis


@pytest.mark.parametrize("build", FORMS)
def test_forms(build: Build, backend: str) -> None:
    """The reference is of float64; errors are those of log_softmax of numbers up to 8, and of a sum of 20."""
    model = Model()
    model.output(build(model, model.input("x", float32(*SHAPE))))
    found = [op for op in ops(same(model, fuse_softmax)) if op != "reshape"]
    assert found[-1:] == (["log_softmax"] if "logarithm" in build.__name__ else ["softmax"])
    x = random(0, *SHAPE, low=-4, high=4)
    with model.compile(backend) as compiled:
        np.testing.assert_allclose(compiled(x), model.evaluate([x])[0], atol=64 * EPS)


def test_the_lowest_finite_number_does_not_count_either() -> None:
    model = Model()
    model.output(
        litert_torch(model, model.input("x", float32(*SHAPE)), lowest=float(np.finfo(np.float32).min))
    )
    assert ops(same(model, fuse_softmax))[-1] == "softmax"


def without_a_maximum(model: Model, x: Operand) -> Operand:
    powers = add(model, "exp", x)
    return add(model, "div", powers, reduced(model, "reduce_sum", powers, 1))


def from_another_number(model: Model, x: Operand) -> Operand:
    return litert_torch(model, x, lowest=0.0)


def along_two(model: Model, x: Operand) -> Operand:
    powers = add(model, "exp", add(model, "sub", x, add(model, "reduce_max", x, axes=(2, 3), keep_dims=True)))
    return add(model, "div", powers, add(model, "reduce_sum", powers, axes=(2, 3), keep_dims=True))


def along_different_axes(model: Model, x: Operand) -> Operand:
    powers = add(model, "exp", differences(model, x, 1))
    return add(model, "div", powers, reduced(model, "reduce_sum", powers, 2))


def logarithm_along_another_axis(model: Model, x: Operand) -> Operand:
    d = differences(model, x, 1)
    return add(model, "sub", d, add(model, "log", reduced(model, "reduce_sum", add(model, "exp", d), 2)))


def of_another_maximum(model: Model, x: Operand) -> Operand:
    powers = add(model, "exp", add(model, "sub", x, reduced(model, "reduce_max", add(model, "tanh", x), 1)))
    return add(model, "div", powers, reduced(model, "reduce_sum", powers, 1))


def of_another_sum(model: Model, x: Operand) -> Operand:
    powers = add(model, "exp", differences(model, x, 1))
    return add(model, "div", powers, reduced(model, "reduce_sum", add(model, "square", powers), 1))


def with_an_activation(model: Model, x: Operand) -> Operand:
    powers = add(model, "exp", differences(model, x, 1))
    return add(model, "div", powers, reduced(model, "reduce_sum", powers, 1), activation="relu6")


def read_elsewhere(model: Model, x: Operand) -> Operand:
    powers = add(model, "exp", differences(model, x, 1))
    return add(model, "add", add(model, "div", powers, reduced(model, "reduce_sum", powers, 1)), powers)


STAYS = (
    *(without_a_maximum, from_another_number, along_two, along_different_axes, logarithm_along_another_axis),
    *(of_another_maximum, of_another_sum, with_an_activation, read_elsewhere),
)


@pytest.mark.parametrize("build", STAYS)
def test_what_stays(build: Build) -> None:
    expect_unchanged(fuse_softmax, build, SHAPE)


@pytest.mark.parametrize("changed", [{"dtype": DType.FLOAT16}, {"shape": (2, 1)}])
def test_halves_and_single_elements_stay(changed: Any) -> None:
    model = Model()
    x = model.input("x", TensorType(**{"dtype": DType.FLOAT32, "shape": (2, 3), **changed}))
    model.output(plain(model, x, axis=1))
    assert fuse_softmax(model) is model
