"""tabulate: operations that compute a function of one 8-bit tensor become one table, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.tabulate import MOST, tabulate
from gpunn.types import DType, Quantization, TensorType
from tests.passes.same import ops, same

SCALE = Quantization((0.05,), (7,))
GATE = Quantization((1 / 256,), (-128,))
SHAPE = (2, 3, 5)


def bytes_of(dtype: DType = DType.INT8, *shape: int) -> TensorType:
    return TensorType(dtype, shape or SHAPE, SCALE)


def add(model: Model, op: str, *inputs: Operand, to: Quantization = SCALE, **attrs: Any) -> Operand:
    return model.add(op, inputs, attrs, quantization=[to])[0]


def real(model: Model, op: str, *inputs: Operand, **attrs: Any) -> Operand:
    return model.add(op, inputs, attrs)[0]


def constant(model: Model, *shape: int) -> Operand:
    value = np.full(shape, 90, np.int8)
    return model.constant(f"constant {len(model.operations)}", value, TensorType(DType.INT8, shape, SCALE))


def swish(model: Model, x: Operand) -> Operand:
    return add(model, "mul", x, add(model, "logistic", x, to=GATE))


def hard_swish(model: Model, x: Operand) -> Operand:
    moved = add(model, "relu6", add(model, "add", x, constant(model)))
    return add(model, "mul", add(model, "mul", moved, x), constant(model, 1, 1, 1))


def through_reals(model: Model, x: Operand) -> Operand:
    stored = {"dtype": "int8", "scale": 0.05, "zero_point": 7}
    return real(model, "quantize", real(model, "elu", real(model, "dequantize", x)), **stored)


@pytest.mark.parametrize("build", [swish, hard_swish, through_reals])
def test_several_operations_are_one_table(build: Callable[[Model, Operand], Operand]) -> None:
    model = Model()
    model.output(build(model, model.input("x", bytes_of())))
    values = [np.random.default_rng(0).integers(-128, 128, SHAPE).astype(np.int8)]
    assert ops(same(model, tabulate, values)) == ["lut"]


def test_unsigned_bytes_and_every_value() -> None:
    model = Model()
    x = model.input("x", TensorType(DType.UINT8, (256,), Quantization((0.1,), (128,))))
    model.output(add(model, "mul", x, add(model, "tanh", x, to=Quantization((1 / 128,), (128,)))))
    assert ops(same(model, tabulate, [np.arange(256).astype(np.uint8)])) == ["lut"]


def test_a_convolution_before_it_stays_the_same() -> None:
    model = Model()
    weights = TensorType(DType.INT8, (5, 1, 1, 5), Quantization((0.02,), (0,)))
    filter = model.constant("w", np.arange(-12, 13).reshape(5, 1, 1, 5).astype(np.int8), weights)
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": "valid", "activation": None}
    x = add(model, "conv2d", model.input("x", bytes_of(DType.INT8, 1, 4, 4, 5)), filter, **attrs)
    model.output(swish(model, x))
    assert ops(same(model, optimise)) == ["conv2d", "lut"]


def test_what_others_read_is_no_part_of_a_table() -> None:
    model = Model()
    x = model.input("x", bytes_of())
    gate = add(model, "logistic", x, to=GATE)
    model.output(
        add(model, "mul", x, gate), add(model, "reduce_max", gate, axes=(0,), keep_dims=False, to=GATE)
    )
    assert tabulate(model) is model


def test_a_result_of_the_model_is_no_part_of_a_table() -> None:
    model = Model()
    x = model.input("x", bytes_of())
    gate = add(model, "logistic", x, to=GATE)
    model.output(gate, add(model, "mul", x, gate))
    assert tabulate(model) is model


def test_a_table_may_begin_behind_what_others_read() -> None:
    model = Model()
    gate = add(model, "logistic", model.input("x", bytes_of()), to=GATE)
    model.output(gate, swish(model, gate))
    assert ops(same(model, tabulate)) == ["logistic", "lut"]


@pytest.mark.parametrize("shape", [(5,), (1, 3, 1), (2, 3, 5), (1, 1, 1, 1)])
def test_numbers_that_depend_on_the_place_stay(shape: tuple[int, ...]) -> None:
    model = Model()
    x = model.input("x", bytes_of())
    model.output(add(model, "neg", add(model, "mul", x, constant(model, *shape))))
    assert tabulate(model) is model


def test_two_tensors_stay() -> None:
    model = Model()
    x, z = model.input("x", bytes_of()), model.input("z", bytes_of())
    model.output(add(model, "mul", x, add(model, "logistic", z, to=GATE)))
    assert tabulate(model) is model


def test_other_dtypes_and_other_shapes_stay() -> None:
    model = Model()
    wide = Quantization((0.001,), (0,))
    x = model.input("x", TensorType(DType.INT16, SHAPE, wide))
    z = model.input("z", bytes_of(DType.INT8, 1, 5))
    model.output(add(model, "mul", x, add(model, "logistic", x, to=Quantization((2**-15,), (0,))), to=wide))
    model.output(add(model, "mul", add(model, "neg", z), model.input("y", bytes_of())))
    assert tabulate(model) is model


def test_requantisation_stays_as_it_rounds_by_place() -> None:
    model = Model()
    other = {"dtype": "int8", "scale": 0.03, "zero_point": -5}
    model.output(add(model, "neg", real(model, "quantize", model.input("x", bytes_of()), **other)))
    assert tabulate(model) is model


def test_a_table_ends_before_the_real_numbers() -> None:
    model = Model()
    model.output(real(model, "dequantize", swish(model, model.input("x", bytes_of()))))
    assert ops(same(model, tabulate)) == ["lut", "dequantize"]


def test_long_chains_are_several_tables() -> None:
    model = Model()
    x = model.input("x", bytes_of())
    for _ in range(2 * MOST + 2):
        x = add(model, "neg", x)
    model.output(x)
    assert ops(same(model, tabulate)) == ["lut"] * 3
