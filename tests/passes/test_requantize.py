"""requantize: operations on reals become operations on integers if all 256 results are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.requantize import fuse_quantize, sink_dequantize
from gpunn.types import DType, Quantization, TensorType, float32
from tests import evaluator
from tests.passes.same import ops, same

EVERY = np.arange(512, dtype=np.uint16).astype(np.uint8).reshape(2, 16, 16)
FINE, COARSE = Quantization((0.05,), (100,)), Quantization((0.31,), (7,))
UNIT = Quantization((1 / 256,), (0,))


def dequantized(model: Model, scale: Quantization = FINE) -> Operand:
    return model.add("dequantize", [model.input("x", TensorType(DType.UINT8, EVERY.shape, scale))])[0]


def quantized(model: Model, y: Operand, scale: Quantization, dtype: str = "uint8") -> Operand:
    attrs = {"dtype": dtype, "scale": scale.scale[0], "zero_point": scale.zero_point[0]}
    return model.add("quantize", [y], attrs)[0]


def there_and_back(to: Quantization, *steps: tuple[str, dict[str, Any]], dtype: str = "uint8") -> Model:
    model = Model()
    y = dequantized(model)
    for op, attrs in steps:
        (y,) = model.add(op, [y], attrs)
    model.output(quantized(model, y, to, dtype))
    return model


def test_quantize_after_dequantize_disappears() -> None:
    model = there_and_back(FINE, ("reshape", {"shape": (32, 16)}), ("transpose", {"perm": (1, 0)}))
    assert ops(same(model, optimise, [EVERY])) == ["reshape", "transpose"]


def test_quantize_after_dequantize_leaves_an_identity() -> None:
    result = same(there_and_back(FINE), fuse_quantize, [EVERY])
    assert ops(result) == ["reshape"]
    np.testing.assert_array_equal(evaluator.run(result, [EVERY])[0], EVERY)


@pytest.mark.parametrize(
    ("to", "function", "expected"),
    [
        (UNIT, ("logistic", {}), ["logistic"]),
        (FINE, ("relu", {}), ["relu"]),
        (Quantization((0.1,), (3,)), ("square", {}), ["square"]),
        (FINE, ("leaky_relu", {"alpha": 0.5}), ["dequantize", "leaky_relu", "quantize"]),
        (COARSE, ("hard_swish", {}), ["hard_swish"]),
    ],
)
def test_a_function_takes_integers_if_every_result_is_the_same(
    to: Quantization, function: tuple[str, dict[str, Any]], expected: list[str], backend: str
) -> None:
    model = there_and_back(to, function)
    assert ops(same(model, fuse_quantize, [EVERY])) == expected
    if len(expected) > 1:
        return  # reals on a GPU may fall on the other side of a half
    with model.compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(EVERY), evaluator.run(model, [EVERY])[0])


HALF = float(np.nextafter(np.float32(2), np.float32(3)))  # steps of this make nearly halves of odd numbers


@pytest.mark.parametrize(
    ("stored", "to", "dtype", "left"),
    [
        (FINE, Quantization((0.05,), (-28,)), "int8", 1),
        (FINE, Quantization((0.1,), (50,)), "uint8", 2),  # fixed point rounds halves otherwise
        # So does what is left over of sixteen elements, and only that: the numbers are 0 and below.
        (Quantization((1.0,), (255,)), Quantization((HALF,), (128,)), "uint8", 2),
    ],
)
def test_another_scale_is_a_requantisation_if_every_result_is_the_same(
    stored: Quantization, to: Quantization, dtype: str, left: int
) -> None:
    model = Model()
    model.output(quantized(model, dequantized(model, stored), to, dtype))
    assert len(same(model, fuse_quantize, [EVERY]).operations) == left


@pytest.mark.parametrize("case", ["output", "reader", "two functions", "per channel", "int16", "sum"])
def test_other_ways_stay(case: str) -> None:
    model = Model()
    y = source = dequantized(model, Quantization((0.05,) * 2, (0, 0)) if case == "per channel" else FINE)
    if case == "two functions":
        (y,) = model.add("exp", [model.add("tanh", [y])[0]])
    if case == "sum":
        (y,) = model.add("add", [y, y])
    model.output(quantized(model, y, FINE, "int16" if case == "int16" else "uint8"))
    if case in ("output", "reader"):
        model.output(source if case == "output" else model.add("tanh", [source])[0])
    assert ops(same(model, fuse_quantize, [EVERY])) == ops(model)


def test_dequantize_after_quantize_stays_because_it_rounds() -> None:
    model = Model()
    y = quantized(model, model.input("x", float32(3, 5)), COARSE)
    model.output(*model.add("dequantize", [quantized(model, y, FINE)]))
    assert ops(same(model, optimise)) == ["quantize", "quantize", "dequantize"]


def test_moves_of_reals_become_moves_of_bytes(backend: str) -> None:
    model = Model()
    (y,) = model.add("transpose", [dequantized(model)], {"perm": (2, 0, 1)})
    (y,) = model.add("reshape", [y], {"shape": (32, 16)})
    model.output(y)
    assert ops(same(model, sink_dequantize, [EVERY])) == ["transpose", "reshape", "dequantize"]
    with model.compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(EVERY), evaluator.run(model, [EVERY])[0])


@pytest.mark.parametrize("case", ["output", "reader", "sum", "per channel"])
def test_other_moves_stay(case: str) -> None:
    model = Model()
    y = dequantized(model, Quantization((0.05,) * 2, (0, 0)) if case == "per channel" else FINE)
    op, attrs = ("add", {}) if case == "sum" else ("transpose", {"perm": (2, 0, 1)})
    model.output(*model.add(op, [y, y] if case == "sum" else [y], attrs))
    if case in ("output", "reader"):
        model.output(y if case == "output" else model.add("tanh", [y])[0])
    assert ops(same(model, sink_dequantize, [EVERY])) == ops(model)
