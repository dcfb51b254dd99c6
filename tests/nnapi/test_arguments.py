"""Arguments of other kinds and classes are BAD_DATA in all calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.nnapi import (
    Compilation,
    Event,
    Execution,
    Memory,
    Model,
    OperandCode,
    OperandType,
    OperationCode,
    ResultCode,
    from_model,
    get_supported_operations,
)
from tests.nnapi.builder import BAD_DATA, FLOAT, X, compiled, expect, relu, tensor

OTHER_KINDS: dict[str, Callable[[Model], Any]] = {
    "type of an operand": lambda m: m.add_operand(FLOAT),
    "memory": lambda m: m.set_operand_value_from_memory(0, np.zeros(6, np.float32), 0, 24),
    "offset": lambda m: m.set_operand_value_from_memory(0, Memory.from_array(np.zeros(3)), "0", 24),
    "length": lambda m: m.set_operand_value_from_memory(0, Memory.from_array(np.zeros(3)), 0, 24.0),
    "channels": lambda m: m.set_operand_symm_per_channel_quant_params(0, (1, 2)),
    "operation": lambda m: m.add_operation(True, [0], [1]),
    "inputs of an operation": lambda m: m.add_operation(OperationCode.RELU, 0, [1]),
    "outputs": lambda m: m.identify_inputs_and_outputs([0], 1),
    "relaxation": lambda m: m.relax_computation_float32_to_float16("no"),
    "a model's level": lambda m: Model(feature_level=np.zeros(3)),  # type: ignore[arg-type]
    "a model's name": lambda m: Model(5),  # type: ignore[arg-type]
    "a file instead of a model": lambda m: from_model("model.tflite"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", OTHER_KINDS.values(), ids=OTHER_KINDS)
def test_models(call: Callable[[Model], Any]) -> None:
    model = Model()
    for _ in range(2):
        model.add_operand(tensor(2, 3))
    with expect(BAD_DATA, "must be|named by a list"):
        call(model)


@pytest.mark.parametrize("other", [5, "model.tflite", gpunn.Model()], ids=repr)
def test_compilations(other: Any) -> None:
    with expect(BAD_DATA, "the model must be of gpunn.nnapi.model.Model, got"):
        Compilation(other)
    with expect(BAD_DATA, "the model must be of gpunn.nnapi.model.Model, got"):
        get_supported_operations(other, "cpu")


@pytest.mark.parametrize("other", [5, "x", X, Model()], ids=lambda other: type(other).__name__)
def test_executions(other: Any) -> None:
    execution = Execution(compiled(relu(2, 3), "cpu"))
    type = OperandType(OperandCode.TENSOR_FLOAT32, other)
    calls: tuple[Callable[[], Any], ...] = (
        lambda: Execution(other),
        lambda: execution.set_input(0, X, other),
        lambda: execution.set_input(0, X, type),
        lambda: execution.set_input_from_memory(0, other, 0, 24),
        lambda: execution.set_output_from_memory(0, other, 0, 24),
        lambda: execution.set_output_from_memory(0, Memory.from_array(np.array(X)), 0, other),
    )
    for call in calls:
        with expect(BAD_DATA, "must (be|have)"):
            call()


def test_memories() -> None:
    given = {"size": 4, "protect": 1, "fd": 0, "offset": 0}
    for name in given:
        for value in (1.5, "x", [1]):
            with expect(BAD_DATA, f"{name} must be an integer"):
                Memory.create_from_fd(**{**given, name: value})  # type: ignore[arg-type]
    with expect(BAD_DATA, "an array of numbers, got object"):
        Memory.from_array(np.array([None]))
    data = np.zeros(4, np.uint8)
    for other in ("x", [1], np.zeros(4, np.float32), np.zeros((2, 2), np.uint8), data[::2]):
        with expect(BAD_DATA, "the bytes of a memory must be"):
            Memory(other, True, True)  # type: ignore[arg-type]
    for flags in ((1, True), (True, "yes")):
        with expect(BAD_DATA, "able must be of builtins.bool"):
            Memory(data, *flags)  # type: ignore[arg-type]
    data.flags.writeable = False
    with expect(BAD_DATA, "needs an array that may be written"):
        Memory(data, True, True)
    assert Memory(data, True, False).view(1, 2).size == 2


def test_events() -> None:
    with expect(BAD_DATA, "what completes an event must be a function, got 5"):
        Event(5)  # type: ignore[arg-type]
    with expect(ResultCode.UNEXPECTED_NULL, "must not be None"):
        Event(None)  # type: ignore[arg-type]
