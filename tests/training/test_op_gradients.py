"""The gradient of every op, against central differences in float64, and on both backends."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
from gpunn.training.gradients import gradients
from tests import evaluator
from tests.training.cases import CASES, Case
from tests.training.differences import ROUNDINGS, differences, loss_of
from tests.training.variants import VARIANTS

CALLED = {case[0] for case in CASES}
MORE = [case for case in VARIANTS if case[0] not in CALLED]


def names(case: Case) -> list[str]:
    """Return the names that loss_of() gives the real inputs."""
    return [f"x{k}" for k, value in enumerate(case[1]) if value is not None and value.dtype.kind == "f"]


@pytest.mark.parametrize("case", [*CASES, *VARIANTS], ids=lambda case: case[0])
def test_central_differences(case: Case) -> None:
    model, inputs = loss_of(*case)
    wanted = names(case)
    found = evaluator.run(gradients(model, model.outputs[0], wanted), inputs)
    pairs = zip(found[1:], differences(model, inputs, len(wanted)), wanted, strict=True)
    for gradient, (expected, error), name in pairs:
        assert gradient.shape == expected.shape
        wrong = np.abs(gradient - expected) > error
        assert not wrong.any(), (name, gradient[wrong], expected[wrong])


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", [*CASES, *MORE], ids=lambda case: case[0])
def test_backends_agree(case: Case, gpu: str) -> None:
    """gpunn.compare derives the tolerance from the arithmetic of all operations."""
    model, inputs = loss_of(*case)
    found = gradients(model, model.outputs[0], names(case))
    compared = gpunn.compare(found, [tuple(inputs)], (gpu, "cpu"))
    assert compared.ok, compared.findings


@pytest.mark.parametrize("case", MORE, ids=lambda case: case[0])
def test_backends_are_near_float64(case: Case, backend: str) -> None:
    """This tolerance is worked by hand, where gpunn.compare tries out noise.

    All terms are below 8: the functions among them keep 1e-5, and each of the roundings is 2^-24 of a term.
    """
    model, inputs = loss_of(*case)
    graph = gradients(model, model.outputs[0], names(case))
    with graph.compile(backend) as compiled:
        found = compiled(*inputs)
    for gradient, expected in zip(found[1:], evaluator.run(graph, inputs)[1:], strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-5 + 8 * ROUNDINGS * 2.0**-24)
