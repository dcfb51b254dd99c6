"""Every case of cases.py on both backends against ai-edge-litert."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from gpunn.importers.tflite.control import CONTROL
from gpunn.importers.tflite.rules.table import OPERATORS
from gpunn.model import load
from tests.importers.tflite.case import Case, Prepared, prepare
from tests.importers.tflite.cases import CASES, ELSEWHERE, NEWEST, STATEFUL
from tests.resources import ROOT

prepared = functools.cache(prepare)


def check(case: Case, backend: str, ready: Prepared | None = None) -> None:
    """Assert that a backend gives LiteRT's results: reals up to a dozen roundings, others to the bit."""
    ready = ready or prepare(case)
    model = load(ready.file)
    assert all(o.origin == f"model: operation 0, {case.operator}" for o in model.operations)
    with model.compile(backend=backend) as compiled:
        found = compiled(*ready.inputs)
    for result, answer in zip(found if isinstance(found, tuple) else (found,), ready.answers, strict=True):
        assert (result.dtype, result.shape) == (answer.dtype, answer.shape)
        if answer.dtype.kind in "fc":
            np.testing.assert_allclose(result, answer, rtol=2e-5, atol=2e-5)
        elif case.steps:
            assert np.abs(result.astype(np.int64) - answer).max(initial=0) <= case.steps
        else:
            np.testing.assert_array_equal(result, answer)


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case}" for k, case in enumerate(CASES)])
def test_operator_agrees_with_litert(case: Case, backend: str) -> None:
    check(case, backend, prepared(case))


@pytest.mark.parametrize("operator", sorted(NEWEST.keys() - {c.operator for c in STATEFUL}))
def test_the_newest_version_of_an_operator_is_read(operator: str) -> None:
    case = next(c for c in CASES if c.operator == operator)
    check(replace(case, version=NEWEST[operator]), "cpu")


def test_every_operator_has_a_case() -> None:
    assert {
        c.operator for c in (*CASES, *STATEFUL)
    } | ELSEWHERE.keys() == OPERATORS.keys() | CONTROL.keys() | {"CUSTOM"}
    assert all((ROOT / "tests" / "importers" / "tflite" / file).exists() for file in ELSEWHERE.values())
    assert list(OPERATORS) == sorted(OPERATORS)
