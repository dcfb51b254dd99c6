"""Files that state wrong types of results: read as LiteRT reads them, or refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpunn.errors import FormatError
from gpunn.importers.tflite.result_types import RESULT_TYPES
from gpunn.model import load
from tests.importers.tflite.case import Case
from tests.importers.tflite.cases import CASES
from tests.importers.tflite.mutation import packed, schema
from tests.importers.tflite.test_operators import check, prepared
from tests.tflite_builder import litert_run


def one_of(operator: str) -> Case:
    """Return a case of an operator, a quantised one if possible."""
    cases = [c for c in CASES if c.operator == operator]
    return next((c for c in cases if any(t.quantization is not None for t in c.types())), cases[0])


def mistyped(file: bytes) -> bytes:
    """Return the file with other stated types of results."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(file, 0))
    (graph,) = model.subgraphs
    real, number = schema.TensorType.FLOAT32, schema.TensorType.INT32
    for tensor in (graph.tensors[i] for i in graph.operators[0].outputs):
        tensor.type = number if tensor.type == real else real
    return packed(model)


@pytest.mark.parametrize("operator", sorted(RESULT_TYPES))
def test_results_have_the_type_that_follows_from_the_inputs(operator: str) -> None:
    case = one_of(operator)
    ready = prepared(case)
    wrong = replace(ready, file=mistyped(ready.file))
    answers = litert_run(wrong.file, wrong.inputs, reference=case.by_reference)
    for answer, expected in zip(answers, ready.answers, strict=True):
        assert answer.dtype == expected.dtype
        np.testing.assert_array_equal(answer, expected)
    check(case, "cpu", wrong)


@pytest.mark.parametrize("operator", ["ABS", "MUL", "RESHAPE"])
def test_others_are_refused(operator: str) -> None:
    """LiteRT refuses some of them, and misreads the bits of others."""
    ready = prepared(one_of(operator))
    with pytest.raises(FormatError, match=r"is (FLOAT32|INT32), expected"):
        load(mistyped(ready.file))
