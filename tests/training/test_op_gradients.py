"""The gradient of every op, against central differences in float64, and on both backends."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
from gpunn.training.gradients import gradients
from tests import evaluator
from tests.training.cases import CASES, Case
from tests.training.differences import differences, loss_of
from tests.training.variants import VARIANTS

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])


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


@every_case
def test_backends_agree(case: Case, gpu: str) -> None:
    """gpunn.compare derives the tolerance from the arithmetic of all operations."""
    model, inputs = loss_of(*case)
    found = gradients(model, model.outputs[0], names(case))
    compared = gpunn.compare(found, [tuple(inputs)], (gpu, "cpu"))
    assert compared.ok, compared.findings
