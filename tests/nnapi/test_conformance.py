"""Every case of ../shared/conformance/nnapi up to NNAPI 1.1, on both backends, constants also as inputs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gpunn.nnapi import NnapiError, OperationCode, ResultCode
from tests.nnapi import conformance
from tests.nnapi.conftest import CASES, ON_DEVICE, OUT_OF_SCOPE, PASSED

OPERATIONS = (*(operation.name for operation in OperationCode), "MODEL")
ON_HOST = {"hashtable_lookup", "lsh_projection", "lstm"}  # the ops that stay on the numpy backend
FLOAT, QUANT8 = "float", "quant8"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation(operation: str, backend: str) -> None:
    """All cases of one operation; a failure names the case and its first wrong elements."""
    failed: list[str] = []
    for case in conformance.cases()[operation]:
        kind = QUANT8 if case.kind == "quant8" else FLOAT
        key = (operation, backend, kind)
        CASES[key] += 1
        hosted: set[str] = set()
        try:
            outputs, hosted = conformance.run(case, backend)
            errors = conformance.reader().compare(case, outputs)
        except NnapiError as error:
            errors = [str(error)]
        PASSED[key] += not errors
        ON_DEVICE[key] += not errors and not hosted
        if backend == "webgpu" and not hosted <= ON_HOST:
            errors.append(f"{', '.join(hosted - ON_HOST)} ran on the host")
        failed += [f"{case.id}: {error}" for error in errors[:1]]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_inputs_may_be_results_of_an_operation(operation: str, backend: str) -> None:
    """The float cases once more, where every float input is first added to 0."""
    for case in conformance.cases()[operation]:
        if case.kind != "quant8":
            outputs, _ = conformance.run(case, backend, behind_add=True)
            assert not conformance.reader().compare(case, outputs), case.id


@pytest.mark.parametrize("operation", OPERATIONS)
def test_quantised_results_have_the_same_bits_on_both_backends(operation: str, gpu: str) -> None:
    for case in conformance.cases()[operation]:
        if case.kind == "quant8":
            outputs = [conformance.run(case, backend)[0] for backend in (gpu, "cpu")]
            for a, b in zip(*outputs, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=case.id)


def test_every_operation_has_cases() -> None:
    assert set(conformance.cases()) == set(OPERATIONS)


# What NNAPI 1.2 and 1.3 added to the operations of 1.1, by what the refusal says.
LATER = {
    "operand types: TENSOR_FLOAT16, BOOL (the layout flag), scales per channel": r"^no operand code",
    "inputs: axis, dilation, layer normalisation": r"takes \d+ (or \d+ )?inputs",
    "element types of an operation": r"must be (TENSOR_\w+|INT32)( or TENSOR_\w+)*, got",
    "ranks of an operation": r"must have rank",
    "free scales of CONV_2D and CONCATENATION": r"scale",
    "cases that must be refused": r"^expected",
}


def test_cases_of_later_versions_pass_or_are_refused_for_what_those_added() -> None:
    for case in conformance.later_cases():
        try:
            outputs, _ = conformance.run(case, "cpu")
            assert not case.expect_failure, f"{case.id} must be refused"
            assert not conformance.reader().compare(case, outputs), case.id
            OUT_OF_SCOPE["pass"] += 1
            continue
        except KeyError as error:
            text = f"no operand code {error}"
        except NnapiError as error:
            assert error.code is ResultCode.BAD_DATA, case.id
            text = f"expected: {error}" if case.expect_failure else str(error)
        reason = next((reason for reason, pattern in LATER.items() if re.search(pattern, text)), None)
        assert reason, f"{case.id}: {text}"
        OUT_OF_SCOPE[reason] += 1
