"""fold_channels: constants for each channel go into filters and biases, and nothing else changes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.scale import fold_channels
from gpunn.types import DType, Quantization, TensorType, float32
from tests import evaluator
from tests.passes.same import of_rounded_weights, ops, same

RNG = np.random.default_rng(6)
LAYERS = ("conv2d", "depthwise_conv2d", "fully_connected", "transpose_conv2d")
GROUPED = "conv2d of 2 groups"


def constant(model: Model, *shape: int) -> Operand:
    return model.constant("c", RNG.standard_normal(shape).astype(np.float32))


def image(model: Model, op: str) -> Operand:
    return model.input("x", float32(3, 4) if op == "fully_connected" else float32(2, 5, 6, 4))


def filtered(model: Model, op: str, x: Operand, bias: Operand | None = None, **attrs: Any) -> Operand:
    """Add an op with a filter and 8 output channels, padded if it can be."""
    shape, window = {
        "conv2d": ((8, 3, 2, 4), {"padding": "same"}),
        GROUPED: ((8, 3, 2, 2), {"padding": "same"}),
        "depthwise_conv2d": ((1, 3, 2, 8), {"padding": "same"}),
        "fully_connected": ((8, 4), {}),
        "transpose_conv2d": ((8, 3, 2, 4), {"padding": "same", "size": (5, 6)}),
    }[op]
    inputs = [x, constant(model, *shape), bias]
    return model.add(op.partition(" ")[0], inputs, {**window, **attrs})[0]


@pytest.mark.parametrize("op", [*LAYERS, GROUPED])
@pytest.mark.parametrize("shape", [(8,), (1, 8), (1,), ()])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("then", ["add", "sub", "mul", "div", "add turned", "sub turned", "mul turned"])
def test_arithmetic_after_a_filter_joins_the_filter(
    op: str, shape: tuple[int, ...], biased: bool, then: str
) -> None:
    model = Model()
    y = filtered(model, op, image(model, op), constant(model, 8) if biased else None)
    pair = [y, constant(model, *shape)]
    name, _, turned = then.partition(" ")
    model.output(*model.add(name, pair[::-1] if turned else pair, {"activation": "relu"}))
    result = same(model, fold_channels, tolerance=of_rounded_weights)
    assert ops(result) == [op.partition(" ")[0]]
    assert result.operations[0].attrs["activation"] == "relu"


@pytest.mark.parametrize("op", [*LAYERS, GROUPED])
@pytest.mark.parametrize("shape", [(4,), ()])
@pytest.mark.parametrize("first", ["mul", "div", "mul turned"])
def test_a_product_before_a_filter_joins_the_filter(op: str, shape: tuple[int, ...], first: str) -> None:
    model = Model()
    pair = [image(model, op), constant(model, *shape)]
    name, _, turned = first.partition(" ")
    (x,) = model.add(name, pair[::-1] if turned else pair)
    model.output(filtered(model, op, x, constant(model, 8)))
    assert ops(same(model, fold_channels, tolerance=of_rounded_weights)) == [op.partition(" ")[0]]


def test_rows_of_several_pixels_take_a_product_for_each_channel() -> None:
    model = Model()
    (x,) = model.add("mul", [model.input("x", float32(3, 2, 2)), constant(model, 2)])
    model.output(*model.add("fully_connected", [x, constant(model, 8, 4)]))
    assert ops(same(model, fold_channels, tolerance=of_rounded_weights)) == ["fully_connected"]


def normalised(model: Model, y: Operand) -> Operand:
    """Add a batch normalisation in the operations that files have for it."""
    (y,) = model.add("sub", [y, constant(model, 8)])
    (y,) = model.add("mul", [y, constant(model, 1, 1, 1, 8)])
    return model.add("add", [constant(model, 8), y])[0]


def test_batch_normalisation_joins_the_filter(backend: str) -> None:
    model = Model()
    x = image(model, "conv2d")
    y = normalised(model, filtered(model, "conv2d", x, constant(model, 8)))
    y = normalised(model, model.add("depthwise_conv2d", [y, constant(model, 1, 3, 3, 8)])[0])
    model.output(*model.add("relu6", [y]))
    assert ops(optimise(model)) == ["conv2d", "depthwise_conv2d"]
    inputs = evaluator.random_inputs(model)
    with model.compile(backend) as compiled:
        got = compiled(*inputs)
    (expected,) = evaluator.run(model, inputs)
    # 24 and 9 products and their sums in float32 after weights rounded once: fewer than 64 roundings.
    np.testing.assert_allclose(got, expected, rtol=0, atol=64 * of_rounded_weights(optimise(model), inputs))


KEPT = {
    "activation": ["conv2d", "mul"],
    "computed": ["conv2d", "mul"],
    "computed bias": ["conv2d", "add"],
    "filter": ["conv2d", "mul"],
    "pixels": ["conv2d", "mul"],
    "rank": ["conv2d", "mul"],
    "output": ["conv2d", "mul"],
    "reader": ["conv2d", "mul", "add"],
    "itself": ["conv2d", "mul"],
    "quotient": ["conv2d", "div"],
    "zero": ["conv2d", "div"],
    "overflow": ["conv2d", "mul"],
    "underflow": ["conv2d", "mul"],
    "sum before": ["add", "conv2d"],
    "activation before": ["mul", "conv2d"],
    "filter before": ["mul", "conv2d"],
}


@pytest.mark.parametrize("case", KEPT)
def test_other_arithmetic_stays(case: str) -> None:
    model = Model()
    x = image(model, "conv2d")
    if case.endswith("before"):
        op = "add" if case == "sum before" else "mul"
        source = model.input("w", float32(8, 3, 2, 4)) if case == "filter before" else x
        attrs = {"activation": "relu"} if case == "activation before" else {}
        (changed,) = model.add(op, [source, constant(model, 4)], attrs)
        pair = [x, changed] if case == "filter before" else [changed, constant(model, 8, 3, 2, 4)]
        model.output(*model.add("conv2d", pair))
    else:
        _after_a_convolution(model, x, case)
    assert ops(same(model, fold_channels)) == KEPT[case]


def _after_a_convolution(model: Model, x: Operand, case: str) -> None:
    filter = model.input("f", float32(8, 3, 2, 4)) if case == "filter" else constant(model, 8, 3, 2, 4)
    bias = model.input("b", float32(8)) if case == "computed bias" else None
    attrs = {"activation": "relu"} if case == "activation" else {}
    (y,) = model.add("conv2d", [x, filter, bias], attrs)
    factors = {"overflow": 3e38, "underflow": 1e-38, "zero": 0.0}
    c = {
        "computed": lambda: model.input("c", float32(8)),
        "pixels": lambda: constant(model, *y.type.shape[1:]),
        "rank": lambda: constant(model, 1, 1, 1, 1, 8),
        "itself": lambda: y,
    }.get(case, lambda: model.constant("c", np.full(8, factors.get(case, 2.0), np.float32)))()
    pair = [c, y] if case == "quotient" else [y, c]
    (z,) = model.add({"computed bias": "add", "quotient": "div", "zero": "div"}.get(case, "mul"), pair)
    if case == "reader":
        (z,) = model.add("add", [z, y])
    model.output(z, *([y] if case == "output" else []))


def test_weights_of_integers_stay() -> None:
    model = Model()
    kind = TensorType(DType.INT8, (8, 1, 1, 4), Quantization((0.5,), (0,)))
    weights = model.constant("w", RNG.integers(-128, 128, kind.shape).astype(np.int8), kind)
    (y,) = model.add("conv2d", [image(model, "conv2d"), weights])
    model.output(*model.add("mul", [y, constant(model, 8)]))
    assert ops(same(model, fold_channels)) == ["conv2d", "mul"]


def test_the_size_of_all_new_filters_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpunn.passes.scale.MAX_SCALED_BYTES", 2 * 4 * 64)
    model = Model()
    x, w = model.input("x", float32(1, 8)), constant(model, 8, 8)
    for _ in range(3):
        (x,) = model.add("fully_connected", [x, w])
        (x,) = model.add("add", [x, constant(model, 8)])  # leaves the filter as it is
        (x,) = model.add("mul", [x, constant(model, 8)])
    model.output(x)
    assert ops(fold_channels(model)) == ["fully_connected"] * 3 + ["mul"]


def test_weights_that_are_no_numbers_give_no_warning() -> None:
    """The infinite weight times 0 is no number, so the product stays."""
    model = Model()
    weights = np.array([[np.inf, 1], [2, 3]], np.float32)
    (y,) = model.add("fully_connected", [model.input("x", float32(1, 2)), model.constant("w", weights)])
    model.output(*model.add("mul", [y, model.constant("c", np.array([0, 2], np.float32))]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ops(optimise(model)) == ["fully_connected", "mul"]
