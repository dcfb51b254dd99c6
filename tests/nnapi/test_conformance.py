"""Every case of ../shared/conformance/nnapi on both backends, constants also as inputs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from gpunn.nnapi import NnapiError, OperationCode, ResultCode
from gpunn.types import Array
from tests.nnapi import conformance
from tests.nnapi.conftest import CASES, ON_DEVICE, OUT_OF_SCOPE, PASSED, REFUSED

OPERATIONS = (*(operation.name for operation in OperationCode), "MODEL")
ON_HOST = {"hashtable_lookup", "lsh_projection", "lstm"}  # the ops that stay on the numpy backend
# Operations with cases of NNAPI 1.2 and 1.3.
LATER = sorted({*OPERATIONS} - {"EMBEDDING_LOOKUP", "HASHTABLE_LOOKUP", "MODEL", "RNN"})
FOUND: dict[tuple[str, str], list[Array]] = {}  # results of quantised cases, by the case and the backend
KINDS = {"float32": "float", "relaxed": "float"}  # kinds with another name in the cases


def cases(operation: str) -> list[Any]:
    """Return the cases of an operation, of all versions of NNAPI."""
    return [*conformance.cases()[operation], *conformance.later_cases().get(operation, ())]


def kind(case: Any) -> str:
    """Return the column of the table for a case."""
    if case.level <= "V1_1":
        return KINDS.get(case.kind, case.kind)
    return "later float" if "float" in case.kind or case.kind == "relaxed" else "later quant8"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation(operation: str, backend: str) -> None:
    """Run all cases of one operation; a failure names the case and its first wrong elements."""
    failed: list[str] = []
    for case in cases(operation):
        key = (operation, backend, kind(case))
        CASES[key] += 1
        hosted: set[str] = set()
        try:
            outputs, hosted = conformance.run(case, backend)
            if "quant8" in kind(case):
                FOUND[case.id, backend] = outputs
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
    """Run every sixth float case once more, with 0 added to every float input."""
    for case in [case for case in cases(operation) if "float" in kind(case)][::6]:
        outputs, _ = conformance.run(case, backend, after_add=True)
        assert not conformance.reader().compare(case, outputs), case.id


@pytest.mark.parametrize("operation", LATER)
def test_shapes_of_results_may_be_open(operation: str, gpu: str) -> None:
    """Run some cases of each operation again: no result has a rank, and buffers are larger than needed."""
    found = conformance.later_cases()[operation]
    for case in found[:: max(len(found) // 6, 1)]:
        for backend in (gpu, "cpu"):
            outputs = conformance.run_open(case, backend)
            assert not conformance.reader().compare(case, outputs), f"{case.id} on {backend}"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_quantised_results_have_the_same_bits_on_both_backends(operation: str, gpu: str) -> None:
    for case in cases(operation):
        if "quant8" in kind(case):
            on_gpu, on_cpu = (
                FOUND.get((case.id, backend)) or conformance.run(case, backend)[0] for backend in (gpu, "cpu")
            )
            for a, b in zip(on_gpu, on_cpu, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=case.id)


def test_every_operation_has_cases() -> None:
    assert set(conformance.cases()) == set(OPERATIONS)
    assert sorted(conformance.later_cases()) == LATER


def test_cases_that_must_be_refused_are_refused() -> None:
    for case in conformance.refused_cases():
        with pytest.raises(NnapiError) as caught:
            conformance.run(case, "cpu")
        assert caught.value.code is ResultCode.BAD_DATA, case.id
        REFUSED["cases that must be refused"] += 1


# The cases that do not run completely: why, and how many. Remove a case from here as soon as it passes.
REASONS = {
    "operations that NNAPI 1.2 added": (conformance.other_cases, 959),
    "zero-sized tensors made by operations that 1.2 added: cut behind them, the rest passes": (
        conformance.zero_sized_cases,
        138,
    ),
}


def test_every_other_case_has_a_reason() -> None:
    """A case that gpunn.nnapi cannot build has an operation that it does not know."""
    assert len(REASONS) <= 20
    known = {code.name for code in OperationCode}
    for reason, (found, count) in REASONS.items():
        missing = Counter(name for case in found() for name in {o[0] for o in case.operations} - known)
        assert all({o[0] for o in case.operations} - known for case in found()), reason
        assert len(found()) == count, reason
        OUT_OF_SCOPE[f"{reason}: {', '.join(f'{name} {n}' for name, n in sorted(missing.items()))}"] = count


def test_every_case_is_run_or_has_a_reason() -> None:
    ran = [case for operation in OPERATIONS for case in cases(operation)]
    counted = len([case for case in ran if not case.name.endswith("_signed")])
    whole = conformance.every_case()
    apart = len(conformance.other_cases()) + len(conformance.refused_cases())
    assert counted + apart == len(whole) and apart < len(whole)
