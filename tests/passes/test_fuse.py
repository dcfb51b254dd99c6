"""fuse: pads and activations become part of their neighbour if nothing else reads the tensor between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.ops.elementwise.unary import ACTIVATIONS
from gpunn.passes.fuse import fuse_activation, fuse_pad
from gpunn.types import DType, Quantization, TensorType, float32
from tests import evaluator
from tests.ops.harness import assert_close
from tests.passes.same import ops, same

RNG = np.random.default_rng(5)
IMAGE = float32(1, 7, 6, 4)
STORED = Quantization((0.5,), (10,))
PAIR = st.tuples(st.integers(0, 3), st.integers(0, 3))


def constant(model: Model, *shape: int) -> Operand:
    return model.constant("c", RNG.standard_normal(shape).astype(np.float32))


def filtered(model: Model, op: str, x: Operand, **attrs: Any) -> Operand:
    """Add an op with a filter, 8 outputs and no bias."""
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
    model.output(filtered(model, op, padded, **attrs))
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
    model.output(filtered(model, "conv2d", model.add("pad", [model.input("x", IMAGE)], attrs)[0]))
    assert ops(same(model, fuse_pad)) == ["pad", "conv2d"]


def test_pads_of_filters_and_pads_before_averages_stay() -> None:
    paddings = {"paddings": ((0, 0), (1, 1), (1, 1), (0, 0))}
    model = Model()
    x, w = model.input("x", IMAGE), model.input("w", float32(2, 1, 1, 4))
    (filters,) = model.add("pad", [w], paddings)
    (y,) = model.add("conv2d", [x, filters], {"padding": "same", "stride": (1, 1), "dilation": (1, 1)})
    window = {"padding": "valid", "stride": (1, 1), "size": (2, 2)}
    for op in ("average_pool2d", "l2_pool2d"):
        model.output(*model.add(op, [model.add("pad", [y], paddings)[0]], window))
    assert ops(same(model, fuse_pad)) == ops(model)


@pytest.mark.parametrize("case", ["output", "reader"])
def test_pads_with_other_readers_stay(case: str) -> None:
    model = Model()
    (y,) = model.add("pad", [model.input("x", IMAGE)], {"paddings": ((0, 0), (1, 1), (1, 1), (0, 0))})
    model.output(filtered(model, "conv2d", y), y if case == "output" else model.add("tanh", [y])[0])
    assert "pad" in ops(same(model, fuse_pad))


def test_a_pad_becomes_the_padding_of_all_its_readers() -> None:
    """As in CvT, whose convolutions of keys and values read one padded image, that of queries the image."""
    model = Model()
    x = model.input("x", IMAGE)
    (inner,) = model.add("pad", [x], {"paddings": ((0, 0), (1, 0), (0, 2), (0, 0))})
    (outer,) = model.add("pad", [inner], {"paddings": ((0, 0), (0, 1), (1, 0), (0, 0))})
    model.output(*(filtered(model, "conv2d", o) for o in (inner, outer, outer, x)))
    assert ops(same(model, fuse_pad)) == ["conv2d"] * 4


def test_pads_beyond_what_a_window_may_have_stay() -> None:
    model = Model()
    (y,) = model.add("pad", [model.input("x", IMAGE)], {"paddings": ((0, 0), (999, 0), (999, 0), (0, 0))})
    model.output(filtered(model, "conv2d", y))
    assert ops(same(model, fuse_pad)) == ["pad", "conv2d"]


def pooled(kind: TensorType, value: float, before: str | None, amount: int = 1) -> Model:
    """A model of an op, a pad with a value on every side, and a max pool of 3 x 2."""
    model = Model()
    x = model.input("x", kind)
    if before in ("relu", "tanh"):
        (x,) = model.add(before, [x])
    elif before is not None:
        (x,) = model.add("max_pool2d", [x], {"size": (1, 1), "activation": before.removeprefix("fused ")})
    around = ((0, 0), (amount, 0), (0, 1), (0, 0))
    (y,) = model.add("pad", [x], {"paddings": around, "value": value})
    model.output(*model.add("max_pool2d", [y], {"size": (3, 2), "stride": (2, 1)}))
    return model


@pytest.mark.parametrize(
    ("value", "before", "fused"),
    [
        (-np.inf, None, True),
        (-3e38, None, False),
        (0.0, None, False),
        (0.0, "relu", True),
        (0.0, "fused relu6", True),
        (-1.0, "fused relu1", True),
        (0.0, "fused relu1", False),
        (0.1, "relu", False),
        (-2.0, "tanh", False),
    ],
)
def test_pads_that_are_never_a_maximum_become_the_padding_of_a_max_pool(
    value: float, before: str | None, fused: bool, backend: str
) -> None:
    model = pooled(IMAGE, value, before)
    assert ("pad" not in ops(same(model, fuse_pad))) == fused
    x = RNG.standard_normal(IMAGE.shape).astype(np.float32)
    with model.compile(backend) as compiled:
        assert_close(np.asarray(compiled(x)), evaluator.run(model, [x])[0])


def test_a_max_pool_takes_no_padding_as_wide_as_its_window() -> None:
    assert "pad" in ops(same(pooled(IMAGE, -np.inf, None, amount=3), fuse_pad))


@pytest.mark.parametrize(
    ("value", "before", "fused"),
    [(0, None, True), (10, None, False), (10, "relu", True), (10, "fused relu6", True), (11, "relu", False)],
)
def test_quantised_pads_before_a_max_pool(value: int, before: str | None, fused: bool) -> None:
    model = pooled(TensorType(DType.UINT8, IMAGE.shape, STORED), value, before)
    x = RNG.integers(0, 256, IMAGE.shape).astype(np.uint8)
    assert ("pad" not in ops(same(model, fuse_pad, [x]))) == fused


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
        y = filtered(model, op, x)
    elif op.endswith("pool2d"):
        (y,) = model.add(op, [x], {**window, "size": (2, 2)})
    elif op == "transpose_conv2d":
        filter = model.constant("filter", np.ones((5, 2, 3, IMAGE.shape[3]), np.float32))
        (y,) = model.add(op, [x, filter], {**window, "size": IMAGE.shape[1:3]})
    elif op == "conv3d":
        filter = model.constant("filter", np.ones((1, 2, 2, 3, 5), np.float32))
        (y,) = model.add(op, [model.input("volume", float32(1, 2, 3, 4, 3)), filter])
    elif op == "transpose_conv3d":
        filter = model.constant("filter", np.ones((1, 2, 2, 5, 3), np.float32))
        (y,) = model.add(op, [model.input("volume", float32(1, 2, 3, 4, 3)), filter], {"size": (2, 4, 5)})
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


def quantised_model(op: str, attrs: dict[str, Any], then: str, scale: float) -> Model:
    """A model of a quantised op, and an op after it whose result has another scale."""
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
    x = RNG.integers(0, 256, (1, 4, 4, 4)).astype(np.uint8)
    assert len(same(model, fuse_activation, [x]).operations) == left


@pytest.mark.parametrize(("value", "scale", "left"), [(10.0, 0.5, 1), (0.0, 0.5, 2), (10.0, 0.25, 2)])
def test_quantised_padding_is_zero_where_it_is_the_zero_point(value: float, scale: float, left: int) -> None:
    model = Model()
    x = model.input("x", TensorType(DType.UINT8, (1, 4, 4, 4), STORED))
    filter = TensorType(DType.UINT8, (8, 3, 3, 4), Quantization((0.25,), (7,)))
    weights = model.constant("w", RNG.integers(0, 256, filter.shape).astype(np.uint8), filter)
    around = {"paddings": ((0, 0), (1, 0), (0, 2), (0, 0)), "value": value}
    (y,) = model.add("pad", [x], around, quantization=[Quantization((scale,), (10,))])
    model.output(*model.add("conv2d", [y, weights], quantization=[Quantization((60.0,), (128,))]))
    stored = RNG.integers(0, 256, (1, 4, 4, 4)).astype(np.uint8)
    assert len(same(model, fuse_pad, [stored]).operations) == left
