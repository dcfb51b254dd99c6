"""Prepared references against the references themselves: the same bits, as they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operation
from gpunn.model import Model
from gpunn.ops.elementwise import binary, unary
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.ops.harness import model_of, random

INDEX = np.array(2, np.int32)
SHAPES: tuple[tuple[int, ...], ...] = ((), (7,), (1, 5), (3, 1, 6), (1, 1, 1, 9), (2, 3, 4, 5))
BROADCAST = (((3, 1, 5), (1, 4, 1)), ((6,), (2, 3, 6)), ((4, 1), (1, 1)), ((2, 3), (2, 3)), ((), ()))
WITH_ATTRIBUTES = {"leaky_relu": {"alpha": 0.3}, "fake_quant": {"min": -1.0, "max": 1.0}}
Case = tuple[str, Sequence[Array], Mapping[str, Any]]


def numbers(seed: int, shape: Sequence[int], dtype: DType) -> Array:
    found = random(seed, *shape) if dtype is DType.FLOAT32 else random(seed, *shape, low=-50, high=50)
    return np.asarray(found, dtype.numpy)


def elementwise() -> list[Case]:
    types = (DType.FLOAT32, DType.INT32, DType.INT64)
    ones = [
        (line.name, [numbers(k, shape, dtype)], WITH_ATTRIBUTES.get(line.name, {}))
        for line in unary.TABLE
        for dtype in types
        if dtype in line.dtypes
        for k, shape in enumerate(SHAPES)
    ]
    twos = [
        (line.name, [numbers(k, a, dtype), numbers(k + 9, b, dtype)], {})
        for line in binary.TABLE
        for dtype in types
        if dtype in line.dtypes
        for k, (a, b) in enumerate(BROADCAST)
        if line.name != "prelu"
    ]
    return [*ones, *twos]


MOVED: list[Case] = [
    *(("split", [random(0, *s)], {"sizes": (2, 3), "axis": -1}) for s in ((5,), (1, 5), (1, 1, 5), (4, 5))),
    ("split", [random(1, 5, 3)], {"sizes": (1, 4), "axis": 0}),
    ("unstack", [random(2, 3, 4)], {"axis": 0}),
    ("reshape", [random(3, 3, 4)], {"shape": (2, -1)}),
    ("squeeze", [random(4, 3, 1, 4)], {"axes": (1,)}),
    *(
        ("strided_slice", [random(5, 4, 6)], {"begin": b, "end": e, "strides": s, "shrink_axes": axes})
        for b, e, s, axes in (
            ((None, 2), (None, 5), (1, 1), ()),
            ((1, 0), (2, 6), (1, 1), (0,)),
            ((0, 1), (4, 2), (1, 1), (1,)),
            ((None, None), (None, None), (-1, 2), ()),
        )
    ),
    ("concat", [random(6, 2, 3), random(7, 2, 5)], {"axis": 1}),
    ("concat", [random(6, 2, 3), random(7, 4, 3)], {"axis": -2, "activation": "relu"}),
]
SUMS: list[Case] = [
    ("reduce_sum", [numbers(11, (2, 3, 4), dtype)], {"axes": axes, "keep_dims": keep})
    for dtype in (DType.FLOAT32, DType.INT32, DType.INT64)
    for axes, keep in (((0, 1, 2), False), ((-1,), True), ((1, 0), False), ((), False))
]
ROWS: list[Case] = [
    *(
        ("softmax", [random(12, *s)], {"axis": -1, "beta": beta})
        for s in ((1, 7), (3, 9))
        for beta in (1.0, 2.5)
    ),
    ("softmax", [random(13, 3, 4, 5)], {"axis": 1}),
    ("mean", [random(14, 2, 3, 4)], {"axes": (1, -1, 2), "keep_dims": True}),
    ("mean", [random(15, 3, 4)], {"axes": ()}),
]
LARGE: list[Case] = [
    ("add", [random(16, 90, 300), random(17, 90, 300)], {"activation": "relu6"}),
    ("sub", [random(18, 9, 100, 30), random(19, 30)], {"activation": "relu"}),
    ("mul", [random(20, 90, 300), random(21, 1)], {"activation": "tanh"}),
    ("max_pool2d", [random(22, 2, 30, 31, 24)], {"size": (3, 2), "stride": (2, 1), "padding": "same"}),
    ("max_pool2d", [random(23, 1, 40, 40, 24)], {"size": (1, 1), "stride": (1, 1), "activation": "relu"}),
    ("max_pool2d", [random(24, 1, 41, 40, 24)], {"size": (1, 1), "stride": (2, 3), "activation": "relu"}),
    ("average_pool2d", [random(25, 2, 9, 8, 200)], {"size": (9, 8)}),
]
PRODUCTS: list[Case] = [
    ("fully_connected", [random(8, *shape), random(9, 5, 12), *bias], {"keep_dims": keep, "activation": how})
    for shape, keep in (((1, 12), False), ((3, 12), False), ((2, 3, 12), True), ((2, 2, 6), False))
    for bias in ([], [random(10, 5)])
    for how in (None, "tanh")
]


def expect_same(operation: Operation, inputs: Sequence[Array]) -> None:
    direct = operation.direct()
    assert direct is not None
    expected = operation.stored(operation.evaluate(inputs))
    bound = operation.bound()
    with np.errstate(all="ignore"):
        found = direct(*inputs)
        if bound is not None:
            np.testing.assert_array_equal(bound()(inputs[0]), found)
    for y, z in zip(found if len(expected) > 1 else (found,), expected, strict=True):
        assert type(y) is np.ndarray
        assert y.flags.c_contiguous
        assert (y.dtype, y.shape) == (z.dtype, z.shape)
        assert y.tobytes() == z.tobytes()


@pytest.mark.parametrize(
    "case",
    [*elementwise(), *MOVED, *SUMS, *ROWS, *LARGE, *PRODUCTS],
    ids=lambda case: f"{case[0]}{[(v.dtype.name, v.shape) for v in case[1]]}{[*case[2].values()]}",
)
def test_bits_and_layout(case: Case) -> None:
    op, inputs, attrs = case
    constants = (1, 2) if op == "fully_connected" else ()
    (operation,) = model_of(op, inputs, attrs, [k for k in constants if k < len(inputs)]).operations
    expect_same(operation, inputs)


def test_one_slice_where_its_index_is_known_to_be_inside() -> None:
    x = random(0, 4, 3)
    checked = model_of("gather", [x, INDEX], {}).operations[0]
    assert checked.direct() is None
    expect_same(
        Operation("gather", checked.inputs, checked.outputs, checked.attrs, "", trusted=True), [x, INDEX]
    )


def test_constants_behind_the_first_input_are_bound() -> None:
    inputs = [random(8, 3, 12), random(9, 5, 12), random(10, 5)]
    for constants, known in (((1, 2), True), ((1,), False), ((0, 1, 2), False)):
        (operation,) = model_of("fully_connected", inputs, {}, constants).operations
        assert (operation.bound() is not None) == known
    assert model_of("add", inputs[:1] * 2, {}, (1,)).operations[0].bound() is None


@pytest.mark.parametrize("stored", [True, False])
def test_constants_of_quantised_products_are_bound(stored: bool) -> None:
    rng, steps = np.random.default_rng(0), Quantization((0.1,), (3,))
    model = Model("product")
    inputs = [rng.integers(-128, 128, s).astype(np.int8) for s in ((2, 7, 5, 4), (6, 1, 1, 4))]
    x = model.input("x", TensorType(DType.INT8, inputs[0].shape, steps) if stored else float32(2, 7, 5, 4))
    filter = TensorType(DType.INT8, inputs[1].shape, Quantization((0.1,), (0,)))
    results = [steps if stored else None]
    model.output(*model.add("conv2d", [x, model.constant("w", inputs[1], filter)], quantization=results))
    (operation,) = model.operations
    assert operation.bound() is not None
    expect_same(operation, [inputs[0] if stored else inputs[0].astype(np.float32), inputs[1]])


def test_what_needs_more_has_none() -> None:
    for x in (random(0, 4).astype(np.float16), np.zeros(0, np.float32)):
        assert model_of("tanh", [x], {}).operations[0].direct() is None
    model = model_of("tanh", [random(0, 4)], {})
    steps = TensorType(DType.INT8, (4,), Quantization((0.1,), (0,)))
    model.add("dequantize", [model.input("q", steps)])
    assert model.operations[1].direct() is None


def test_a_logistic_is_between_0_and_1_and_keeps_nan() -> None:
    x = np.array([-np.inf, -200, -1, -0.0, 0, 1, 200, np.inf, np.nan], np.float32)
    (operation,) = model_of("logistic", [x], {}).operations
    (y,) = operation.evaluate([x])
    with np.errstate(over="ignore"):
        exact = 1 / (1 + np.exp(-x.astype(np.float64)))
    np.testing.assert_allclose(y, exact, rtol=1e-6, atol=1e-45)
    assert y[0] == 0 and y[3] == y[4] == 0.5 and y[7] == 1 and np.isnan(y[8])
