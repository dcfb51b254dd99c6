"""fuse: pads, biases and activations become part of their neighbour, where nobody else looks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunn.backends.cpu import run_operation
from gpunn.model import Model, Operand
from gpunn.ops import OPS
from gpunn.ops.unary import ACTIVATIONS
from gpunn.passes.fuse import fuse_activation, fuse_bias, fuse_pad
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.passes.same import ops, same

RNG = np.random.default_rng(5)
IMAGE = float32(1, 7, 6, 4)
PAIR = st.tuples(st.integers(0, 3), st.integers(0, 3))


def constant(model: Model, *shape: int) -> Operand:
    return model.constant("c", RNG.standard_normal(shape).astype(np.float32))


def layer(model: Model, op: str, x: Operand, **attrs: Any) -> Operand:
    """A convolution or fully connected layer with 8 outputs and no bias."""
    last = x.type.shape[-1]
    filters = {
        "conv2d": (8, 3, 2, last),
        "depthwise_conv2d": (1, 3, 2, 8),
        "fully_connected": (8, last),
    }[op]
    window = {} if op == "fully_connected" else {"padding": "same", "stride": (1, 1), "dilation": (1, 1)}
    return model.add(op, [x, constant(model, *filters)], {**window, **attrs})[0]


@settings(max_examples=40, deadline=None)
@given(
    op=st.sampled_from(["conv2d", "depthwise_conv2d"]),
    rows=PAIR,
    columns=PAIR,
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.one_of(st.sampled_from(["same", "valid"]), st.tuples(PAIR, PAIR)),
)
def test_pads_become_the_padding_of_a_convolution(op: str, rows: Any, columns: Any, **attrs: Any) -> None:
    model = Model()
    x = model.input("x", IMAGE)
    (padded,) = model.add("pad", [x], {"paddings": ((0, 0), rows, columns, (0, 0))})
    model.output(layer(model, op, padded, **attrs))
    assert ops(same(model, fuse_pad)) == [op]


@pytest.mark.parametrize(
    "attrs",
    [
        {"paddings": ((0, 0), (1, 1), (1, 1), (0, 0)), "value": 1.0},
        {"paddings": ((0, 0), (1, 1), (1, 1), (0, 4))},
        {"paddings": ((1, 0), (1, 1), (1, 1), (0, 0))},
    ],
)
def test_other_pads_stay(attrs: Any) -> None:
    model = Model()
    model.output(layer(model, "conv2d", model.add("pad", [model.input("x", IMAGE)], attrs)[0]))
    assert ops(same(model, fuse_pad)) == ["pad", "conv2d"]


def test_pads_of_filters_and_pads_before_pools_stay() -> None:
    paddings = {"paddings": ((0, 0), (1, 1), (1, 1), (0, 0))}
    model = Model()
    x, w = model.input("x", IMAGE), model.input("w", float32(2, 1, 1, 4))
    (filters,) = model.add("pad", [w], paddings)
    (y,) = model.add("conv2d", [x, filters], {"padding": "same", "stride": (1, 1), "dilation": (1, 1)})
    (padded,) = model.add("pad", [y], paddings)
    window = {"padding": "valid", "stride": (1, 1), "size": (2, 2)}
    model.output(*model.add("average_pool2d", [padded], window), *model.add("max_pool2d", [y], window))
    assert ops(same(model, fuse_pad)) == ops(model)


@pytest.mark.parametrize("op", ["conv2d", "depthwise_conv2d", "fully_connected"])
@pytest.mark.parametrize("shape", [(8,), (1, 8)])
@pytest.mark.parametrize("first", [True, False])
def test_a_constant_vector_becomes_the_bias(op: str, shape: tuple[int, ...], first: bool) -> None:
    model = Model()
    x = model.input("x", float32(2, 4) if op == "fully_connected" else IMAGE)
    y, c = layer(model, op, x), constant(model, *shape)
    model.output(*model.add("add", [c, y] if first else [y, c], {"activation": "relu"}, names=["answer"]))
    result = same(model, fuse_bias)
    assert ops(result) == [op]
    assert result.operations[0].attrs["activation"] == "relu"


@pytest.mark.parametrize(
    "case", ["activation", "bias", "wide", "scalar", "computed", "output", "twice", "rank"]
)
def test_other_additions_stay(case: str) -> None:
    model = Model()
    x = model.input("x", float32(1, 4))
    w = constant(model, 8, 4)
    bias = constant(model, 8) if case == "bias" else None
    activation = "relu" if case == "activation" else None
    (y,) = model.add("fully_connected", [x, w, bias], {"activation": activation})
    shape = {"wide": (2, 8), "scalar": (1,), "rank": (1, 1, 8)}.get(case, (8,))
    c = model.input("c", float32(8)) if case == "computed" else constant(model, *shape)
    (z,) = model.add("add", [y, y if case == "twice" else c])
    model.output(z, *([y] if case == "output" else []))
    assert ops(same(model, fuse_bias)) == ["fully_connected", "add"]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_becomes_an_attribute(activation: str) -> None:
    model = Model()
    x = model.input("x", IMAGE)
    model.output(*model.add(activation, [model.add("add", [x, x])[0]], names=["answer"]))
    result = same(model, fuse_activation)
    assert ops(result) == ["add"]
    assert result.operations[0].attrs["activation"] == activation


@pytest.mark.parametrize("op", sorted(name for name, op in OPS.items() if op.fusible))
def test_every_fusible_op_takes_one(op: str) -> None:
    model = Model()
    x = model.input("x", IMAGE)
    window = {"padding": "same", "stride": (1, 1)}
    if op in ("conv2d", "depthwise_conv2d", "fully_connected"):
        y = layer(model, op, x)
    elif op.endswith("pool2d"):
        (y,) = model.add(op, [x], {**window, "size": (2, 2)})
    elif op == "transpose_conv2d":
        filter = model.constant("filter", np.ones((5, 2, 3, IMAGE.shape[3]), np.float32))
        (y,) = model.add(op, [x, filter], {**window, "size": IMAGE.shape[1:3]})
    else:
        (y,) = model.add(op, [x, x], {"axis": 1} if op == "concat" else {})
    model.output(*model.add("relu", [y]))
    assert ops(same(model, fuse_activation)) == [op]


@pytest.mark.parametrize("case", ["activation", "output", "shared", "leaky"])
def test_other_activations_stay(case: str) -> None:
    model = Model()
    x = model.input("x", IMAGE)
    (y,) = model.add("add", [x, x], {"activation": "relu"} if case == "activation" else None)
    (z,) = model.add("leaky_relu", [y], {"alpha": 0.1}) if case == "leaky" else model.add("tanh", [y])
    if case == "shared":
        (z,) = model.add("sub", [z, y])
    model.output(z, *([y] if case == "output" else []))
    assert ops(same(model, fuse_activation)) == ops(model)


def test_the_fused_operation_keeps_its_origin() -> None:
    model = Model()
    x = model.input("x", IMAGE)
    (y,) = model.add("add", [x, x], origin="file: operation 0, ADD")
    model.output(*model.add("relu", [y], origin="file: operation 1, RELU"))
    assert fuse_activation(model).operations[0].origin == "file: operation 0, ADD"


STORED = Quantization((0.5,), (10,))


def quantised_model(op: str, attrs: dict[str, Any], then: str, scale: float) -> Model:
    """A quantised op and after it another, whose result has a scale of its own."""
    model = Model()
    kind = TensorType(DType.UINT8, (1, 4, 4, 4), STORED)
    (y,) = model.add(op, [model.input("x", kind)], attrs)
    model.output(*model.add(then, [y], quantization=[Quantization((scale,), (10,))]))
    return model


@pytest.mark.parametrize(
    ("then", "scale", "left"),
    [("relu6", 0.5, 1), ("relu6", 0.25, 2), ("logistic", 0.5, 2), ("tanh", 0.5, 2)],
)
def test_quantised_ops_take_only_clamps_that_do_not_rescale(then: str, scale: float, left: int) -> None:
    model = quantised_model("average_pool2d", {"size": (2, 2)}, then, scale)
    fused = fuse_activation(model)
    assert len(fused.operations) == left
    x = RNG.integers(0, 256, (1, 4, 4, 4)).astype(np.uint8)
    assert np.array_equal(run(model, x), run(fused, x))


@pytest.mark.parametrize(("value", "left"), [(10.0, 1), (0.0, 2)])
def test_quantised_padding_is_zero_where_it_is_the_zero_point(value: float, left: int) -> None:
    model = Model()
    x = model.input("x", TensorType(DType.UINT8, (1, 4, 4, 4), STORED))
    filter = TensorType(DType.UINT8, (8, 3, 3, 4), Quantization((0.25,), (7,)))
    weights = model.constant("w", RNG.integers(0, 256, filter.shape).astype(np.uint8), filter)
    (y,) = model.add("pad", [x], {"paddings": ((0, 0), (1, 0), (0, 2), (0, 0)), "value": value})
    model.output(*model.add("conv2d", [y, weights], quantization=[Quantization((60.0,), (128,))]))
    fused = fuse_pad(model)
    assert len(fused.operations) == left
    stored = RNG.integers(0, 256, (1, 4, 4, 4)).astype(np.uint8)
    assert np.array_equal(run(model, stored), run(fused, stored))


def run(model: Model, x: Array) -> Array:
    """The stored result of a model of one input and output, by the ops' integer references."""
    values: dict[Operand, Array] = {model.inputs[0]: x}
    for operation in model.operations:
        run_operation(operation, values)
    return values[model.outputs[0]]
