"""fold_factors: weights take the number that a piece of a layer's result is multiplied with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.scale_pieces import fold_factors
from gpunn.types import float32
from tests.passes.same import of_rounded_weights, ops, same

Build = Callable[[Model, Operand], None]

SCALE = np.float32(0.3)


def add(model: Model, op: str, *inputs: Operand, **attrs: Any) -> Operand:
    return model.add(op, inputs, attrs)[0]


def scaled(model: Model, x: Operand, number: float = SCALE) -> Operand:
    """Something that is computed of the product of a piece and a number."""
    return add(model, "tanh", add(model, "mul", x, model.constant("scale", np.float32(number))))


def layer(model: Model, x: Operand, channels: int = 24, **attrs: Any) -> Operand:
    rng = np.random.default_rng(0)
    filter = model.constant("w", rng.standard_normal((channels, 4), np.float32))
    bias = model.constant("b", rng.standard_normal(channels, np.float32))
    return add(model, "fully_connected", x, filter, bias, **attrs)


def heads(model: Model, y: Operand) -> list[Operand]:
    """Queries, keys and values of two heads for five tokens, [2, 5, 4] each."""
    y = add(model, "reshape", y, shape=(5, 3, 2, 4))
    return [*model.add("unstack", [add(model, "transpose", y, perm=(1, 2, 0, 3))], {"axis": 0})]


def of_heads(model: Model, x: Operand) -> None:
    q, k, v = heads(model, layer(model, x))
    model.output(scaled(model, q), add(model, "tanh", k), v)


def of_two_pieces(model: Model, x: Operand) -> None:
    q, k, v = heads(model, layer(model, x))
    model.output(scaled(model, q), scaled(model, k, 0.7), v)


def of_a_quotient(model: Model, x: Operand) -> None:
    q, k, v = heads(model, layer(model, x))
    y = add(model, "div", q, model.constant("root", np.float32(5.7)))
    model.output(add(model, "tanh", y), k, v)


def of_parts_of_rows(model: Model, x: Operand) -> None:
    left, right = model.add("split", [layer(model, x)], {"axis": 1, "sizes": (7, 17)})
    model.output(scaled(model, left), right)


def of_all_that_is_moved(model: Model, x: Operand) -> None:
    model.output(scaled(model, add(model, "transpose", layer(model, x), perm=(1, 0))))


def of_what_else_nobody_reads(model: Model, x: Operand) -> None:
    q, *_ = heads(model, layer(model, x))
    model.output(scaled(model, q))


def without_a_bias(model: Model, x: Operand) -> None:
    filter = model.constant("w", np.random.default_rng(0).standard_normal((24, 1, 1, 4), np.float32))
    y = add(model, "conv2d", add(model, "reshape", x, shape=(1, 5, 1, 4)), filter)
    q, k, v = heads(model, y)
    model.output(scaled(model, q), k, v)


@pytest.mark.parametrize(
    "build",
    [
        of_heads,
        of_two_pieces,
        of_a_quotient,
        of_parts_of_rows,
        of_all_that_is_moved,
        of_what_else_nobody_reads,
        without_a_bias,
    ],
)
def test_weights_take_the_factor(build: Build) -> None:
    model = Model()
    build(model, model.input("x", float32(5, 4)))
    for apply in (fold_factors, optimise):
        changed = same(model, apply, tolerance=of_rounded_weights)
        assert not {"mul", "div"} & {*ops(changed)}


def a_product_that_is_a_result(model: Model, x: Operand) -> None:
    q, k, v = heads(model, layer(model, x))
    model.output(add(model, "mul", q, model.constant("c", np.float32(2))), k, v)


def with_an_activation(model: Model, x: Operand) -> None:
    q, k, v = heads(model, layer(model, x, activation="tanh"))
    model.output(scaled(model, q), k, v)


def read_by_others(model: Model, x: Operand) -> None:
    q, k, v = heads(model, layer(model, x))
    model.output(scaled(model, q), add(model, "tanh", q), k, v)


def a_result(model: Model, x: Operand) -> None:
    q, k, v = heads(model, layer(model, x))
    model.output(scaled(model, q), q, k, v)


def a_result_as_a_whole(model: Model, x: Operand) -> None:
    y = layer(model, x)
    q, *_ = heads(model, y)
    model.output(scaled(model, q), y)


def some_rows(model: Model, x: Operand) -> None:
    """Others are of the same channels."""
    first, rest = model.add("split", [layer(model, x)], {"axis": 0, "sizes": (2, 3)})
    model.output(scaled(model, first), rest)


def several_numbers(model: Model, x: Operand) -> None:
    q, k, v = heads(model, layer(model, x))
    y = add(model, "mul", q, model.constant("c", np.float32([1, 2, 3, 4])))
    model.output(add(model, "tanh", y), k, v)


def a_sum(model: Model, x: Operand) -> None:
    q, k, v = heads(model, layer(model, x))
    model.output(add(model, "tanh", add(model, "add", q, model.constant("c", np.float32(2)))), k, v)


def with_an_activation_behind(model: Model, x: Operand) -> None:
    q, k, v = heads(model, layer(model, x))
    y = add(model, "mul", q, model.constant("c", np.float32(2)), activation="relu")
    model.output(add(model, "tanh", y), k, v)


def a_computed_filter(model: Model, x: Operand) -> None:
    filter = model.input("w", float32(24, 4))
    q, k, v = heads(model, add(model, "fully_connected", x, filter))
    model.output(scaled(model, q), k, v)


def beyond_float32(model: Model, x: Operand) -> None:
    q, k, v = heads(model, layer(model, x))
    model.output(scaled(model, q, 1e-38), k, v)


def more_elements(model: Model, x: Operand) -> None:
    q, k, v = heads(model, layer(model, x))
    (one,) = model.add("strided_slice", [q], {"begin": (0, 0, 0), "end": (1, 1, 1), "strides": (1, 1, 1)})
    y = add(model, "mul", one, model.constant("c", np.full((2, 5, 4), 2, np.float32)))
    model.output(add(model, "tanh", y), k, v)


@pytest.mark.parametrize(
    "build",
    [
        a_product_that_is_a_result,
        with_an_activation,
        read_by_others,
        a_result,
        a_result_as_a_whole,
        some_rows,
        several_numbers,
        a_sum,
        with_an_activation_behind,
        a_computed_filter,
        beyond_float32,
        more_elements,
    ],
)
def test_what_stays(build: Build) -> None:
    model = Model()
    build(model, model.input("x", float32(5, 4)))
    assert fold_factors(model) is model


def test_long_chains_of_moves_are_gone_along() -> None:
    model = Model()
    y = layer(model, model.input("x", float32(5, 4)))
    for n in range(2000):
        y = add(model, "reshape", y, shape=(24, 5) if n % 2 else (5, 24))
    model.output(scaled(model, y))
    assert "mul" not in ops(fold_factors(model))


def test_large_results_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    of_heads(model, model.input("x", float32(5, 4)))
    monkeypatch.setattr("gpunn.passes.scale_pieces._MAX_ELEMENTS", 5 * 24 - 1)
    assert fold_factors(model) is model
