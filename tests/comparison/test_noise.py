"""Tolerances of whole models, by noise: rounding errors grow, or decide what the result is."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
from gpunn.model import Model
from gpunn.training.gradients import gradients
from gpunn.types import float32


def loop(model: Model, limit: float, offset: float = 0) -> None:
    """Add a loop that takes the hyperbolic cosine of x until it is over a limit, and then adds `offset`."""
    condition, body = Model("condition"), Model("body")
    x = condition.input("x", float32(1))
    (sum_,) = condition.add("reduce_sum", [x], {"axes": (0,)})
    condition.output(*condition.add("less", [sum_, condition.constant("c", np.float32(limit))]))
    body.output(*body.add("cosh", [body.input("x", float32(1))]))
    attrs = {"condition": condition, "body": body}
    (y,) = model.add("while_loop", [model.input("x", float32(1))], attrs)
    model.output(*model.add("add", [y, model.constant("offset", np.full(1, offset, np.float32))]))


def test_rounding_errors_grow_in_loops(backend: str) -> None:
    """In five rounds from 0.1, the errors of each round times the slopes of those behind it come to 1e-3."""
    x, y, error = np.array([0.1], np.float32), 0.1, 0.0
    for _ in range(5):
        error = error * np.sinh(y) + 5 * 2.0**-23 * np.cosh(y) + 1e-5
        y = float(np.cosh(y))
    model, wrong = Model("loop"), Model("loop")
    loop(model, y * 0.9)
    loop(wrong, y * 0.9, offset=100 * error)
    (pair,) = gpunn.compare(model, [x], [backend], reference="cpu64", per_layer=True).pairs
    tolerance = pair.outputs[0].tolerance
    assert pair.outputs[0].ok and tolerance is not None and error / 10 < tolerance < 20 * error
    found = gpunn.compare(model, [x], [], reference="cpu64", other=wrong)
    assert not found.ok


def test_loops_whose_end_rounding_decides_have_no_tolerance() -> None:
    """The loop ends when a sum is just what it exactly is: noise passes by that."""
    condition, body, model = Model("condition"), Model("body"), Model("fragile")
    (differs,) = condition.add(
        "not_equal", [condition.input("x", float32()), condition.constant("c", np.float32(4))]
    )
    condition.output(differs)
    body.output(*body.add("add", [body.input("x", float32()), body.constant("c", np.float32(1))]))
    attrs = {"condition": condition, "body": body}
    model.output(*model.add("while_loop", [model.input("x", float32())], attrs))
    (pair,) = gpunn.compare(model, [np.zeros((), np.float32)], ["cpu"], reference="cpu64").pairs
    assert pair.outputs[0].tolerance == np.inf and pair.outputs[0].ok


def test_where_rounding_decides_between_a_number_and_nan_there_is_no_tolerance() -> None:
    """3 x equals y in both elements, or with noise in none: each is then 0 / 0."""
    model = Model("fragile")
    x, y = (model.input(name, float32(2)) for name in "xy")
    (product,) = model.add("mul", [x, model.constant("three", np.float32(3))])
    (same,) = model.add("cast", model.add("equal", [product, y]), {"dtype": "float32"})
    (count,) = model.add("reduce_sum", [same], {"axes": (0,), "keep_dims": True})
    model.output(*model.add("div", [same, count]))
    arrays = np.array([1, 2], np.float32), np.array([3, 6], np.float32)
    (pair,) = gpunn.compare(model, [arrays], ["cpu"], reference="cpu64").pairs
    assert pair.outputs[0].tolerance == np.inf and pair.outputs[0].ok


def test_values_that_are_not_finite_with_and_without_noise_leave_the_tolerance_as_it_is() -> None:
    model = Model("roots")
    (y,) = model.add("rsqrt", [model.input("x", float32(3))])
    model.output(*model.add("sin", [y]))
    model.output(y)
    (pair,) = gpunn.compare(model, [np.array([-1, 0, 4], np.float32)], ["cpu"], reference="cpu64").pairs
    for check in pair.outputs:
        assert check.tolerance is not None and 0 < check.tolerance < 1e-3
        assert check.ok


@pytest.mark.parametrize("op", ["reduce_max", "reduce_min"])
def test_what_equals_the_largest_element_does_so_with_noise(op: str) -> None:
    """The gradient asks for that. Of 5 elements, each computed with an error, one has all of it: 3 g."""
    model = Model("largest")
    x = model.input("x", float32(5))
    (y,) = model.add("mul", [x, model.constant("three", np.float32(3))])
    (best,) = model.add(op, [y], {"axes": (0,)})
    (loss,) = model.add("mul", [best, best])
    model.output(loss)
    found = gradients(model, loss, ["x"])
    (pair,) = gpunn.compare(found, [np.float32([1, 3, 2, -4, 0.5])], ["cpu"], reference="cpu64").pairs
    tolerance = pair.outputs[1].tolerance
    assert pair.outputs[1].ok and tolerance is not None and 0 < tolerance < 1e-3
