"""fuse_dilation: blocks in the batch around a convolution become its dilation, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.dilate import fuse_dilation
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests import evaluator
from tests.passes.same import ops, same

RNG = np.random.default_rng(8)
STORED = Quantization((0.5,), (7,))
RESULT = Quantization((20.0,), (100,))
SIZE = (7, 6)


def model_of(
    op: str = "conv2d",
    block: tuple[int, ...] = (2, 2),
    paddings: Any = ((2, 3), (2, 2)),
    crops: Any = ((0, 1), (0, 0)),
    back: tuple[int, ...] | None = None,
    value: float | None = None,
    quantised: bool = False,
    scales: tuple[Quantization, Quantization] = (STORED, RESULT),
    **attrs: Any,
) -> tuple[Model, list[Operand]]:
    """A model of blocks, a convolution with a 3 x 2 window, and back, and its expected results."""
    model = Model()
    kind = TensorType(DType.UINT8, (2, *SIZE, 4), STORED) if quantised else float32(2, *SIZE, 4)
    fill = (7 if quantised else 0) if value is None else value
    blocks = {"block_shape": block, "paddings": paddings, "value": fill}
    first, last = ([s] if quantised else [] for s in scales)
    (x,) = model.add("space_to_batch_nd", [model.input("x", kind)], blocks, quantization=first)
    shape = (8, 3, 2, 4) if op == "conv2d" else (1, 3, 2, 8)
    weights = RNG.standard_normal(shape).astype(np.float32)
    filter = model.constant("w", weights)
    if quantised:
        stored = TensorType(DType.UINT8, shape, Quantization((0.25,), (120,)))
        filter = model.constant("w", RNG.integers(0, 256, shape).astype(np.uint8), stored)
    (y,) = model.add(op, [x, filter], attrs, quantization=[RESULT] if quantised else ())
    (z,) = model.add(
        "batch_to_space_nd", [y], {"block_shape": back or block, "crops": crops}, quantization=last
    )
    model.output(z)
    return model, [x, y, z]


def inputs_of(model: Model) -> list[Array]:
    """Random stored integers, or normal reals."""
    if model.inputs[0].type.quantization is None:
        return evaluator.random_inputs(model)
    return [RNG.integers(0, 256, model.inputs[0].type.shape).astype(np.uint8)]


SMALL = st.integers(0, 3)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_blocks_become_dilation(data: st.DataObject) -> None:
    block = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple))
    paddings, crops = [], []
    for size, b, reach in zip(SIZE, block, (3, 2), strict=False):
        before = data.draw(st.integers(0, 5))
        least = size + before + (reach - 1) * 2 * b
        after = data.draw(st.integers(0, 3)) * b + -least % b + (reach - 1) * 2 * b
        paddings.append((before, after))
        crops.append((data.draw(st.integers(0, before)), data.draw(st.integers(0, 1))))
    model, _ = model_of(
        op=data.draw(st.sampled_from(["conv2d", "depthwise_conv2d"])),
        block=block,
        paddings=tuple(paddings),
        crops=tuple(crops),
        quantised=data.draw(st.booleans()),
        dilation=data.draw(st.sampled_from([(1, 1), (2, 1)])),
        padding=data.draw(st.sampled_from(["same", "valid", ((1, 0), (2, 2))])),
    )
    result = same(model, fuse_dilation, inputs_of(model))
    assert len(result.operations) == 1


@pytest.mark.parametrize("op", ["conv2d", "depthwise_conv2d"])
@pytest.mark.parametrize("quantised", [False, True])
def test_a_dilated_convolution_gives_the_same_on_every_backend(
    op: str, quantised: bool, backend: str
) -> None:
    model, _ = model_of(op, quantised=quantised)
    inputs = inputs_of(model)
    (expected,) = evaluator.run(model, inputs)
    with model.compile(backend) as compiled:
        (placement,) = compiled.placement
        assert placement.operation.attrs["dilation"] == (2, 2)
        got = compiled(*inputs)
    if quantised:
        np.testing.assert_array_equal(got, expected)
    # 24 products of magnitudes below 4 * 4 are summed in float32.
    np.testing.assert_allclose(got, expected, rtol=0, atol=24 * 24 * 16 * 2**-24)


def test_biases_and_activations_join_from_inside_and_from_after() -> None:
    model, (_, _, z) = model_of()
    bias = model.constant("b", np.arange(8, dtype=np.float32))
    (biased,) = model.add("add", [z, bias])
    model.outputs = [model.add("relu", [biased])[0]]
    result = same(model, optimise)
    assert ops(result) == ["conv2d"]
    assert result.operations[0].attrs["activation"] == "relu"


KEPT: dict[str, dict[str, Any]] = {
    "other blocks": {"back": (4, 1)},
    "crop beyond the padding": {"paddings": ((0, 1), (0, 2)), "crops": ((1, 0), (0, 0))},
    "padding that is not 0": {"value": 1.0},
    "padding that is not the zero point": {"value": 0.0, "quantised": True},
    "other scale before": {"quantised": True, "scales": (RESULT, RESULT)},
    "other scale after": {"quantised": True, "scales": (STORED, STORED)},
    "stride": {"stride": (2, 1), "paddings": ((4, 5), (2, 2))},
}


@pytest.mark.parametrize("case", KEPT)
def test_other_blocks_stay(case: str) -> None:
    model, _ = model_of(**KEPT[case])
    assert len(same(model, fuse_dilation, inputs_of(model)).operations) == 3


@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("case", ["output", "reader"])
def test_blocks_with_other_readers_stay(operand: int, case: str) -> None:
    model, results = model_of()
    seen = results[operand]
    model.output(seen if case == "output" else model.add("tanh", [seen])[0])
    assert len(same(model, fuse_dilation).operations) == len(model.operations)


def test_the_value_of_empty_padding_does_not_matter() -> None:
    model, _ = model_of(block=(1, 3), paddings=((0, 0), (0, 0)), crops=((0, 0), (0, 0)), value=1.0)
    assert len(same(model, fuse_dilation).operations) == 1


def test_only_convolutions_become_dilated() -> None:
    model = Model()
    blocks = {"block_shape": (2, 2), "paddings": ((0, 1), (0, 0))}
    (x,) = model.add("space_to_batch_nd", [model.input("x", float32(1, *SIZE, 4))], blocks)
    (x,) = model.add("max_pool2d", [x], {"size": (2, 2)})
    back = {"block_shape": (2, 2), "crops": ((0, 0), (0, 0))}
    model.output(*model.add("batch_to_space_nd", [x], back))
    assert len(same(model, fuse_dilation).operations) == 3
