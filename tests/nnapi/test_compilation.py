"""The calls of ANeuralNetworksCompilation, rule by rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.compilation.runtime import LocalCompilation
from gpunn.nnapi import (
    Compilation,
    Execution,
    Model,
    OperandCode,
    OperandType,
    OperationCode,
    PreferenceCode,
    ResultCode,
)
from tests.nnapi.builder import BAD_DATA, BAD_STATE, INT, NULL, compiled, empty, expect, relu, tensor


def test_a_compilation_needs_a_finished_valid_model() -> None:
    with expect(NULL):
        Compilation(None)  # type: ignore[arg-type]
    model = Model()
    with expect(BAD_STATE, "not been finished"):
        Compilation(model)
    with expect(BAD_DATA):
        model.finish()
    with expect(BAD_DATA, "invalid"):
        Compilation(model)


def test_preferences() -> None:
    compilation = Compilation(relu(2), backend="cpu")
    assert compilation.preference is PreferenceCode.FAST_SINGLE_ANSWER
    for preference in PreferenceCode:
        compilation.set_preference(preference)
        assert compilation.preference is preference
    compilation.set_preference(0)  # type: ignore[arg-type]
    assert compilation.preference is PreferenceCode.LOW_POWER
    with expect(BAD_DATA, "one of PreferenceCode, got 3"):
        compilation.set_preference(3)  # type: ignore[arg-type]
    with expect(NULL):
        compilation.set_preference(None)  # type: ignore[arg-type]


def test_a_finished_compilation_cannot_be_modified() -> None:
    compilation = compiled(relu(2))
    with expect(BAD_STATE):
        compilation.set_preference(PreferenceCode.LOW_POWER)
    with expect(BAD_STATE):
        compilation.finish()


def test_a_closed_compilation_cannot_be_finished() -> None:
    compilation = Compilation(relu(2), backend="cpu")
    compilation.close()
    with expect(BAD_STATE, "finish: the compilation has been closed"):
        compilation.finish()
    with expect(BAD_STATE, "closed"):
        compilation.set_preference(PreferenceCode.LOW_POWER)


def test_unknown_backends_and_devices() -> None:
    with expect(BAD_DATA, "backend"):
        Compilation(relu(2), backend="tpu")
    compilation = Compilation(relu(2), backend="webgpu", device="no such adapter")
    with expect(ResultCode.OP_FAILED, "no such adapter|no GPU"):
        compilation.finish()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), ResultCode.OUT_OF_MEMORY),
        (gpunn.OutOfMemoryError("an arena needs 9 bytes"), ResultCode.OUT_OF_MEMORY),
        (gpunn.DeviceError("the device was lost"), ResultCode.OP_FAILED),
        (gpunn.UnsupportedError("no such thing"), ResultCode.OP_FAILED),
    ],
)
def test_failures_of_the_device(error: Exception, code: ResultCode, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    compilation = compiled(relu(2))
    execution = Execution(compilation)
    execution.set_input(0, np.zeros(2, np.float32))
    execution.set_output(0, empty(2))
    monkeypatch.setattr(LocalCompilation, "submit", fail)
    event = execution.start_compute()
    with expect(code):
        event.wait()
    monkeypatch.setattr("gpunn.compilation.compiler.compile_model", fail)
    failed = Compilation(relu(2), backend="cpu")
    with expect(code):
        failed.finish()
    with expect(BAD_STATE):
        failed.finish()
    with expect(BAD_DATA, "invalid"):
        Execution(failed)


def test_computed_values_cannot_be_attributes() -> None:
    model = Model()
    rows, values = model.add_operand(tensor(2, code=INT)), model.add_operand(tensor(4, 1, code=INT))
    shape, x = model.add_operand(tensor(2, 1, code=INT)), model.add_operand(tensor(2, 3))
    vector, y = model.add_operand(tensor(2, code=INT)), model.add_operand(tensor(3, 2))
    lookups = model.add_operand(tensor(1, 2))
    projection = model.add_operand(OperandType(OperandCode.INT32))
    model.set_operand_value(projection, 2)
    model.set_operand_value(lookups, np.ones((1, 2), np.float32))
    no_weight = model.add_operand(tensor(2))
    model.set_operand_value(no_weight, None)
    model.add_operation(OperationCode.EMBEDDING_LOOKUP, [rows, values], [shape])
    model.add_operation(OperationCode.LSH_PROJECTION, [lookups, shape, no_weight, projection], [vector])
    model.add_operation(OperationCode.RESHAPE, [x, vector], [y])
    model.identify_inputs_and_outputs([rows, values, x], [y])
    model.finish()
    with expect(ResultCode.OP_FAILED, r"operation 2, RESHAPE: shape \(operand 4\) is computed"):
        Compilation(model, backend="cpu").finish()
