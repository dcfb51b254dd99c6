"""Feature levels: the forms that each adds, and the messages of the levels before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.nnapi import (
    Execution,
    FeatureLevelCode,
    Memory,
    Model,
    OperandCode,
    OperandType,
    OperationCode,
    ResultCode,
    SymmPerChannelQuantParams,
)
from tests.nnapi.builder import (
    BAD_DATA,
    BAD_STATE,
    FLOAT,
    INT,
    NULL,
    compiled,
    empty,
    expect,
    run,
    single,
    tensor,
)
from tests.nnapi.levels import ADDED, HALF, PER_CHANNEL, WRONG

OPEN = OperandType(FLOAT)
BOOL = OperandType(OperandCode.BOOL)


@pytest.mark.parametrize(("operation", "inputs", "outputs", "level", "words"), ADDED.values(), ids=ADDED)
def test_forms_are_supported_from_their_level_on(
    operation: str, inputs: Sequence[Any], outputs: Sequence[OperandType], level: int, words: str
) -> None:
    for later in range(level, 31):
        assert single(operation, inputs, outputs, level=later).valid
    with expect(BAD_DATA, words):
        single(operation, inputs, outputs, level=level - 1)


@pytest.mark.parametrize(("operation", "inputs", "outputs", "words"), WRONG.values(), ids=WRONG)
def test_a_broken_constraint_of_a_later_level(
    operation: str, inputs: Sequence[Any], outputs: Sequence[OperandType], words: str
) -> None:
    model = single(operation, inputs, outputs, finish=False, level=30)
    with expect(BAD_DATA, words):
        model.finish()


def test_the_feature_level_of_a_model() -> None:
    assert Model().feature_level is FeatureLevelCode.FEATURE_LEVEL_1 == 27
    assert Model(feature_level=30).feature_level is FeatureLevelCode.FEATURE_LEVEL_4
    for level in (26, 31, "29", None):
        with expect(BAD_DATA, "feature_level must be one of 27, 28, 29, 30"):
            Model(feature_level=level)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("ADD", [-4, 9, 2]), ("SUB", [-10, 5, -4]), ("MUL", [-21, 14, -3]), ("DIV", [-3, 3, -1])],
)
def test_integers(operation: str, expected: list[int], backend: str) -> None:
    a, b = np.array([-7, 7, -1], np.int32), np.array([3, 2, 3], np.int32)
    x = tensor(3, code=INT)
    model = single(operation, [x, x, 0], [x], level=30)
    assert run(compiled(model, backend), a, b, out=np.empty(3, np.int32)).tolist() == expected


def test_responses_with_bias_0_are_computed_where_the_sum_is_positive(backend: str) -> None:
    x = tensor(1, 1, 1, 3)
    model = single("LOCAL_RESPONSE_NORMALIZATION", [x, 0, 0.0, 1.0, 0.5], [x], level=29)
    given = np.array([3, -4, 0.5], np.float32).reshape(1, 1, 1, 3)
    out = run(compiled(model, backend), given, out=empty(1, 1, 1, 3))
    np.testing.assert_allclose(out.ravel(), [1, -1, 1], rtol=1e-5)


def test_float16_is_computed_in_float32_and_rounded(backend: str) -> None:
    """A mean whose sum overflows float16, and 2049 + 0.5, which float16 rounds to 2050."""
    x = tensor(1, 64, code=HALF)
    model = single("MEAN", [x, [1], 1], [tensor(1, 1, code=HALF)], level=29)
    out = run(compiled(model, backend), np.full((1, 64), 6e4, np.float16), out=np.empty((1, 1), np.float16))
    assert out.item() == np.float16(6e4)
    y = tensor(2, code=HALF)
    half = np.array([2048, 1], np.float16)
    model = single("ADD", [y, np.array([1.5, 2**-12], np.float16), 0], [y], level=29)
    out = run(compiled(model, backend), half, out=np.empty(2, np.float16))
    assert out.tolist() == [2050, 1]


def test_nchw_is_the_transposed_operation(backend: str) -> None:
    """Height, width and both paddings differ, so that swapped axes are detected."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 5, 7, 3)).astype(np.float32)
    weights = [rng.standard_normal((4, 2, 3, 3)).astype(np.float32), np.ones(4, np.float32)]
    scalars = [0, 1, 2, 0, 2, 1, 1]  # padding left, right, top, bottom, stride width, height, RELU
    results = []
    for last in (True, False):
        shape, size = ((2, 5, 7, 3), (2, 6, 3, 4)) if last else ((2, 3, 5, 7), (2, 4, 6, 3))
        inputs = [tensor(*shape), *weights, *scalars, not last]
        model = single("CONV_2D", inputs, [tensor(*size)], level=29)
        given = x if last else np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        results.append(run(compiled(model, backend), given, out=empty(*size)))
    np.testing.assert_allclose(results[1].transpose(0, 2, 3, 1), results[0], rtol=1e-5, atol=1e-5)


def test_the_layout_may_be_an_input(backend: str) -> None:
    model = single("SPACE_TO_DEPTH", [tensor(1, 4, 4, 4), 2, BOOL], [tensor(1, 0, 0, 0)], level=29)
    compilation = compiled(model, backend)
    x = np.arange(64, dtype=np.float32).reshape(1, 4, 4, 4)
    for first, shape in ((False, (1, 2, 2, 16)), (True, (1, 16, 2, 2))):
        out = run(compilation, x, first, out=empty(*shape), types=[None, None, tensor(*shape)])
        images = x.transpose(0, 2, 3, 1) if first else x
        blocks = images.reshape(1, 2, 2, 2, 2, 4).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 2, 16)
        np.testing.assert_array_equal(out, blocks.transpose(0, 3, 1, 2) if first else blocks)


def test_a_rank_may_come_with_an_execution(backend: str) -> None:
    compilation = compiled(single("TANH", [OPEN], [OPEN], level=29), backend)
    for shape in ((3,), (2, 3), (1, 2, 3, 2)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        out = run(compilation, x, out=empty(*shape), types=[tensor(*shape), tensor(*shape)])
        np.testing.assert_allclose(out, np.tanh(x), rtol=1e-5)
    with expect(BAD_DATA, "must have all dimensions specified"):
        run(compilation, x, out=empty(*shape))
    with expect(BAD_DATA, "rank 1 to 4"):
        run(compilation, empty(1, 1, 1, 1, 1), out=x, types=[tensor(1, 1, 1, 1, 1), tensor(*shape)])


def test_an_unranked_result_gets_the_rank_that_follows() -> None:
    """TRANSPOSE waits for the rank; its result has no rank in the model and gets that of the input."""
    model = Model(feature_level=29)
    x, between, y = (model.add_operand(OPEN) for _ in range(3))
    perm = model.add_operand(tensor(0, code=INT))
    model.set_operand_value(perm, None)
    model.add_operation(OperationCode.TRANSPOSE, [x, perm], [between])
    model.add_operation(OperationCode.RELU, [between], [y])
    model.identify_inputs_and_outputs([x], [y])
    model.finish()
    given = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)
    out = run(compiled(model), given, out=empty(3, 2), types=[tensor(2, 3), tensor(3, 2)])
    np.testing.assert_array_equal(out, np.maximum(given.T, 0))


@pytest.mark.parametrize("operation", ["PAD", "STRIDED_SLICE", "SOFTMAX", "CONCATENATION", "TRANSPOSE"])
def test_rules_that_need_the_rank_wait_for_it(operation: str, backend: str) -> None:
    given = np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)
    exponents = np.exp(given)
    inputs: list[Any]
    inputs, expected = {
        "PAD": ([OPEN, [[0, 0], [1, 0]]], np.pad(given, ((0, 0), (1, 0)))),
        "STRIDED_SLICE": ([OPEN, [0, 1], [2, 3], [1, 1], 0, 0, 0], given[:, 1:]),
        "SOFTMAX": ([OPEN, 1.0, 0], exponents / exponents.sum(0)),
        "CONCATENATION": ([OPEN, 1], given),
        "TRANSPOSE": ([OPEN, [1, 0]], given.T),
    }[operation]
    compilation = compiled(single(operation, inputs, [OPEN], level=29), backend)
    out = run(compilation, given, out=empty(*expected.shape), types=[tensor(2, 3), tensor(*expected.shape)])
    np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_a_dimension_of_size_0_comes_with_an_execution(backend: str) -> None:
    compilation = compiled(single("RELU", [tensor(0, 3)], [tensor(0, 3)], level=29), backend)
    nothing = tensor(0, 3)
    assert run(compilation, empty(0, 3), out=empty(0, 3), types=[nothing, nothing]).shape == (0, 3)
    with expect(BAD_DATA, "all dimensions specified"):
        run(compilation, empty(0, 3), out=empty(0, 3))


ROOMS = {
    "array": lambda: np.full(8, 9, np.float32),
    "array of another shape": lambda: np.full((4, 2), 9, np.float32),
    "bytes": lambda: bytearray(np.full(8, 9, np.float32).tobytes() + b"odd"),
}


@pytest.mark.parametrize("room", ROOMS.values(), ids=ROOMS)
@pytest.mark.parametrize("open", [OPEN, tensor(0, 0), tensor(0, 2)], ids=["rank", "shape", "rows"])
def test_outputs_of_open_shape_fill_the_start_of_their_buffers(
    open: OperandType, room: Callable[[], Any], backend: str
) -> None:
    """Other inputs to the same compilation give another shape."""
    compilation = compiled(single("TRANSPOSE", [tensor(0, 0), [1, 0]], [open], level=29), backend)
    for columns in (1, 3):
        execution, buffer = Execution(compilation), room()
        with expect(BAD_STATE, "no execution has found"):
            execution.get_output_operand_dimensions(0)
        x = np.arange(2 * columns, dtype=np.float32).reshape(2, columns)
        execution.set_input(0, x, tensor(2, columns))
        execution.set_output(0, buffer)
        execution.start_compute().wait()
        assert execution.get_output_operand_dimensions(0) == (columns, 2)
        assert execution.get_output_operand_rank(0) == 2
        flat = np.frombuffer(bytes(buffer)[:32], np.float32)
        assert flat.tolist() == [*x.T.ravel().tolist(), *[9] * (8 - 2 * columns)]
        with expect(BAD_DATA):
            execution.get_output_operand_dimensions(1)


def test_a_buffer_that_is_too_small_can_be_replaced() -> None:
    execution = Execution(compiled(single("RELU", [tensor(0)], [tensor(0)], level=29)))
    execution.set_input(0, np.array([-1, 2, 3], np.float32), tensor(3))
    execution.set_output(0, empty(2))
    with expect(ResultCode.OUTPUT_INSUFFICIENT_SIZE, r"shape \[3\], its buffer has room for 2 elements"):
        execution.start_compute()
    out = empty(*execution.get_output_operand_dimensions(0))
    execution.set_output(0, out)
    execution.start_compute().wait()
    assert out.tolist() == [0, 2, 3]


def test_an_output_of_open_shape_in_a_memory() -> None:
    values = np.full(6, 9, np.float32)
    execution = Execution(compiled(single("RELU", [tensor(0)], [tensor(0)], level=29)))
    execution.set_input(0, np.array([-1, 2, 3], np.float32), tensor(3))
    execution.set_output_from_memory(0, Memory.from_array(values), 4, 20)
    execution.start_compute().wait()
    assert values.tolist() == [9, 0, 2, 3, 9, 9]


@pytest.mark.parametrize(
    "buffer", [np.zeros(4), np.zeros((4, 4), np.float32).T, b"1234", 7], ids=["dtype", "order", "read", "int"]
)
def test_impossible_buffers_of_outputs_are_refused(buffer: Any) -> None:
    execution = Execution(compiled(single("RELU", [tensor(0)], [tensor(0)], level=29)))
    with expect(BAD_DATA, "output 0 must be a writable, C-contiguous buffer of float32"):
        execution.set_output(0, buffer)
    earlier = Execution(compiled(single("RELU", [tensor(0)], [tensor(0)])))
    with expect(BAD_DATA, "all dimensions specified"):
        earlier.set_output(0, empty(4))


def test_scales_per_channel_are_set_by_a_call() -> None:
    model = Model(feature_level=29)
    k = model.add_operand(OperandType(PER_CHANNEL, (2, 3)))
    model.set_operand_symm_per_channel_quant_params(k, SymmPerChannelQuantParams(1, (0.5, 1.0, 2.0)))
    model.set_operand_value(k, np.array([[1, 2, 3], [-4, -5, -6]], np.int8))
    x, y, z = (model.add_operand(tensor(2, 3)) for _ in range(3))
    model.add_operation(OperationCode.DEQUANTIZE, [k], [y])
    fuse = model.add_operand(OperandType(OperandCode.INT32))
    model.set_operand_value(fuse, 0)
    model.add_operation(OperationCode.ADD, [x, y, fuse], [z])
    model.identify_inputs_and_outputs([x], [z])
    model.finish()
    out = run(compiled(model), np.zeros((2, 3), np.float32), out=empty(2, 3))
    assert out.tolist() == [[0.5, 2, 6], [-2, -5, -12]]


WRONG_CHANNELS = {
    "too few": (SymmPerChannelQuantParams(1, (0.5, 1.0)), "needs 3 scales along dimension 1, got 2"),
    "no dimension": (SymmPerChannelQuantParams(2, (0.5, 1.0)), "channel_dim must be a dimension"),
    "zero": (SymmPerChannelQuantParams(0, (0.5, 0.0)), "must be over 0"),
    "no number": (SymmPerChannelQuantParams(0, ("a", 1.0)), "are no scales per channel"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("channels", "words"), WRONG_CHANNELS.values(), ids=WRONG_CHANNELS)
def test_wrong_scales_per_channel_are_refused(channels: SymmPerChannelQuantParams, words: str) -> None:
    model = Model(feature_level=29)
    k = model.add_operand(OperandType(PER_CHANNEL, (2, 3)))
    with expect(BAD_DATA, words):
        model.set_operand_symm_per_channel_quant_params(k, channels)
    with expect(BAD_DATA, words):
        model.add_operand(OperandType(PER_CHANNEL, (2, 3), channels=channels))


def test_scales_per_channel_are_required_by_their_type_only() -> None:
    model = Model(feature_level=29)
    x = model.add_operand(tensor(2))
    with expect(BAD_DATA, "are for TENSOR_QUANT8_SYMM_PER_CHANNEL"):
        model.set_operand_symm_per_channel_quant_params(x, SymmPerChannelQuantParams(0, (1.0, 1.0)))
    with expect(NULL):
        model.set_operand_symm_per_channel_quant_params(x, None)  # type: ignore[arg-type]
    model = single("DEQUANTIZE", [OperandType(PER_CHANNEL, (2,))], [tensor(2)], finish=False, level=29)
    with expect(BAD_DATA, "operand 0 has no scales"):
        model.finish()


def test_bools_are_0_or_1() -> None:
    model = Model(feature_level=29)
    k = model.add_operand(BOOL)
    for value in (True, 0, np.bool_(True), b"\1"):
        model.set_operand_value(k, value)
        assert model.operands[k].value == bool(value)
    for value in (2, 0.5, "yes"):
        with expect(BAD_DATA):
            model.set_operand_value(k, value)
