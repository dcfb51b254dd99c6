"""Loops for numba have the bits of the references, plain and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn import Model
from gpunn.ops import OPS, compiled
from gpunn.ops.fixed_point.tables import read_table
from gpunn.types import Array, DType
from tests.ops.compiled.plain import INTEGERS, OF_CHANNELS, Case, real_layer
from tests.ops.harness import random
from tests.ops.quantized import quantized, stored

CASES: list[Case] = [
    ("conv2d", (1, 3, 4, 3), (5, 1, 1, 3), {"activation": "relu6"}),
    ("conv2d", (2, 4, 3, 2), (3, 2, 2, 2), {"padding": "same"}),
    ("conv2d", (1, 2, 3, 2), (3, 1, 1, 2), {"activation": "tanh"}),  # no clamp: numpy computes it
    ("fully_connected", (2, 3, 4), (5, 12), {"activation": "relu6"}),
    ("fully_connected", (1, 7), (3, 7), {"activation": "tanh"}),
]
OF_BYTES: list[Case] = [
    ("conv2d", (2, 3, 5, 4), (37, 1, 1, 4), {}),
    ("conv2d", (1, 5, 7, 8), (16, 1, 1, 8), {"stride": (2, 2), "activation": "relu"}),
    ("conv2d", (3, 6, 5, 3), (70, 3, 3, 3), {"padding": "same"}),
    ("conv2d", (1, 7, 9, 5), (9, 2, 3, 5), {"padding": "same", "dilation": (2, 2)}),
    ("conv2d", (1, 7, 9, 4), (9, 3, 2, 4), {"padding": ((3, 2), (1, 4)), "stride": (2, 3)}),
    ("conv2d", (1, 4, 4, 1), (6, 3, 3, 1), {"padding": "same"}),
    ("conv2d", (1, 9, 5, 2), (300, 3, 3, 2), {"padding": "same"}),
    ("conv2d", (1, 5, 22, 15), (105, 3, 2, 5), {"padding": "same", "stride": (1, 2), "activation": "relu"}),
    ("conv2d", (1, 9, 13, 32), (24, 1, 1, 8), {"stride": (1, 2), "activation": "relu6"}),
    ("conv2d", (1, 7, 9, 60), (60, 3, 3, 4), {"dilation": (2, 1), "activation": "relu"}),
    ("fully_connected", (31, 13), (5, 13), {"activation": "relu6"}),
    ("fully_connected", (1, 1, 300), (1, 300), {}),
    ("fully_connected", (2, 21), (347, 21), {"activation": "relu6"}),  # tiles of one pixel, some wide
    ("conv2d", (1, 2, 3, 60), (390, 2, 2, 20), {"activation": "relu"}),
    ("depthwise_conv2d", (1, 5, 5, 1), (1, 3, 3, 9), {"activation": "relu"}),  # many filters of one channel
    ("depthwise_conv2d", (2, 4, 6, 24), (1, 3, 3, 24), {"padding": "same"}),
    ("depthwise_conv2d", (1, 6, 7, 100), (1, 3, 3, 100), {"stride": (2, 2), "activation": "relu6"}),
    ("depthwise_conv2d", (1, 1, 1, 1), (1, 3, 3, 1), {"padding": "same", "activation": "relu"}),
    (
        "depthwise_conv2d",
        (1, 9, 8, 7),
        (1, 5, 2, 7),
        {"dilation": (2, 3), "padding": ((1, 3), (2, 4)), "activation": "relu"},
    ),
]
SEVERAL_BLOCKS: list[Case] = [
    ("conv2d", (1, 47, 53, 40), (9, 5, 5, 40), {"padding": "same"}),
    ("conv2d", (1, 79, 83, 32), (32, 1, 1, 8), {"activation": "relu"}),  # the last one is short
]
NOT_OF_BYTES: list[Case] = [
    ("conv2d", (0, 5, 4, 2), (6, 3, 3, 2), {}),
    ("conv2d", (0, 5, 4, 2), (6, 1, 1, 2), {}),
    ("depthwise_conv2d", (0, 5, 4, 8), (1, 3, 3, 8), {}),
    ("conv2d", (1, 5, 4, 4), (6, 3, 3, 2), {}),  # two groups, whose halves below zero go away from it
    ("depthwise_conv2d", (1, 4, 5, 9), (1, 3, 3, 9), {}),  # halves below zero go away from it
]
ZEROS = {DType.UINT8: (120, 0, 255), DType.INT8: (0,)}  # of filters, whose weights may leave 8 bits with them


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_numpy_multiplies_keeps_its_bits(case: Case, found: compiled.Loops) -> None:
    op, shape, filter, attrs = case
    value, weights, bias = random(3, *shape), random(1, *filter), random(2, filter[0])
    value.flags.writeable = False  # an input of a user
    got = real_layer(case, value, weights, bias)
    plain = {k: v for k, v in attrs.items() if k != "activation"}
    with compiled.in_use(None):
        expected = OPS[op].reference(value, weights, bias, **plain)
        if "activation" in attrs:
            expected = OPS[attrs["activation"]].reference(expected)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype, zero", [(dtype, zero) for dtype, zeros in ZEROS.items() for zero in zeros])
@pytest.mark.parametrize("case", [*CASES, *OF_CHANNELS, *OF_BYTES, *NOT_OF_BYTES], ids=str)
def test_stored_integers_have_the_bits_of_numpy(
    case: Case, dtype: DType, zero: int, found: compiled.Loops
) -> None:
    check_bits(case, dtype, zero)


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("dtype, zero", [(DType.INT8, 0), (DType.UINT8, 120)])
@pytest.mark.parametrize("case", SEVERAL_BLOCKS, ids=str)
def test_several_blocks_have_the_bits_of_numpy(case: Case, dtype: DType, zero: int) -> None:
    check_bits(case, dtype, zero)


def check_bits(case: Case, dtype: DType, zero: int) -> None:
    with np.errstate(all="ignore"):  # as in a run: products on ARM warn of lanes that they do not use
        run, values = layer(case, dtype, zero)
        (got,) = run(values)
        with compiled.in_use(None):
            run, _ = layer(case, dtype, zero)
            (expected,) = run(values)
    np.testing.assert_array_equal(got, expected)


def layer(case: Case, dtype: DType, zero: int) -> tuple[Any, list[Array]]:
    """Return a quantised layer for many runs, and what it takes. zero: of the filter."""
    op, shape, filter, stated = case
    attrs = {k: v for k, v in stated.items() if v != "tanh"}
    x, w = quantized(dtype, shape, 0.02, 5), quantized(dtype, filter, 0.01, zero)
    channels = filter[3] if op == "depthwise_conv2d" else filter[0]
    bias = np.random.default_rng(2).integers(-3000, 3000, channels).astype(np.int32)
    values, weights = stored(3, x), stored(4, w)
    model = Model(op)
    constants = [model.constant("w", weights, w), model.constant("b", bias)]
    wanted = quantized(dtype, (), 0.03, -1 if dtype is DType.INT8 else 30).quantization
    (y,) = model.add(op, [model.input("x", x), *constants], attrs, quantization=[wanted])
    model.output(y)
    return model.operations[0].prepared(), [values, weights, bias]


@pytest.mark.parametrize("case", [*OF_BYTES, *NOT_OF_BYTES], ids=str)
def test_bytes_are_read_where_they_lie(case: Case) -> None:
    asked: list[Array] = []

    def counted(loop: Any) -> Any:
        return lambda ends, x, *operands: (asked.append(x), loop(ends, x, *operands))

    assert INTEGERS.of_bytes is not None
    dots, channels, sizes = INTEGERS.of_bytes
    own = INTEGERS._replace(of_bytes=compiled.OfBytes(counted(dots), counted(channels), sizes))
    with compiled.in_use(compiled.Loops(None, own)):
        run, values = layer(case, DType.INT8, 0)
        run(values)
    assert bool(asked) == (case not in NOT_OF_BYTES)
    assert all(x.dtype == np.uint8 for x in asked)


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
@pytest.mark.parametrize("shape", [(), (0, 3), (63,), (5, 64), (3, 7, 11)])
def test_tables_are_looked_up(shape: tuple[int, ...], dtype: DType, found: compiled.Loops) -> None:
    x, table = stored(0, quantized(dtype, shape, 1.0)), stored(1, quantized(dtype, (256,), 1.0))
    for own in (x, x.T):
        got = read_table(own, table)
        np.testing.assert_array_equal(got, table[own.view(np.uint8)])
        assert got.dtype == table.dtype and got.shape == own.shape
