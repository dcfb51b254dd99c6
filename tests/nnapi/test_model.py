"""The calls of ANeuralNetworksModel: each rule, and the code for breaking it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn.nnapi import Memory, Model, OperandCode, OperandLifeTime, OperandType, OperationCode
from tests.nnapi.builder import (
    BAD_DATA,
    BAD_STATE,
    FLOAT,
    INT,
    NULL,
    QUANT8,
    compiled,
    expect,
    relu,
    run,
    single,
    tensor,
)


@pytest.fixture
def model() -> Model:
    """Return an unfinished model with operands 0 and 1, float32[2, 3], and 2, an INT32."""
    model = Model()
    for type in (tensor(2, 3), tensor(2, 3), OperandType(OperandCode.INT32)):
        model.add_operand(type)
    return model


MODIFICATIONS: dict[str, Callable[[Model], Any]] = {
    "add_operand": lambda m: m.add_operand(tensor(1)),
    "set_operand_value": lambda m: m.set_operand_value(0, None),
    "set_operand_value_from_memory": lambda m: m.set_operand_value_from_memory(
        0, Memory.from_array(np.zeros(6)), 0, 24
    ),
    "add_operation": lambda m: m.add_operation(OperationCode.RELU, [0], [1]),
    "identify_inputs_and_outputs": lambda m: m.identify_inputs_and_outputs([0], [1]),
    "relax_computation": lambda m: m.relax_computation_float32_to_float16(True),
    "finish": lambda m: m.finish(),
}


@pytest.mark.parametrize("call", MODIFICATIONS.values(), ids=MODIFICATIONS)
def test_a_finished_model_cannot_be_modified(call: Callable[[Model], Any]) -> None:
    model = relu(2, 3)
    with expect(BAD_STATE, "has been finished"):
        call(model)


@pytest.mark.parametrize("call", MODIFICATIONS.values(), ids=MODIFICATIONS)
def test_a_model_whose_finish_failed_cannot_be_modified(call: Callable[[Model], Any], model: Model) -> None:
    with expect(BAD_DATA):
        model.finish()
    with expect(BAD_STATE, "has been finished"):
        call(model)


NULLS: dict[str, Callable[[Model], Any]] = {
    "type of an operand": lambda m: m.add_operand(None),
    "index": lambda m: m.set_operand_value(None, 1),
    "memory": lambda m: m.set_operand_value_from_memory(0, None, 0, 24),
    "operation": lambda m: m.add_operation(None, [0], [1]),
    "inputs of an operation": lambda m: m.add_operation(OperationCode.RELU, None, [1]),
    "outputs of an operation": lambda m: m.add_operation(OperationCode.RELU, [0], None),
    "inputs": lambda m: m.identify_inputs_and_outputs(None, [1]),
    "outputs": lambda m: m.identify_inputs_and_outputs([0], None),
    "relaxation": lambda m: m.relax_computation_float32_to_float16(None),
}


@pytest.mark.parametrize("call", NULLS.values(), ids=NULLS)
def test_null(call: Callable[[Model], Any], model: Model) -> None:
    with expect(NULL):
        call(model)


WRONG_TYPES = {
    "dimensions that are no numbers": (OperandType(FLOAT, ("two",)), "no operand type"),  # type: ignore[arg-type]
    "unknown code": (OperandType(99, (1,)), "one of OperandCode, got 99"),
    "scalar with dimensions": (OperandType(OperandCode.INT32, (1,)), "no dimensions"),
    "tensor without": (OperandType(FLOAT), "dimensions"),
    "negative dimension": (OperandType(FLOAT, (2, -1)), "negative"),
    "too many elements": (OperandType(FLOAT, (1 << 16, 1 << 16)), "over"),
    "quantised without scale": (OperandType(QUANT8, (1,)), "scale"),
    "negative scale": (OperandType(QUANT8, (1,), -1.0), "scale"),
    "infinite scale": (OperandType(QUANT8, (1,), float("inf")), "scale"),
    "scale that is no number": (OperandType(QUANT8, (1,), float("nan")), "scale"),
    "zero point over 255": (OperandType(QUANT8, (1,), 1.0, 256), "zero point"),
    "zero point below 0": (OperandType(QUANT8, (1,), 1.0, -1), "zero point"),
    "bias with zero point": (OperandType(INT, (1,), 1.0, 1), "zero point"),
    "float with scale": (OperandType(FLOAT, (1,), 1.0), "scale"),
    "scalar with scale": (OperandType(OperandCode.FLOAT32, (), 1.0), "scale"),
}


@pytest.mark.parametrize(("type", "words"), WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_impossible_operand_types(type: OperandType, words: str, model: Model) -> None:
    with expect(BAD_DATA, words):
        model.add_operand(type)


def test_numbers_beyond_the_range_of_float32(model: Model) -> None:
    model.add_operand(tensor(1))
    for values in ([1e300], [-1e300]):
        with expect(BAD_DATA, "in the range of float32"):
            model.set_operand_value(3, values)
    model.set_operand_value(3, [float("inf")])


def test_operands_are_numbered_from_zero() -> None:
    model = Model()
    assert [model.add_operand(tensor(1)) for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("index", [3, -1, 1.5, "0"])
def test_unknown_operands(index: Any, model: Model) -> None:
    for call in (
        lambda: model.set_operand_value(index, 1),
        lambda: model.set_operand_value_from_memory(index, Memory.from_array(np.zeros(3)), 0, 24),
        lambda: model.add_operation(OperationCode.RELU, [index], [1]),
        lambda: model.add_operation(OperationCode.RELU, [0], [index]),
        lambda: model.identify_inputs_and_outputs([index], [1]),
        lambda: model.identify_inputs_and_outputs([0], [index]),
    ):
        with expect(BAD_DATA):
            call()


WRONG_VALUES = {
    "dtype": (0, np.zeros((2, 3), np.float64)),
    "shape": (0, np.zeros((3, 2), np.float32)),
    "bytes too short": (0, bytes(23)),
    "bytes too long": (0, bytes(25)),
    "text": (0, "words"),
    "ragged": (0, [[1, 2, 3], [4, 5]]),
    "fraction for an integer": (2, 1.5),
    "integer over 32 bits": (2, 1 << 40),
    "array for a scalar": (2, np.zeros(2, np.int32)),
}


@pytest.mark.parametrize(("index", "value"), WRONG_VALUES.values(), ids=WRONG_VALUES)
def test_wrong_values_are_refused(index: int, value: Any, model: Model) -> None:
    with expect(BAD_DATA):
        model.set_operand_value(index, value)


GOOD_VALUES = {
    "array": (0, np.arange(6, dtype=np.float32).reshape(2, 3)),
    "transposed array": (0, np.arange(6, dtype=np.float32).reshape(3, 2).T),
    "bytes": (0, np.arange(6, dtype=np.float32).tobytes()),
    "memoryview": (0, memoryview(np.arange(6, dtype=np.float32))),
    "nested list": (0, [[0, 1, 2], [3, 4, 5]]),
    "number": (2, 7),
    "numpy number": (2, np.int32(7)),
    "one-element array": (2, np.array([7], np.int32)),
    "four bytes": (2, np.int32(7).tobytes()),
}


@pytest.mark.parametrize(("index", "value"), GOOD_VALUES.values(), ids=GOOD_VALUES)
def test_right_values_are_accepted(index: int, value: Any, model: Model) -> None:
    model.set_operand_value(index, value)
    stored = model.operands[index].value
    assert stored is not None and stored.shape == model.operands[index].type.dimensions
    if index == 2:
        assert stored.item() == 7
    elif isinstance(value, (bytes, memoryview)):
        assert stored.tobytes() == bytes(value)
    else:
        np.testing.assert_array_equal(stored, np.asarray(value, np.float32))


def test_values_need_all_dimensions() -> None:
    model = Model()
    model.add_operand(tensor(2, 0))
    with expect(BAD_DATA, "specified"):
        model.set_operand_value(0, np.zeros((2, 0), np.float32))
    with expect(BAD_DATA, "specified"):
        model.set_operand_value_from_memory(0, Memory.from_array(np.zeros(1)), 0, 0)


@pytest.mark.parametrize("elements", [1, 31, 32, 33, 1000])
def test_values_up_to_128_bytes_are_copied_and_longer_ones_referenced(elements: int) -> None:
    model = Model()
    value = np.zeros(elements, np.float32)
    model.add_operand(tensor(elements))
    model.set_operand_value(0, value)
    value[0] = 1
    stored, copied = model.operands[0], elements <= 32
    assert stored.value is not None and stored.value[0] == (0 if copied else 1)
    assert stored.lifetime is (
        OperandLifeTime.CONSTANT_COPY if copied else OperandLifeTime.CONSTANT_REFERENCE
    )


def test_memory_is_always_referenced() -> None:
    model = Model()
    values = np.arange(4, dtype=np.float32)
    model.add_operand(tensor(2))
    model.set_operand_value_from_memory(0, Memory.from_array(values), 8, 8)
    stored = model.operands[0]
    assert stored.value is not None and np.shares_memory(stored.value, values)
    assert stored.value.tolist() == [2, 3]
    assert stored.lifetime is OperandLifeTime.CONSTANT_REFERENCE


@pytest.mark.parametrize(("offset", "length"), [(0, 4), (0, 12), (12, 8), (-4, 8), (0, -8)])
def test_wrong_memory_ranges_are_refused(offset: int, length: int) -> None:
    model = Model()
    model.add_operand(tensor(2))
    with expect(BAD_DATA):
        model.set_operand_value_from_memory(0, Memory.from_array(np.zeros(4, np.float32)), offset, length)


def test_none_means_no_value(model: Model) -> None:
    model.set_operand_value(0, None)
    assert model.operands[0].lifetime is OperandLifeTime.NO_VALUE


def test_unknown_operation(model: Model) -> None:
    with expect(BAD_DATA, "one of OperationCode"):
        model.add_operation(99, [0], [1])  # type: ignore[arg-type]


def test_an_operand_is_the_output_of_one_operation_only(model: Model) -> None:
    model.add_operation(OperationCode.RELU, [0], [1])
    with expect(BAD_DATA, "two operations"):
        model.add_operation(OperationCode.RELU, [0], [1])
    with expect(BAD_DATA, "two operations"):
        model.add_operation(OperationCode.RNN, [0], [0, 0])


def test_an_operand_cannot_be_input_and_output(model: Model) -> None:
    with expect(BAD_DATA, "both input and output"):
        model.identify_inputs_and_outputs([0], [0])
    with expect(BAD_DATA):
        model.identify_inputs_and_outputs([0, 0], [1])
    with expect(BAD_DATA):
        model.identify_inputs_and_outputs([0], [1, 1])


def test_a_model_needs_inputs_and_outputs() -> None:
    for inputs, outputs in (([], [1]), ([0], [])):
        model = Model()
        model.add_operand(tensor(1))
        model.add_operand(tensor(1))
        model.add_operation(OperationCode.RELU, [0], [1])
        model.identify_inputs_and_outputs(inputs, outputs)
        with expect(BAD_DATA, "at least one input and one output"):
            model.finish()


def test_inputs_and_results_have_no_value(model: Model) -> None:
    model.set_operand_value(0, np.zeros((2, 3), np.float32))
    model.add_operation(OperationCode.RELU, [0], [1])
    model.identify_inputs_and_outputs([0], [1])
    with expect(BAD_DATA, "operand 0 has a value"):
        model.finish()


def test_an_input_is_computed_by_no_operation(model: Model) -> None:
    model.add_operation(OperationCode.RELU, [0], [1])
    model.add_operation(OperationCode.RELU, [1], [0])
    model.identify_inputs_and_outputs([0], [1])
    with expect(BAD_DATA, "input of the model and the output"):
        model.finish()


def test_an_output_is_computed(model: Model) -> None:
    model.identify_inputs_and_outputs([0], [1])
    with expect(BAD_DATA, "no operation computes it"):
        model.finish()


def test_an_operand_that_is_read_has_a_value(model: Model) -> None:
    model.add_operand(tensor(2, 3))
    model.set_operand_value(2, 0)
    model.add_operation(OperationCode.ADD, [0, 3, 2], [1])
    model.identify_inputs_and_outputs([0], [1])
    with expect(BAD_DATA, r"operand 3\) has no value"):
        model.finish()


def test_only_optional_operands_may_be_missing() -> None:
    model = single("ADD", [tensor(2), (tensor(2), None), 0], [tensor(2)], finish=False)
    with expect(BAD_DATA, "not optional"):
        model.finish()


def test_a_cycle_is_found(model: Model) -> None:
    for _ in range(2):
        model.add_operand(tensor(2, 3))
    model.set_operand_value(2, 0)
    model.add_operation(OperationCode.ADD, [0, 4, 2], [3])
    model.add_operation(OperationCode.RELU, [3], [4])
    model.add_operation(OperationCode.RELU, [4], [1])
    model.identify_inputs_and_outputs([0], [1])
    with expect(BAD_DATA, "cycle"):
        model.finish()


def test_operations_may_be_added_in_any_order() -> None:
    model = Model()
    x, between, y = (model.add_operand(tensor(3)) for _ in range(3))
    model.add_operation(OperationCode.RELU, [between], [y])
    model.add_operation(OperationCode.TANH, [x], [between])
    model.identify_inputs_and_outputs([x], [y])
    model.finish()
    assert [operation.type for operation in model.operations] == [OperationCode.TANH, OperationCode.RELU]
    out = run(compiled(model), np.array([-1, 0, 1], np.float32), out=np.empty(3, np.float32))
    np.testing.assert_allclose(out, [0, 0, np.tanh(1)], rtol=1e-6)


def test_finish_names_all_errors() -> None:
    model = Model()
    x = model.add_operand(tensor(2, 3))
    y, z = model.add_operand(tensor(3, 2)), model.add_operand(tensor(9))
    model.add_operation(OperationCode.RELU, [x], [y])
    model.add_operation(OperationCode.SOFTMAX, [x], [z])
    model.identify_inputs_and_outputs([x], [y, z])
    with expect(BAD_DATA, r"(?s)operation 0, RELU.*operation 1, SOFTMAX"):
        model.finish()
    assert model.finished and not model.valid


def test_lifetimes() -> None:
    model = single("ADD", [tensor(2), np.zeros(2, np.float32), 0], [tensor(2)])
    found = [operand.lifetime.name for operand in model.operands]
    assert found == ["MODEL_INPUT", "CONSTANT_COPY", "CONSTANT_COPY", "MODEL_OUTPUT"]
