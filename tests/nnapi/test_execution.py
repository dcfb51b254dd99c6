"""The calls of ANeuralNetworksCompilation, _Execution and _Event, rule by rule."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.compilation.specialise import MAX_SPECIALISATIONS
from gpunn.nnapi import (
    Compilation,
    Execution,
    Memory,
    Model,
    NnapiError,
    OperandCode,
    OperandType,
    OperationCode,
    PreferenceCode,
    ResultCode,
)
from tests.nnapi.builder import FLOAT, INT, compiled, expect, relu, run, single, tensor

BAD_DATA, BAD_STATE, NULL = ResultCode.BAD_DATA, ResultCode.BAD_STATE, ResultCode.UNEXPECTED_NULL
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
Y = np.maximum(X, 0)


def empty(*shape: int) -> Any:
    """Somewhere to write to."""
    return np.full(shape, np.nan, np.float32)


# ---- compilation


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
    with expect(BAD_DATA, "no preference"):
        compilation.set_preference(3)  # type: ignore[arg-type]
    with expect(NULL):
        compilation.set_preference(None)  # type: ignore[arg-type]


def test_a_finished_compilation_cannot_be_modified() -> None:
    compilation = compiled(relu(2))
    with expect(BAD_STATE):
        compilation.set_preference(PreferenceCode.LOW_POWER)
    with expect(BAD_STATE):
        compilation.finish()


def test_backends_and_devices_that_do_not_exist() -> None:
    with expect(BAD_DATA, "backend"):
        Compilation(relu(2), backend="tpu")
    compilation = Compilation(relu(2), backend="webgpu", device="no such adapter")
    with expect(ResultCode.OP_FAILED, "no such adapter|no GPU"):
        compilation.finish()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), ResultCode.OUT_OF_MEMORY),
        (gpunn.DeviceError("out of GPU memory: an arena needs 9 bytes"), ResultCode.OUT_OF_MEMORY),
        (gpunn.DeviceError("out of memory: relu (r): no 9 bytes"), ResultCode.OUT_OF_MEMORY),
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
    monkeypatch.setattr(gpunn.Compilation, "submit", fail)
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


def test_values_that_are_computed_cannot_be_attributes() -> None:
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


# ---- execution


def test_an_execution_needs_a_finished_compilation() -> None:
    with expect(NULL):
        Execution(None)  # type: ignore[arg-type]
    with expect(BAD_STATE, "not been finished"):
        Execution(Compilation(relu(2)))


@pytest.fixture
def execution() -> Execution:
    """Of a RELU of float32[2, 3]."""
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
    execution.set_output(0, out := empty(2, 3))
    execution.start_compute().wait()
    np.testing.assert_array_equal(out, Y)


WRONG_BUFFERS = {
    "dtype": np.zeros((2, 3), np.float64),
    "integers": np.zeros((2, 3), np.int32),
    "shape": np.zeros((3, 2), np.float32),
    "rank": np.zeros(6, np.float32),
    "too few bytes": bytearray(20),
    "too many bytes": bytearray(28),
}


@pytest.mark.parametrize("buffer", WRONG_BUFFERS.values(), ids=WRONG_BUFFERS)
def test_buffers_that_do_not_fit(buffer: Any, execution: Execution) -> None:
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
    with expect(BAD_DATA, "written"):
        execution.set_output_from_memory(0, Memory.from_array(frozen), 0, 24)


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


# ---- dimensions that come with an execution


def test_dimensions_of_0_are_bound_by_set_input(backend: str) -> None:
    model = single("RELU", [tensor(0, 3)], [tensor(0, 3)])
    compilation = compiled(model, backend)
    assert not compilation.specialisations
    for rows in (1, 2, 5, 2):
        x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        out = run(compilation, x, out=empty(rows, 3), types=[tensor(rows, 3), tensor(rows, 3)])
        np.testing.assert_array_equal(out, np.maximum(x, 0))
    assert len(compilation.specialisations) == 3


def test_specialisations_are_bounded() -> None:
    compilation = compiled(single("RELU", [tensor(0)], [tensor(0)]))
    for n in [*range(1, 2 * MAX_SPECIALISATIONS), 1]:
        run(compilation, np.ones(n, np.float32), out=empty(n), types=[tensor(n), tensor(n)])
    kept = [s.compiled.model.inputs[0].type.shape[0] for s in compilation.specialisations]
    assert len(kept) == MAX_SPECIALISATIONS and kept[-1] == 1


def test_a_model_without_open_dimensions_is_compiled_at_finish_once() -> None:
    compilation = compiled(relu(2, 3))
    first = compilation.specialisations
    for types in ([], [tensor(2, 3), tensor(2, 3)]):
        run(compilation, X, out=empty(2, 3), types=types)
    assert len(first) == 1 and compilation.specialisations == first


WRONG_BINDINGS = {
    "open": (tensor(0, 3), X),
    "none": (None, X),
    "other size": (tensor(2, 4), np.zeros((2, 4), np.float32)),
    "other rank": (tensor(6), np.zeros(6, np.float32)),
    "other code": (tensor(2, 3, code=INT), X),
    "other scale": (OperandType(FLOAT, (2, 3), 1.0), X),
    "negative": (tensor(-2, 3), X),
}


@pytest.mark.parametrize(("type", "buffer"), WRONG_BINDINGS.values(), ids=WRONG_BINDINGS)
def test_types_that_do_not_bind(type: OperandType | None, buffer: Any) -> None:
    execution = Execution(compiled(single("RELU", [tensor(0, 3)], [tensor(0, 3)])))
    with expect(BAD_DATA):
        execution.set_input(0, buffer, type)
    with expect(BAD_DATA):
        execution.set_output(0, np.array(buffer), type)


def test_an_output_has_the_shape_that_is_computed() -> None:
    execution = Execution(compiled(single("RELU", [tensor(0, 3)], [tensor(0, 3)])))
    execution.set_input(0, X, tensor(2, 3))
    execution.set_output(0, empty(4, 3), tensor(4, 3))
    with expect(BAD_DATA, "shape"):
        execution.start_compute()


def test_inputs_that_do_not_fit_each_other_are_found_at_the_start() -> None:
    model = single("ADD", [tensor(0), tensor(0), 0], [tensor(0)])
    execution = Execution(compiled(model))
    execution.set_input(0, empty(2), tensor(2))
    execution.set_input(1, empty(3), tensor(3))
    execution.set_output(0, empty(3), tensor(3))
    with expect(BAD_DATA, "operation 0, ADD"):
        execution.start_compute()


# ---- attributes and optional operands that are inputs


def test_attributes_may_be_inputs(backend: str) -> None:
    model = single("RESHAPE", [tensor(2, 3), tensor(2, code=INT)], [tensor(0, 0)])
    compilation = compiled(model, backend)
    for shape in ([3, 2], [6, 1], [3, 2], [-1, 6]):
        out = np.empty_like(X.reshape(shape))
        run(compilation, X, np.array(shape, np.int32), out=out, types=[None, None, tensor(*out.shape)])
        np.testing.assert_array_equal(out, X.reshape(shape))
    assert len(compilation.specialisations) == 3


def test_scalars_may_be_inputs() -> None:
    model = single("ADD", [tensor(2), tensor(2), OperandType(OperandCode.INT32)], [tensor(2)])
    compilation = compiled(model)
    x = np.array([-3, 1], np.float32)
    assert run(compilation, x, x, 0, out=empty(2)).tolist() == [-6, 2]
    assert run(compilation, x, x, 1, out=empty(2)).tolist() == [0, 2]
    with expect(BAD_DATA, "fuse must be one of"):
        run(compilation, x, x, 4, out=empty(2))


def test_only_optional_inputs_may_be_omitted() -> None:
    model = single("ADD", [tensor(2), tensor(2), 0], [tensor(2)])
    with expect(BAD_DATA, r"b \(operand 1\) is not optional"):
        run(compiled(model), np.ones(2, np.float32), None, out=empty(2))


def test_an_optional_input_may_be_omitted_or_not() -> None:
    model = single("TRANSPOSE", [tensor(2, 3), tensor(2, code=INT)], [tensor(0, 0)])
    compilation = compiled(model)
    types = [None, None, tensor(3, 2)]
    for perm in (None, np.array([1, 0], np.int32)):
        np.testing.assert_array_equal(run(compilation, X, perm, out=empty(3, 2), types=types), X.T)
    same = run(compilation, X, np.array([0, 1], np.int32), out=empty(2, 3), types=[None, None, tensor(2, 3)])
    np.testing.assert_array_equal(same, X)


def test_refused_starts_may_be_repaired(execution: Execution) -> None:
    execution.set_input(0, X)
    execution.set_output(0, X)
    with expect(BAD_DATA, "overlaps"):
        execution.start_compute()
    execution.set_output(0, out := empty(2, 3))
    execution.start_compute().wait()
    np.testing.assert_array_equal(out, Y)


# ---- events


def lookup(rows: int = 4) -> Model:
    """An EMBEDDING_LOOKUP of two lookups."""
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


def test_every_thread_that_waits_hears_of_the_failure() -> None:
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


def test_executions_may_be_in_flight_together(backend: str) -> None:
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
