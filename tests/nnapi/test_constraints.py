"""Constraints of types.hal and NeuralNetworks.h for each operation; a broken one is BAD_DATA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.importers.nnapi.signature import expanded
from gpunn.importers.nnapi.table import OPERATIONS
from gpunn.nnapi import FeatureLevelCode, OperandType, OperationCode, ResultCode
from tests.nnapi.builder import FLOAT, INT, QUANT8, compiled, expect, run, single, tensor
from tests.nnapi.constraints import BIAS, FILTER, INT32, LSTM, LSTM_OUT, RNN, SVDF, WRONG, X, changed


@pytest.mark.parametrize(("operation", "inputs", "outputs", "words"), WRONG.values(), ids=WRONG)
def test_a_broken_constraint_is_bad_data_at_finish(
    operation: str, inputs: Sequence[Any], outputs: Sequence[OperandType], words: str
) -> None:
    model = single(operation, inputs, outputs, finish=False)
    with expect(ResultCode.BAD_DATA, words):
        model.finish()


def test_attributes_are_checked_at_finish_despite_open_dimensions() -> None:
    for operation, inputs, words in (
        ("ADD", [tensor(0, 2), tensor(0, 2), 9], "fuse"),
        ("CONV_2D", [tensor(0, 4, 4, 2), FILTER, BIAS, 1, 0, 1, 0], "stride_width"),
        ("SOFTMAX", [tensor(0, 2), -1.0], "beta"),
        ("PAD", [tensor(0, 2), [[0, 0], [0, -1]]], "negative"),
    ):
        model = single(operation, inputs, [tensor(*[0] * len(inputs[0].dimensions))], finish=False)
        with expect(ResultCode.BAD_DATA, words):
            model.finish()


def test_the_lstm_of_these_tests_is_accepted() -> None:
    assert single("LSTM", LSTM, LSTM_OUT).valid


def test_optional_fuse_codes_may_be_absent() -> None:
    none = (INT32, None)
    assert single("RNN", [*RNN, none], [tensor(1, 3), tensor(1, 3)]).valid
    assert single("SVDF", [*SVDF, tensor(1, 20), 2, none], [tensor(1, 20), tensor(1, 2)]).valid
    assert single("LSTM", changed(LSTM, {20: none}), LSTM_OUT).valid


def test_no_result_has_rank_0(backend: str) -> None:
    x = np.array([1, 2, 3], np.float32)
    slices = single("STRIDED_SLICE", [tensor(3), [1], [2], [1], 0, 0, 1], [tensor(1)])
    mean = single("MEAN", [tensor(3), [0], 0], [tensor(1)])
    squeeze = single("SQUEEZE", [tensor(1), (tensor(0, code=INT), None)], [tensor(1)])
    for model, given in ((slices, x), (mean, x), (squeeze, x[1:2])):
        assert run(compiled(model, backend), given, out=np.empty(1, np.float32)).tolist() == [2]


def test_implicit_and_explicit_padding_agree(backend: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 4, 4, 2)).astype(np.float32)
    implicit = single("CONV_2D", [X, FILTER, BIAS, 1, 2, 1, 1], [tensor(1, 4, 2, 3)])
    explicit = single("CONV_2D", [X, FILTER, BIAS, 0, 0, 0, 1, 2, 1, 1], [tensor(1, 4, 2, 3)])
    results = [
        run(compiled(m, backend), x, out=np.empty((1, 4, 2, 3), np.float32)) for m in (implicit, explicit)
    ]
    np.testing.assert_array_equal(*results)


def test_the_table_has_every_operation_in_alphabetical_order() -> None:
    names = [code.name for code in OPERATIONS]
    assert names == sorted(names) and set(OPERATIONS) == set(OperationCode)
    assert len(OPERATIONS) == 38


def test_every_parameter_of_the_table_is_understood() -> None:
    for code, rule in OPERATIONS.items():
        for level in FeatureLevelCode:
            signature = rule.signature(level)
            for line, form in zip(_lines(rule.forms, level), signature.forms, strict=True):
                names = [param.name for param in form]
                assert len(names) == len(set(names)) == len(line.split()), code
                assert all(param.ranks for param in form if param.kind not in "ibf"), code
            assert {FLOAT, QUANT8} & set(signature.types)


def _lines(forms: Sequence[str], level: int) -> list[str]:
    """Return the forms of an operation at a feature level, as text."""
    return [line for form in forms for line in expanded(form, level)]
