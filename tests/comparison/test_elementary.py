"""The sweep over elementary functions, what it finds on the devices, and that it can find errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gpunn
from gpunn.comparison import elementary
from gpunn.comparison.elementary import FunctionError, elementary_errors
from gpunn.types import Array, float32

NEAR_ZERO = 8.0  # ulp of tiny arguments: a few roundings, and the constants of gelu's formula


def by_name(errors: tuple[FunctionError, ...]) -> dict[str, FunctionError]:
    return {error.op: error for error in errors}


@pytest.mark.parametrize("backend", ["webgpu", "cpu"])
def test_every_function_keeps_its_tolerance(backend: str, request: pytest.FixtureRequest) -> None:
    if backend == "webgpu":
        request.getfixturevalue("gpu")
    found = by_name(elementary_errors(backend))
    assert {"tanh", "exp", "log", "sin", "cos", "pow", "atan2", "erf", "elu", "logistic"} <= found.keys()
    assert all(error.share <= 1 and error.tiny_ulp <= NEAR_ZERO for error in found.values())
    # Of these the relative error is bounded everywhere: a few roundings, WGSL's quotient is good to 2.5 ulp.
    for name in ("exp", "log", "sin", "cos", "tanh", "elu", "atan2", "erf"):
        assert found[name].ulp < NEAR_ZERO


def test_tanh_near_zero(gpu: str) -> None:
    model = gpunn.Model()
    x = np.float32([1e-7, -3e-30, 1e-3, 0.2499, 0.2501, -0.0])
    model.output(*model.add("tanh", [model.input("x", float32(x.size))]))
    with model.compile(gpu) as compiled:
        np.testing.assert_allclose(compiled(x), np.tanh(x.astype(np.float64)), rtol=6e-7)


def errors_of(wrong: dict[float, float]) -> FunctionError:
    """Judge exact results of exp, changed for some arguments."""
    arguments = np.float32([*wrong, 0.0, 1.0])
    graph = gpunn.Model()
    graph.output(*graph.add("exp", [graph.input("x", float32(arguments.size))]))
    with np.errstate(over="ignore"):
        found: Array = np.exp(arguments.astype(np.float64)).astype(np.float32)
    found[: len(wrong)] = list(wrong.values())
    return elementary._error(graph.operations[0], [arguments], found)


@pytest.mark.parametrize(
    ("argument", "result", "ulp", "tiny"),
    [
        (0.0, 1.0, 0.0, 0.0),
        (0.0, 1.0 + 3 * 2.0**-23, 3.0, 3.0),
        (-100.0, 0.0, 0.0, 0.0),  # 4e-44 is subnormal
        (-100.0, 1e-30, 1e-30 / 2.0**-149, 0.0),
        (89.0, math.inf, 0.0, 0.0),
        (89.0, 3e38, math.inf, 0.0),
        (1.5, math.nan, math.inf, 0.0),
    ],
)
def test_errors_are_in_units_of_the_last_place(
    argument: float, result: float, ulp: float, tiny: float
) -> None:
    found = errors_of({argument: result})
    assert found.ulp == pytest.approx(ulp, rel=1e-6, abs=0.5)  # the exact result lies between two of float32
    assert found.tiny_ulp == pytest.approx(tiny, abs=1e-3)
    if ulp > 1:
        assert found.at == (argument,)
