"""The calls of ANeuralNetworksExecution, rule by rule."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest

from gpunn.errors import NnapiError, ResultCode
from gpunn.nnapi import Compilation, Execution, Memory, Model, OperandCode, OperandType, OperationCode
from tests.nnapi.builder import BAD_DATA, BAD_STATE, NULL, X, Y, compiled, empty, expect, relu, tensor


def check_answer(execution: Execution) -> None:
    """Give the output memory, compute, and compare."""
    execution.set_output(0, out := empty(2, 3))
    execution.start_compute().wait()
    np.testing.assert_array_equal(out, Y)


def test_an_execution_needs_a_finished_compilation() -> None:
    with expect(NULL):
        Execution(None)  # type: ignore[arg-type]
    with expect(BAD_STATE, "not been finished"):
        Execution(Compilation(relu(2)))


@pytest.fixture
def execution() -> Execution:
    """Return an execution of a RELU of float32[2, 3]."""
    return Execution(compiled(relu(2, 3)))


CALLS: dict[str, Callable[[Execution, int], None]] = {
    "set_input": lambda e, k: e.set_input(k, X),
    "set_output": lambda e, k: e.set_output(k, empty(2, 3)),
    "set_input_from_memory": lambda e, k: e.set_input_from_memory(k, Memory.from_array(X), 0, 24),
    "set_output_from_memory": lambda e, k: e.set_output_from_memory(k, Memory.from_array(empty(2, 3)), 0, 24),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_execution_is_used_once(call: Callable[[Execution, int], None], execution: Execution) -> None:
    execution.set_input(0, X)
    execution.set_output(0, empty(2, 3))
    event = execution.start_compute()
    with expect(BAD_STATE, "has been started"):
        call(execution, 0)
    event.wait()
    with expect(BAD_STATE, "has been started"):
        call(execution, 0)
    with expect(BAD_STATE, "start_compute: the execution has been started"):
        execution.start_compute()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("index", [1, -1, 1.5])
def test_unknown_arguments(call: Callable[[Execution, int], None], index: Any, execution: Execution) -> None:
    with expect(BAD_DATA, "index"):
        call(execution, index)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_null_index(call: Callable[[Execution, int], None], execution: Execution) -> None:
    with expect(NULL):
        call(execution, None)  # type: ignore[arg-type]


def test_null_memories_and_outputs(execution: Execution) -> None:
    with expect(NULL):
        execution.set_output(0, None)
    with expect(NULL):
        execution.set_input_from_memory(0, None, 0, 24)  # type: ignore[arg-type]
    with expect(NULL):
        execution.set_output_from_memory(0, None, 0, 24)  # type: ignore[arg-type]


def test_inputs_and_outputs_must_all_be_set(execution: Execution) -> None:
    with expect(BAD_DATA, "input 0 .* not been set"):
        execution.start_compute()
    execution.set_input(0, X)
    with expect(BAD_DATA, "output 0 .* not been set"):
        execution.start_compute()
    check_answer(execution)


WRONG_BUFFERS = {
    "dtype": np.zeros((2, 3), np.float64),
    "integers": np.zeros((2, 3), np.int32),
    "shape": np.zeros((3, 2), np.float32),
    "rank": np.zeros(6, np.float32),
    "too few bytes": bytearray(20),
    "too many bytes": bytearray(28),
}


@pytest.mark.parametrize("buffer", WRONG_BUFFERS.values(), ids=WRONG_BUFFERS)
def test_wrong_buffers_are_refused(buffer: Any, execution: Execution) -> None:
    with expect(BAD_DATA):
        execution.set_input(0, buffer)
    with expect(BAD_DATA):
        execution.set_output(0, buffer)


def test_outputs_must_be_writable_and_contiguous(execution: Execution) -> None:
    frozen = empty(2, 3)
    frozen.flags.writeable = False
    for buffer in (frozen, bytes(24), empty(3, 2).T, empty(2, 6)[:, ::2]):
        with expect(BAD_DATA, "writable"):
            execution.set_output(0, buffer)
    with expect(BAD_DATA, "must be an array or a bytes-like object to write to"):
        execution.set_output(0, [[1, 2, 3], [4, 5, 6]])
    with expect(BAD_DATA, "written"):
        execution.set_output_from_memory(0, Memory.from_array(frozen), 0, 24)


def test_numbers_beyond_the_range_of_float32(execution: Execution) -> None:
    with expect(BAD_DATA, "in the range of float32"):
        execution.set_input(0, [[1, 2, 3], [4, 5, 1e300]])


def test_bytes_like_buffers(execution: Execution) -> None:
    out = bytearray(24)
    execution.set_input(0, X.tobytes())
    execution.set_output(0, out)
    execution.start_compute().wait()
    assert bytes(out) == Y.tobytes()


def test_memories(execution: Execution) -> None:
    source, target = np.zeros(10, np.float32), np.zeros(10, np.float32)
    source[2:8] = X.reshape(-1)
    execution.set_input_from_memory(0, Memory.from_array(source), 8, 24)
    execution.set_output_from_memory(0, Memory.from_array(target), 4, 24)
    execution.start_compute().wait()
    np.testing.assert_array_equal(target, [0, *Y.reshape(-1), 0, 0, 0])
    with expect(BAD_DATA):
        Execution(compiled(relu(2, 3))).set_input_from_memory(0, Memory.from_array(source), 0, 20)


def test_buffers_are_referenced_until_the_start(execution: Execution) -> None:
    x = X.copy()
    execution.set_input(0, x)
    execution.set_output(0, out := empty(2, 3))
    x[0, 0] = 9
    execution.start_compute().wait()
    assert out[0, 0] == 9


@pytest.mark.parametrize("where", ["input", "output", "constant"])
def test_outputs_overlap_nothing(where: str) -> None:
    model = Model()
    x, y, z, fuse = (model.add_operand(t) for t in (tensor(50),) * 3 + (OperandType(OperandCode.INT32),))
    w = model.add_operand(tensor(50))
    weights = np.zeros(50, np.float32)
    model.set_operand_value(fuse, 0)
    model.set_operand_value(w, weights)
    model.add_operation(OperationCode.ADD, [x, w, fuse], [y])
    model.add_operation(OperationCode.RELU, [x], [z])
    model.identify_inputs_and_outputs([x], [y, z])
    model.finish()
    execution = Execution(compiled(model))
    shared = np.zeros(60, np.float32)
    execution.set_input(0, shared[:50] if where == "input" else empty(50))
    execution.set_output(0, shared[10:])
    execution.set_output(1, {"output": shared[:50], "constant": weights}.get(where, empty(50)))
    with expect(BAD_DATA, "overlaps"):
        execution.start_compute()


def test_an_execution_may_start_after_a_refused_start(execution: Execution) -> None:
    execution.set_input(0, X)
    execution.set_output(0, X)
    with expect(BAD_DATA, "overlaps"):
        execution.start_compute()
    check_answer(execution)


def test_of_several_threads_one_starts_an_execution(
    execution: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, codes = Compilation.start, []

    def slow(*arguments: Any) -> Any:
        time.sleep(0.05)  # in which all have asked
        return start(*arguments)

    def ask() -> None:
        try:
            execution.start_compute().wait()
            codes.append(ResultCode.NO_ERROR)
        except NnapiError as error:
            codes.append(error.code)

    monkeypatch.setattr(Compilation, "start", slow)
    execution.set_input(0, X)
    execution.set_output(0, empty(2, 3))
    threads = [Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == sorted([ResultCode.NO_ERROR, BAD_STATE, BAD_STATE])
