"""Arguments of other kinds are refused where a graph is built, by an error that names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.types import DType, Quantization, TensorType, float32

# What Model has in place of an argument, by the words of the message.
CALLS: dict[str, Callable[[Model, Any], Any]] = {
    "name of a tensor must be a str": lambda m, other: m.input(other, float32(1)),
    "must have a TensorType": lambda m, other: m.input("x", other),
    "with a DType": lambda m, other: m.constant("c", [1.0], TensorType(other, (1,))),
    "must be a tuple of integers": lambda m, other: m.variable("v", TensorType(DType.FLOAT32, other)),
    "must be a gpunn.Quantization": lambda m, other: m.input("x", TensorType(DType.INT8, (2,), other)),
    "open axes|open axis": lambda m, other: m.input("x", float32(1), open=other),
    "should be an array as float32": lambda m, other: m.variable("v", float32(1), other),
    "there is no op": lambda m, other: m.add(other, m.inputs),
    "inputs of relu|expected an operand": lambda m, other: m.add("relu", other),
    "attributes of relu must be a dict": lambda m, other: m.add("relu", m.inputs, other),
    "names of relu": lambda m, other: m.add("relu", m.inputs, names=other),
    "quantisations of relu|must be a gpunn.Quant": lambda m, other: m.add(
        "relu", m.inputs, quantization=other
    ),
    "an output: expected an operand": lambda m, other: m.output(other),
    "an update: expected an operand": lambda m, other: m.update(other, m.inputs[0]),
    "the update of 'v': expected an operand": lambda m, other: m.update(m.variable("v", float32(1)), other),
    "shapes must be a dict": lambda m, other: m.reshaped(other),
}


@pytest.mark.parametrize("other", [5, 1.5, Ellipsis, [1.5], [[]]], ids=str)
@pytest.mark.parametrize("words", CALLS)
def test_other_kinds(words: str, other: Any) -> None:
    model = Model()
    model.input("x", float32(1))
    with pytest.raises(ModelError, match=words):
        CALLS[words](model, other)


@pytest.mark.parametrize(
    ("quantization", "words"),
    [
        (Quantization((), ()), "scales must be a tuple of one number or more"),
        (Quantization(0.5, 0), "scales must be a tuple"),  # type: ignore[arg-type]
        (Quantization(("1",), (0,)), "scales must be a tuple"),  # type: ignore[arg-type]
        (Quantization((0.5,), (0.5,)), "zero points must be a tuple of integers"),  # type: ignore[arg-type]
        (Quantization((0.5,), (0, 1)), "1 scale must have as many zero points or one, got 2"),
        (Quantization((0.5, 1.0), (0,), "x"), "the axis of a quantisation must be an integer"),  # type: ignore[arg-type]
        (Quantization((0.5, 1.0), (0,), 2), r"2 scales do not lie along axis 2 of shape \[2, 3\]"),
        (Quantization((0.5, 1.0), (0,), 1), r"2 scales do not lie along axis 1 of shape \[2, 3\]"),
    ],
)
def test_quantisations_that_fit_no_tensor(quantization: Quantization, words: str) -> None:
    model = Model()
    with pytest.raises(ModelError, match=words):
        model.input("x", TensorType(DType.INT8, (2, 3), quantization))
    x = model.input("x", TensorType(DType.INT8, (2, 3), Quantization((0.5, 1.0), (0,), 0)))
    with pytest.raises(ModelError, match=words):
        model.add("reshape", [x], {"shape": (2, 3)}, quantization=[quantization])


def test_scales_along_an_open_axis_are_those_of_a_run() -> None:
    type = TensorType(DType.INT8, (2, 3), Quantization((0.5, 1.0), (0,), 1))
    for axes in (None, [1], (np.int64(1),)):
        assert Model().input("x", type, open=axes).type == type


def test_operands_may_come_one_by_one() -> None:
    model = Model()
    inputs = [model.input(name, float32(2)) for name in "ab"]
    (y,) = model.add("add", (operand for operand in inputs))  # type: ignore[arg-type]
    assert model.operations[0].inputs == (*inputs,)
    assert y.type == float32(2)
