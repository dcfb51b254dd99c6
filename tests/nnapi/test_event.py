"""The calls of ANeuralNetworksEvent: failures of a run, threads, several executions in flight."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from gpunn.compilation.specialise import MAX_SPECIALISATIONS
from gpunn.nnapi import (
    Compilation,
    Execution,
    Model,
    NnapiError,
    OperandCode,
    OperandType,
    OperationCode,
    ResultCode,
)
from tests.nnapi.builder import (
    BAD_DATA,
    BAD_STATE,
    INT,
    X,
    Y,
    compiled,
    empty,
    expect,
    relu,
    run,
    single,
    tensor,
)


def lookup(rows: int = 4) -> Model:
    """Return a model of EMBEDDING_LOOKUP with two lookups."""
    return single("EMBEDDING_LOOKUP", [tensor(2, code=INT), tensor(rows, 2)], [tensor(2, 2)])


@pytest.mark.parametrize("wrong", [4, -1, 2**31 - 1])
def test_a_lookup_out_of_range_fails_the_execution(wrong: int, backend: str) -> None:
    compilation = compiled(lookup(), backend)
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    execution = Execution(compilation)
    execution.set_input(0, np.array([1, wrong], np.int32))
    execution.set_input(1, values)
    execution.set_output(0, out := empty(2, 2))
    event = execution.start_compute()
    for _ in range(2):
        with expect(ResultCode.OP_FAILED, f"lookup {wrong} is not an index into 4 rows"):
            event.wait()
    assert np.isnan(out).all()
    assert run(compilation, np.array([3, 0], np.int32), values, out=empty(2, 2)).tolist() == [[6, 7], [0, 1]]


def test_computed_lookups_are_checked_too(backend: str) -> None:
    model = Model()
    rows, table = model.add_operand(tensor(2, code=INT)), model.add_operand(tensor(3, 1, code=INT))
    hash, no_weight = model.add_operand(tensor(1, 8)), model.add_operand(tensor(2))
    kind, code = model.add_operand(OperandType(OperandCode.INT32)), model.add_operand(tensor(1, code=INT))
    found, values = model.add_operand(tensor(2, 1, code=INT)), model.add_operand(tensor(2, 2))
    y = model.add_operand(tensor(1, 2))
    model.set_operand_value(hash, np.arange(8, dtype=np.float32).reshape(1, 8))
    model.set_operand_value(no_weight, None)
    model.set_operand_value(kind, 1)
    model.add_operation(OperationCode.EMBEDDING_LOOKUP, [rows, table], [found])
    model.add_operation(OperationCode.LSH_PROJECTION, [hash, found, no_weight, kind], [code])
    model.add_operation(OperationCode.EMBEDDING_LOOKUP, [code, values], [y])
    model.identify_inputs_and_outputs([rows, table, values], [y])
    model.finish()
    with expect(ResultCode.OP_FAILED, "embedding_lookup"):
        run(
            compiled(model, backend),
            np.array([0, 2], np.int32),
            np.array([[5], [6], [7]], np.int32),
            np.zeros((2, 2), np.float32),
            out=empty(1, 2),
        )


def test_constant_lookups_are_checked_by_the_compilation() -> None:
    model = single("EMBEDDING_LOOKUP", [[1, 4], tensor(4, 2)], [tensor(2, 2)])
    with expect(ResultCode.OP_FAILED, "operation 0, EMBEDDING_LOOKUP: lookup 4"):
        Compilation(model, backend="cpu").finish()


def test_unsorted_keys_are_refused() -> None:
    keys = tensor(3, code=INT)
    outputs = [tensor(1, 2), OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (1,), 1.0)]
    model = single("HASHTABLE_LOOKUP", [tensor(1, code=INT), keys, tensor(3, 2)], outputs)
    execution = Execution(compiled(model))
    execution.set_input(0, np.zeros(1, np.int32))
    execution.set_input(1, np.array([1, 3, 2], np.int32))
    execution.set_input(2, empty(3, 2))
    execution.set_output(0, empty(1, 2))
    execution.set_output(1, np.empty(1, np.uint8))
    with expect(BAD_DATA, "sorted"):
        execution.start_compute()
    with expect(BAD_DATA, "sorted"):
        single("HASHTABLE_LOOKUP", [tensor(1, code=INT), [1, 3, 2], tensor(3, 2)], outputs)


def test_several_threads_may_wait_on_one_event(backend: str) -> None:
    compilation = compiled(relu(2, 3), backend)
    execution = Execution(compilation)
    execution.set_input(0, X)
    execution.set_output(0, out := empty(2, 3))
    event = execution.start_compute()
    seen: list[bool] = []

    def wait() -> None:
        event.wait()
        seen.append(np.array_equal(out, Y))

    threads = [threading.Thread(target=wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    event.wait()
    assert seen == [True] * 8


def test_every_waiting_thread_gets_the_failure() -> None:
    execution = Execution(compiled(lookup()))
    execution.set_input(0, np.array([9, 9], np.int32))
    execution.set_input(1, np.zeros((4, 2), np.float32))
    execution.set_output(0, empty(2, 2))
    event = execution.start_compute()
    codes: list[ResultCode] = []

    def wait() -> None:
        try:
            event.wait()
        except NnapiError as error:
            codes.append(error.code)

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [ResultCode.OP_FAILED] * 4


def test_several_executions_may_be_in_flight(backend: str) -> None:
    compilation = compiled(single("RELU", [tensor(0)], [tensor(0)]), backend)
    started = []
    for n in range(1, MAX_SPECIALISATIONS + 4):
        execution = Execution(compilation)
        x = np.full(n, n, np.float32)
        execution.set_input(0, x, tensor(n))
        execution.set_output(0, out := empty(n), tensor(n))
        started.append((execution.start_compute(), x, out))
    for event, x, out in reversed(started):
        event.wait()
        np.testing.assert_array_equal(out, x)


def test_closing_lets_executions_end(backend: str) -> None:
    with compiled(relu(2, 3), backend) as compilation:
        execution = Execution(compilation)
        execution.set_input(0, X)
        execution.set_output(0, out := empty(2, 3))
        event = execution.start_compute()
    event.wait()
    np.testing.assert_array_equal(out, Y)
    assert not compilation.specialisations
    with expect(BAD_DATA, "closed"):
        Execution(compilation)


def test_an_execution_does_not_start_once_its_compilation_is_closed() -> None:
    compilation = compiled(relu(2, 3))
    execution = Execution(compilation)
    execution.set_input(0, X)
    execution.set_output(0, empty(2, 3))
    compilation.close()
    with expect(BAD_STATE, "closed"):
        execution.start_compute()
