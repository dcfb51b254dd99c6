"""Functions that compiled loops write instead of numpy: logistic, silu, gelu, gelu_tanh and hard_swish."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.ops import OPS, compiled
from gpunn.ops.elementwise.activation import activate
from tests.ops.compiled.plain import Case, real_layer
from tests.ops.harness import random

EPS = 2.0**-23
# Errors in eps of the result, or of 1 where it is less than 1 and the function gates x by a normal
# distribution: an exponential has 1.5 (a polynomial, a sum and a product), and the sum with 1, the quotient
# and each step of a polynomial half a one. Above 0 the exponential counts for less than half.
BOUNDS = {"logistic": (2.5, 0), "silu": (2.5, 0), "gelu": (2, 1), "gelu_tanh": (2, 1), "hard_swish": (2, 0)}
SPECIAL = [np.nan, np.inf, -np.inf, 0, -0.0, 1e30, -1e30, 88.5, -88.5, -103, 1e-40]


@pytest.mark.parametrize("name", BOUNDS)
def test_errors_are_within_their_bounds(name: str, found: compiled.Loops) -> None:
    numbers = np.concatenate([np.linspace(-49, 60, 60_001), np.random.default_rng(0).normal(0, 2, 60_001)])
    x = numbers.astype(np.float32)
    got, exact = OPS[name].reference(x), OPS[name].reference(x.astype(np.float64))
    bound, least = BOUNDS[name]
    assert np.all(np.abs(got - exact) <= bound * EPS * np.maximum(np.abs(exact), least))


@pytest.mark.parametrize("name", BOUNDS)
def test_they_are_defined_everywhere(name: str, found: compiled.Loops) -> None:
    x = np.array(SPECIAL, np.float32)
    with np.errstate(all="ignore"):  # as in a run
        got = OPS[name].reference(x)
        expected = OPS[name].reference(x.astype(np.float64))
    np.testing.assert_allclose(got, expected, rtol=4 * EPS, atol=1e-12)


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 16, 31, 32, 33])
def test_results_do_not_depend_on_their_place(name: str, count: int, found: compiled.Loops) -> None:
    x = np.random.default_rng(1).normal(0, 2, 33).astype(np.float32)
    np.testing.assert_array_equal(OPS[name].reference(x[:count]), OPS[name].reference(x)[:count])


@pytest.mark.parametrize("name", ["logistic", "silu", "hard_swish"])
def test_activations_have_the_same_bits_in_place(name: str, found: compiled.Loops) -> None:
    x = np.random.default_rng(1).normal(0, 2, 33).astype(np.float32)
    expected = OPS[name].reference(x)
    got = activate(x, name)
    assert got is x
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", BOUNDS)
def test_other_numbers_are_left_to_numpy(name: str, found: compiled.Loops) -> None:
    x = np.random.default_rng(1).normal(0, 2, (6, 5))
    with compiled.in_use(None):
        of_double, of_columns = OPS[name].reference(x), OPS[name].reference(x.astype(np.float32).T)
    np.testing.assert_array_equal(OPS[name].reference(x), of_double)
    got = OPS[name].reference(x.astype(np.float32).T)
    np.testing.assert_allclose(got, of_columns, rtol=4 * EPS, atol=EPS)


def test_a_gate_follows_its_sums(found: compiled.Loops) -> None:
    x, w, b = random(3, 1, 5, 4, 3), random(1, 1, 3, 3, 3), random(2, 3)
    plain: Case = ("depthwise_conv2d", x.shape, w.shape, {"padding": "same"})
    gated: Case = ("depthwise_conv2d", x.shape, w.shape, {"padding": "same", "activation": "silu"})
    sums, got = (real_layer(case, x, w, b) for case in (plain, gated))
    np.testing.assert_array_equal(got, OPS["silu"].reference(sums))


@pytest.mark.parametrize("alpha", [0.2, 0.0, 3.0, -0.5, 1e-50])
def test_leaky_relu_is_as_without_the_loop(alpha: float, found: compiled.Loops) -> None:
    x = np.concatenate([random(1, 70), np.float32([0, -0.0, np.inf, -np.inf, np.nan, -1e-40])])
    with np.errstate(all="ignore"):  # as in a run
        got = OPS["leaky_relu"].reference(x, alpha=alpha)
        with compiled.in_use(None):
            expected = OPS["leaky_relu"].reference(x, alpha=alpha)
    np.testing.assert_array_equal(got, expected)
