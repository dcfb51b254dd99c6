"""Sums and products in one loop of the CPU backend have the bits of numpy's passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpunn import Model
from gpunn.backends.lines import joints
from gpunn.graph.operation import Operand
from gpunn.graph.prepared import PreparedGraph
from gpunn.ops import compiled
from gpunn.types import DType, TensorType, float32
from tests.ops.compiled.plain import REALS
from tests.ops.harness import random

SHAPE = (2, 3, 5, 7)
NUMBERS = random(5, 7)
Layer = tuple[str, Any, dict[str, Any]]  # op, the other operand: None for a second input; attributes

ONE: dict[str, list[Layer]] = {
    "product and sum": [("mul", NUMBERS, {}), ("add", NUMBERS[::-1], {"activation": "relu"})],
    "without a clamp": [("mul", NUMBERS, {}), ("add", NUMBERS[::-1], {})],
    "product and difference": [("mul", NUMBERS[None, None], {}), ("sub", NUMBERS, {"activation": "relu6"})],
    "one number": [("mul", np.float32(-3), {}), ("add", np.float32([[0.5]]), {"activation": "relu1"})],
    "half": [("div", np.float32([2]), {}), ("add", NUMBERS, {})],
    "sum and product": [("add", NUMBERS, {}), ("mul", NUMBERS[::-1], {})],
    "two products": [("mul", NUMBERS, {}), ("mul", NUMBERS[::-1], {"activation": "relu6"})],
    "two sums": [("sub", NUMBERS, {}), ("add", np.float32([3]), {})],
    "all four": [
        ("sub", NUMBERS, {}),
        ("mul", NUMBERS[::-1], {}),
        ("mul", NUMBERS, {}),
        ("add", NUMBERS, {"activation": "relu"}),
    ],
    "a sum that clamps": [("add", NUMBERS, {"activation": "relu"})],
    "a product that clamps": [("mul", NUMBERS, {"activation": "relu"})],
    "two tensors": [("add", None, {"activation": "relu6"})],
    "product of two tensors": [("mul", None, {"activation": "relu6"})],
}
MORE: dict[str, tuple[int, list[Layer]]] = {
    "a third": (2, [("div", np.float32([3]), {}), ("add", NUMBERS, {})]),
    "product that clamps": (2, [("mul", NUMBERS, {"activation": "relu"}), ("add", NUMBERS, {})]),
    "no clamp behind": (2, [("mul", NUMBERS, {}), ("add", NUMBERS, {"activation": "tanh"})]),
    "two tensors, no clamp": (1, [("add", None, {})]),
    "nothing": (2, [("mul", NUMBERS, {}), ("add", np.zeros(7), {"activation": "relu"})]),
    "an axis more": (2, [("mul", random(2, 1, 1, 1, 1, 7), {}), ("add", NUMBERS, {})]),
    "another axis": (2, [("mul", random(2, 5, 1), {}), ("add", NUMBERS, {})]),
}


# Paddings, a value, and whether a sum includes the pad before it
PADS: dict[str, tuple[list[tuple[int, int]], float, bool]] = {
    "channels behind": ([(0, 0), (0, 0), (0, 0), (0, 3)], 0.0, True),
    "channels before": ([(0, 0), (0, 0), (0, 0), (3, 0)], 0.0, False),
    "columns": ([(0, 0), (0, 0), (1, 0), (0, 3)], 0.0, False),
    "ones": ([(0, 0), (0, 0), (0, 0), (0, 3)], 1.0, False),
}


def model_of(layers: Sequence[Layer], dtype: DType = DType.FLOAT32) -> tuple[Model, list[Operand]]:
    """Return layers one after the other, and their results."""
    model = Model("lines")
    inputs = [model.input(name, TensorType(dtype, SHAPE)) for name in "xy"]
    x, results = inputs[0], []
    for k, (op, other, attrs) in enumerate(layers):
        value = None if other is None else np.asarray(other, dtype.numpy)
        operand = inputs[1] if value is None else model.constant(f"c{k}", value)
        (x,) = model.add(op, [x, operand], attrs)
        results.append(x)
    model.output(x)
    return model, results


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("plain", [True, False])
def test_one_loop_has_the_bits_of_numpy(name: str, plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(name: str) -> Any:
        return lambda *operands: (asked.append(name), getattr(REALS, name)(*operands))

    own = REALS._replace(**{name: counted(name) for name in ("scaled", "added", "multiplied")})
    if not plain:
        pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")
    else:
        monkeypatch.setattr("gpunn.compilation.assembly.load_loops", lambda *_: compiled.Loops(own, None))
    model, _ = model_of(ONE[name])
    values = [random(0, *SHAPE), random(1, *SHAPE)]
    special = values[0].reshape(-1)[::9]
    special[...] = np.resize([np.nan, -0.0, np.inf, 0.0, -np.inf, 1e30, -1e-30], special.size)
    expected = model.compile("cpu", "fast-single-answer")(*values)
    compiled_model = model.compile("cpu", "sustained-speed", threads=1)
    for _ in range(2):
        got = compiled_model(*values)
        np.testing.assert_array_equal(got, expected)
        if model.operations[-1].activation is None:  # else the sign of 0 is that of either side
            np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))
    if plain:
        loops = {"two tensors": "added", "product of two tensors": "multiplied"}
        assert asked == [loops.get(name, "scaled")] * 2


@pytest.mark.parametrize("activation", ["silu", "logistic", "hard_swish"])
def test_a_line_with_an_activation_of_its_own_loop(activation: str) -> None:
    model, _ = model_of([("mul", NUMBERS, {}), ("add", NUMBERS[::-1], {"activation": activation})])
    found, x = joints(model), random(0, *SHAPE)
    assert [len(joint.before) for joint in found.values()] == [1]
    (expected,) = PreparedGraph(model).evaluate([x, x])
    for loops in (None, compiled.Loops(REALS, None)):
        with compiled.in_use(loops):
            (got,) = PreparedGraph(model, joints=found).evaluate([x, x])
        np.testing.assert_allclose(got, expected, rtol=8 * 2.0**-23, atol=1e-20)  # an exponential, a quotient


@pytest.mark.parametrize("activation", [None, "relu6"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", PADS)
def test_a_sum_with_further_channels_of_zeros(name: str, turned: bool, activation: str | None) -> None:
    paddings, value, included = PADS[name]
    model = Model("pad")
    shape = tuple(n + sum(around) for n, around in zip(SHAPE, paddings, strict=True))
    x, y = model.input("x", float32(*SHAPE)), model.input("y", float32(*shape))
    (padded,) = model.add("pad", [x], {"paddings": paddings, "value": value})
    operands = [y, padded] if turned else [padded, y]
    model.output(*model.add("add", operands, {"activation": activation}))
    found = joints(model)
    assert any(joint.before for joint in found.values()) == included
    values = [random(0, *SHAPE), random(1, *shape)]
    (expected,) = PreparedGraph(model).evaluate(values)
    for loops in (None, compiled.Loops(REALS, None)):
        with compiled.in_use(loops):
            (got,) = PreparedGraph(model, joints=found).evaluate(values)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("activation", [None, "relu6"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("shape", "numbers", "joins"),
    [
        ((1, 30, 28, 24), (1, 1, 1, 24), True),
        ((3, 10, 30, 20), (20,), True),
        ((1, 3, 5, 700), (1, 1, 700), True),  # small
        ((2, 30, 28, 24), (2, 1, 1, 24), False),
        ((1, 30, 28, 24), (1, 1, 28, 24), False),
        ((1, 30, 24, 24), (24, 1), False),
        ((30, 28, 24), (1, 1, 1, 24), False),  # the result has another rank
    ],
    ids=str,
)
def test_a_product_with_computed_numbers(
    shape: tuple[int, ...], numbers: tuple[int, ...], joins: bool, turned: bool, activation: str | None
) -> None:
    model = Model("product")
    operands = [model.input("x", float32(*shape)), model.input("y", float32(*numbers))]
    values = [random(0, *shape), random(1, *numbers)]
    model.output(*model.add("mul", operands[:: -1 if turned else 1], {"activation": activation}))
    found = joints(model)
    assert bool(found) == joins
    (expected,) = PreparedGraph(model).evaluate(values)
    for loops in (None, compiled.Loops(REALS, None)):
        with compiled.in_use(loops):
            (got,) = PreparedGraph(model, joints=found).evaluate(values)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("products", "joined"), [(0, 0), (1, 1), (2, 0)])
def test_a_difference_from_constants(products: int, joined: int) -> None:
    model = Model("difference")
    x = model.input("x", float32(*SHAPE))
    for k in range(products):
        (x,) = model.add("mul", [x, model.constant(f"c{k}", NUMBERS)])
    model.output(*model.add("sub", [model.constant("c", NUMBERS[::-1]), x], {"activation": "relu6"}))
    (*_, joint) = joints(model).values()
    assert len(joint.before) == joined
    values = [random(0, *SHAPE)]
    (expected,) = PreparedGraph(model).evaluate(values)
    with compiled.in_use(compiled.Loops(REALS, None)):
        (got,) = PreparedGraph(model, joints=joints(model)).evaluate(values)
    np.testing.assert_array_equal(got, expected)


def test_what_four_numbers_do_not_say_begins_anew() -> None:
    model, results = model_of([*ONE["all four"][:3], *ONE["all four"]])
    found = joints(model)
    assert [len(joint.before) for joint in found.values()] == [3, 2]
    assert [operation.outputs[0] for operation in found] == [results[3], results[6]]


@pytest.mark.parametrize("name", MORE)
def test_other_operations_stay_apart(name: str) -> None:
    count, layers = MORE[name]
    model, _ = model_of(layers)
    assert not any(joint.before for joint in joints(model).values())
    assert len(model.operations) == count


def test_a_product_with_other_readers_stays() -> None:
    model, (product, _) = model_of(ONE["product and sum"])
    model.output(product)
    assert [joint.before for joint in joints(model).values()] == [()]


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.INT32])
def test_other_types_stay(dtype: DType) -> None:
    layers: list[Layer] = [("mul", np.arange(7), {}), ("add", np.arange(7), {"activation": "relu"})]
    model, _ = model_of(layers, dtype)
    assert not joints(model)


@pytest.mark.parametrize("name", ONE)
def test_without_loops_one_follows_the_other(name: str) -> None:
    model, _ = model_of(ONE[name])
    values = [random(0, *SHAPE), random(1, *SHAPE)]
    (expected,) = PreparedGraph(model).evaluate(values)
    (got,) = PreparedGraph(model, joints=joints(model)).evaluate(values)
    np.testing.assert_array_equal(got, expected)
