"""arrange: transposes vanish, because operations take over the order of axes of their neighbours."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE
from gpunn.graph.operation import Operation
from gpunn.model import Model
from gpunn.passes import PIPELINE, optimise
from gpunn.passes.layout import arrange
from gpunn.types import DType, Quantization, TensorType, float32
from tests import evaluator
from tests.passes.channels_first import FIRST, LAST, add, constant, conv, detector, gated, residual
from tests.passes.same import ops, same

LAYERS, TERMS = 10, 150  # of the networks in channels_first.py; of the longest sum in them
ROUNDINGS = LAYERS * TERMS * 2.0**-24


def transposes(model: Model) -> list[Operation]:
    return [o for o in model.operations if o.op == "transpose"]


def moved(model: Model) -> int:
    """The bytes that transposes move, apart from those that only move axes of extent 1."""
    total = 0
    for operation in transposes(model):
        x = operation.inputs[0]
        assert x is not None
        long = [a for a in operation.attrs["perm"] if x.type.shape[a] != 1]
        total += x.type.nbytes * (long != sorted(long))
    return total


def simplified(model: Model) -> Model:
    """The model after all passes, whose results are as before."""
    return same(model, optimise)


def test_a_network_of_channels_first_images_keeps_a_transpose_at_its_input_only() -> None:
    model = Model()
    x = model.input("x", float32(1, 3, 8, 8))
    y = add(model, "relu", conv(model, x, 8, 2))
    a = add(model, "relu6", conv(model, y, 8))
    y = add(model, "add", a, y)
    y = add(model, "mul", y, constant(model, 8, 1, 1))
    b = add(model, "concat", conv(model, y, 4, size=1), y, axis=1)
    y = add(model, "pad", b, paddings=((0, 0), (0, 0), (1, 1), (2, 0)))
    y = add(model, "mean", conv(model, y, 6), axes=(2, 3), keep_dims=False)
    model.output(add(model, "softmax", y, axis=1))
    assert len(transposes(model)) == 8
    result = simplified(model)
    assert len(transposes(result)) == 1
    assert moved(result) == model.inputs[0].type.nbytes
    assert ops(result)[0] == "transpose"


def dispatches(model: Model) -> int:
    """The number of dispatches of a model as it is."""
    lowered = [lower(o, BASELINE) for o in model.operations if not o.definition.alias]
    assert all(isinstance(kernels, tuple) for kernels in lowered)
    return sum(map(len, lowered))


# Transposes in the file, and after the passes; dispatches without this pass, and with it.
COUNTS: dict[Callable[[], Model], tuple[int, int, int, int]] = {
    residual: (14, 1, 38, 13),
    gated: (20, 3, 48, 25),
    detector: (12, 1, 20, 12),
}


@pytest.mark.parametrize("network", COUNTS, ids=lambda network: network.__name__)
def test_networks_from_pytorch_lose_their_transposes(network: Callable[[], Model]) -> None:
    """The input's remains, and that between the groups of channels (twice)."""
    model = network()
    without = model
    for step in PIPELINE:
        without = without if step.__name__ == arrange.__name__ else step(without)
    result = simplified(model)
    found = len(transposes(model)), len(transposes(result)), dispatches(without), dispatches(result)
    assert found == COUNTS[network]


@pytest.mark.parametrize("network", COUNTS, ids=lambda network: network.__name__)
def test_networks_from_pytorch_give_the_same_results(network: Callable[[], Model], backend: str) -> None:
    model = network()
    (x,) = evaluator.random_inputs(model)
    (expected,) = evaluator.run(model, [x])
    with model.compile(backend) as compiled:
        assert all(p.backend in (backend, "alias") for p in compiled.placement)
        np.testing.assert_allclose(compiled(x), expected, rtol=0, atol=ROUNDINGS * np.abs(expected).max())


def test_a_mean_beside_what_subtracts_it() -> None:
    """As in PyTorch's normalisations: the mean pays off once all others read the image as it is."""
    model = Model()
    y = conv(model, model.input("x", float32(1, 3, 8, 8)), 8)
    mean = add(model, "mean", y, axes=(0, 2, 3), keep_dims=True)
    away = add(model, "sub", y, mean)
    variance = add(model, "mean", add(model, "square", away), axes=(2, 3), keep_dims=True)
    y = add(model, "mul", away, add(model, "rsqrt", variance))
    model.output(conv(model, y, 4))
    result = simplified(model)
    assert len(transposes(result)) == 2  # of the input and the output


def test_operations_apart_by_transposes_become_one() -> None:
    model = Model()
    x = model.input("x", float32(1, 8, 8, 3))
    y = add(model, "transpose", x, perm=FIRST)
    y = add(model, "relu", conv(model, y, 8))
    y = add(model, "relu6", add(model, "mul", conv(model, y, 8), constant(model, 8, 1, 1)))
    model.output(add(model, "transpose", y, perm=LAST))
    assert ops(simplified(model)) == ["conv2d", "conv2d"]


def test_tensors_of_five_axes_become_those_of_four() -> None:
    """Networks of the axes [sequence, batch, channel, height, width]."""
    model = Model()
    x = model.input("x", float32(1, 8, 8, 3))
    y = add(model, "transpose", x, perm=FIRST)
    for outputs in (4, 6):
        y = conv(model, y, outputs)
        y = add(model, "relu", add(model, "reshape", y, shape=(1, *y.type.shape)))
        y = add(model, "add", y, constant(model, 1, outputs, 1, 1))
        y = add(model, "reshape", y, shape=y.type.shape[1:])
    model.output(add(model, "reshape", add(model, "mean", y, axes=(2, 3)), shape=(6,)))
    result = simplified(model)
    assert ops(result) == ["conv2d", "add", "conv2d", "add", "mean", "reshape"]
    assert [o.outputs[0].type.rank for o in result.operations] == [4, 4, 4, 4, 2, 1]


def test_channels_in_groups_are_split_where_they_lie() -> None:
    """A channel shuffle: reshapes that split and merge axes move with the order of the axes."""
    model = Model()
    x = model.input("x", float32(1, 8, 8, 6))
    y = conv(model, add(model, "transpose", x, perm=FIRST), 6)
    y = add(model, "reshape", y, shape=(1, 2, 3, 8, 8))
    y = add(model, "transpose", y, perm=(0, 2, 1, 3, 4))
    y = conv(model, add(model, "reshape", y, shape=(1, 6, 8, 8)), 4)
    model.output(add(model, "transpose", y, perm=LAST))
    result = simplified(model)
    assert ops(result).count("transpose") == 1  # the shuffle itself
    assert moved(result) == 6 * 64 * 4


def test_gates_of_channels_work_in_the_order_of_the_image() -> None:
    """Squeeze and excitation: the image is multiplied with a number for each channel."""
    model = Model()
    x = model.input("x", float32(1, 8, 8, 3))
    y = add(model, "relu", conv(model, add(model, "transpose", x, perm=FIRST), 8))
    s = add(model, "mean", y, axes=(2, 3), keep_dims=True)
    s = add(model, "relu", conv(model, s, 2, size=1))
    s = add(model, "logistic", conv(model, s, 8, size=1))
    y = conv(model, add(model, "mul", y, s), 4)
    model.output(add(model, "transpose", y, perm=LAST))
    assert ops(simplified(model)) == ["conv2d", "mean", "conv2d", "conv2d", "mul", "conv2d"]


def test_parts_and_slices_follow_their_axes() -> None:
    model = Model()
    x = model.input("x", float32(1, 8, 8, 6))
    y = conv(model, add(model, "transpose", x, perm=FIRST), 6)
    a, b = model.add("split", [y], {"sizes": (2, 4), "axis": 1})
    b = add(model, "strided_slice", b, begin=(0, 1, 0, 2), end=(1, 3, 8, 8), strides=(1, 1, 2, 1))
    a = add(model, "mirror_pad", a, paddings=((0, 0), (0, 0), (1, 0), (0, 2)), mode="reflect")
    for part in (a, b):
        y = conv(model, add(model, "cumsum", part, axis=2), 3)
        model.output(add(model, "transpose", y, perm=LAST))
    result = simplified(model)
    assert not transposes(result)
    assert ops(result)[:4] == ["conv2d", "split", "strided_slice", "mirror_pad"]
    assert ops(result)[4:] == ["cumsum", "conv2d"] * 2


def test_a_slice_of_one_index_follows_what_reads_it() -> None:
    """The axis of which it has one element is where the result has an axis of extent 1."""
    model = Model()
    x = add(model, "neg", model.input("x", float32(4, 2, 2, 5)))
    whole = {"strides": (1,) * 4, "shrink_axes": ()}
    moved = add(model, "transpose", x, perm=(1, 2, 0, 3))
    first = add(model, "strided_slice", moved, begin=(0,) * 4, end=(1, 2, 4, 5), **whole)
    second = add(model, "strided_slice", x, begin=(0, 1, 0, 0), end=(4, 2, 2, 5), **whole)
    second = add(model, "transpose", add(model, "relu", second), perm=(1, 2, 0, 3))
    model.output(add(model, "sin", first), add(model, "cos", second))
    assert len(transposes(same(model, arrange))) == 1


def test_a_transpose_that_moves_axes_of_extent_1_is_a_reshape() -> None:
    model = Model()
    x = model.input("x", float32(1, 1, 1, 7))
    y = add(model, "transpose", x, perm=FIRST)
    model.output(add(model, "top_k", y, k=1))
    assert ops(same(model, arrange)) == ["reshape", "top_k"]


def test_bytes_move_where_there_are_fewest() -> None:
    """A transpose of reals becomes one of the bytes from which they come."""
    model = Model()
    x = model.input("x", TensorType(DType.UINT8, (1, 8, 8, 3), Quantization((0.5,), (3,))))
    reals = add(model, "relu", add(model, "dequantize", x))
    model.output(add(model, "top_k", add(model, "transpose", reals, perm=FIRST), k=1))
    result = same(model, arrange, [np.arange(192, dtype=np.uint8).reshape(1, 8, 8, 3)])
    assert moved(result) == moved(model) // 4
    assert ops(result) == ["transpose", "dequantize", "relu", "top_k"]


def test_what_many_read_in_the_order_of_the_file_stays() -> None:
    """One reader of nine would gain by another order: it alone is converted."""
    model = Model()
    inputs = [model.input("x", float32(1, 4, 6, 6)) for _ in range(9)]
    y = conv(model, add(model, "relu", inputs[0]), 4)
    model.output(add(model, "tanh", add(model, "concat", y, *inputs[1:], axis=1)))
    result = same(model, arrange)
    assert moved(result) == moved(model)
    assert len(transposes(result)) == 2


def test_a_transpose_that_two_read_is_done_once() -> None:
    model = Model()
    x = model.input("x", float32(2, 3, 5))
    for _ in range(2):
        model.output(add(model, "top_k", add(model, "transpose", x, perm=(2, 0, 1)), k=1))
    assert ops(same(model, arrange)) == ["transpose", "top_k", "top_k"]


def test_scales_along_an_axis_leave_everything_as_it_is() -> None:
    model = Model()
    type = TensorType(DType.INT8, (2, 3, 4), Quantization((0.5, 0.25, 1.0), (0, 0, 0), 1))
    x = model.input("x", type)
    y = add(model, "strided_slice", x, begin=(0,) * 3, end=(1, 3, 4), strides=(1, 1, 1))
    model.output(add(model, "transpose", y, perm=(0, 2, 1)), add(model, "transpose", x, perm=(0, 2, 1)))
    assert arrange(model).operations == model.operations


def test_another_scale_behind_a_move_stays() -> None:
    """Such a move gives the stored integers another meaning."""
    model = Model()
    x = model.input("x", TensorType(DType.INT8, (2, 3), Quantization((0.5,), (0,))))
    (y,) = model.add("transpose", [x], {"perm": (1, 0)}, quantization=[Quantization((0.25,), (1,))])
    model.output(add(model, "dequantize", add(model, "transpose", y, perm=(1, 0))))
    values = [np.arange(-3, 3, dtype=np.int8).reshape(2, 3)]
    assert ops(same(model, arrange, values)) == ["transpose", "transpose", "dequantize"]


def test_variables_and_outputs_keep_their_axes() -> None:
    model = Model()
    x = model.input("x", float32(1, 4, 4, 2))
    state = model.variable("s", float32(1, 2, 4, 4))
    y = add(model, "add", add(model, "transpose", x, perm=FIRST), state)
    model.update(state, y)
    z = add(model, "transpose", add(model, "tanh", y), perm=LAST)
    model.output(z, add(model, "transpose", z, perm=FIRST))
    result = same(model, optimise)
    assert moved(result) <= moved(model)


def test_bodies_are_arranged_too() -> None:
    model = Model()
    x = model.input("x", float32(1, 6, 6, 2))
    then, otherwise = Model(), Model()
    inside = then.input("x", x.type)
    y = add(then, "relu", add(then, "transpose", inside, perm=FIRST))
    then.output(add(then, "transpose", y, perm=LAST))
    otherwise.output(add(otherwise, "tanh", otherwise.input("x", x.type)))
    truth = model.input("t", TensorType(DType.BOOL, (1,)))
    model.output(add(model, "if_else", truth, x, then=then, otherwise=otherwise))
    (operation,) = optimise(model).operations
    assert ops(operation.attrs["then"]) == ["relu"]


def test_constants_are_moved_when_the_model_is_compiled() -> None:
    model = Model()
    x = model.input("x", float32(1, 5, 6, 3))
    y = add(model, "mul", add(model, "transpose", x, perm=FIRST), constant(model, 3, 5, 6))
    y = add(model, "add", constant(model, 3, 1, 1), y)
    model.output(add(model, "transpose", y, perm=LAST))
    result = same(model, arrange)
    assert [o for o in ops(result) if o != "reshape"] == ["mul", "add"]


# ---- time


@pytest.mark.parametrize("kind", ["chain", "star", "blocks"])
def test_ten_thousand_operations_take_about_half_a_second(kind: str) -> None:
    model = Model()
    x = model.input("x", float32(1, 4, 4, 2))
    y = add(model, "transpose", x, perm=FIRST)
    first = y
    for k in range(10_000 // (3 if kind == "blocks" else 1)):
        if kind == "chain":
            y = add(model, "tanh", y)
        elif kind == "star":
            y = add(model, "add", y, first)
        else:
            y = add(model, "transpose", add(model, "relu", y), perm=LAST if k % 2 == 0 else FIRST)
            y = add(model, "top_k", y, k=y.type.shape[-1]) if k % 64 == 0 else y
    model.output(add(model, "transpose", y, perm=LAST))
    start = time.process_time()
    result = arrange(model)
    assert time.process_time() - start < 2.5  # a machine may be slow, or busy
    assert moved(result) <= moved(model)
