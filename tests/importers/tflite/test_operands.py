"""Parameters that change no shape are operands: one program for all values, and LiteRT's results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.types import Array, DType, Quantization, TensorType
from tests.importers.tflite.case import ints
from tests.ops.harness import random, type_of
from tests.ops.quantized import stored
from tests.tflite_builder import Graph, litert_run

X = random(1, 3, 4)
BYTES = (X * 20).astype(np.int8)
WINDOW = [np.array(v, np.int64) for v in ((2, 2), (1, 2), (1, 1))]
BOXES = np.round(random(2, 20, 4, low=0, high=4) * 16) / 16
# Operator, inputs (a constant, or None for the input of the model), its values, the results, options.
CASES: list[tuple[str, Sequence[Array | None], Array, Sequence[TensorType], Mapping[str, Any]]] = [
    ("PADV2", [X, ints([1, 0], [0, 2]), None], X[0], [type_of(np.zeros((4, 6), np.float32))], {}),
    ("PADV2", [BYTES, ints([1, 0], [0, 2]), None], BYTES[0], [type_of(np.zeros((4, 6), np.int8))], {}),
    ("DILATE", [X, ints(2, 3), None], X[0], [type_of(np.zeros((5, 10), np.float32))], {}),
    (
        "REDUCE_WINDOW",
        [X, None, *WINDOW],
        X[0],
        [type_of(np.zeros((2, 2), np.float32))],
        {"reduce_function": 4},
    ),
    (
        "NON_MAX_SUPPRESSION_V4",
        [BOXES, random(3, 20), ints(5)[0], None, np.float32(0)],
        np.array([0.25, 0.5, 1], np.float32),
        [type_of(ints(*[0] * 5)), TensorType(DType.INT32, ())],
        {},
    ),
]


@pytest.mark.parametrize(("operator", "inputs", "values", "results", "options"), CASES)
def test_one_program_for_all_values(
    operator: str,
    inputs: Sequence[Array | None],
    values: Array,
    results: Sequence[TensorType],
    options: Mapping[str, Any],
    backend: str,
) -> None:
    graph = Graph()
    x = graph.input(type_of(np.asarray(inputs[0])))
    number = type_of(values[0])
    others = [graph.input(number) if v is None else graph.constant(v) for v in inputs[1:]]
    data = graph.build(graph.add(operator, [x, *others], results, options))
    with gpunn.load(data).compile(backend) as compiled:
        for value in values:
            found = compiled(inputs[0], value)
            wanted = litert_run(data, [np.asarray(inputs[0]), value])
            for y, expected in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
                np.testing.assert_array_equal(y, expected)
        assert compiled.stats.programs == 1


def test_stablehlo_pad(backend: str) -> None:
    """LiteRT takes no computed padding value."""
    graph = Graph()
    x, value = graph.input(type_of(X)), graph.input(TensorType(DType.FLOAT32, ()))
    options = {
        "edge_padding_low": np.array([1, -1]),
        "edge_padding_high": np.array([0, 2]),
        "interior_padding": np.array([1, 0]),
    }
    data = graph.build(
        graph.add("STABLEHLO_PAD", [x, value], [type_of(np.zeros((6, 5), np.float32))], options)
    )
    with gpunn.load(data).compile(backend) as compiled:
        for number in (0.5, -2, np.inf):
            expected = np.full((6, 5), number, np.float32)
            expected[1::2, :3] = X[:, 1:]
            np.testing.assert_array_equal(compiled(X, np.float32(number)), expected)
        assert compiled.stats.programs == 1


def test_a_fill_of_another_kind_is_refused() -> None:
    graph = Graph()
    x, value = graph.input(type_of(X)), graph.input(TensorType(DType.FLOAT32, (2,)))
    paddings = graph.constant(ints([1, 0], [0, 2]))
    found = graph.add("PADV2", [x, paddings, value], [type_of(np.zeros((4, 6), np.float32))])
    with pytest.raises(gpunn.FormatError, match="expected one padding value, got 2"):
        gpunn.load(graph.build(found))


Q8 = TensorType(DType.INT8, (3, 4), Quantization((0.5,), (-7,)))
IMAGE, CELLS = random(2, 2, 3, 5, 2), random(3, 8, 2, 3, 2)
# Operator, x or its type, other inputs (None: the input of the model), its values, how many shapes these lead
# to, and options. The last values of each are those of another shape.
BORDERS: list[tuple[str, Array | TensorType, Sequence[Any], Sequence[Any], int, Mapping[str, Any]]] = [
    ("PAD", X, [None], [[[0, 3], [1, 1]], [[3, 0], [0, 2]], [[1, 2], [2, 0]], [[1, 1], [2, 0]]], 2, {}),
    ("PAD", Q8, [None], [[[0, 3], [1, 1]], [[3, 0], [0, 2]], [[0, 0], [0, 0]]], 2, {}),
    ("PAD", X > 0, [None], [[[0, 3], [1, 1]], [[3, 0], [0, 2]]], 1, {}),
    ("PADV2", X, [None, np.float32(2.5)], [[[0, 3], [1, 1]], [[2, 1], [2, 0]]], 1, {}),
    ("MIRROR_PAD", X, [None], [[[0, 2], [1, 2]], [[2, 0], [0, 3]], [[1, 1], [3, 0]]], 1, {"mode": "REFLECT"}),
    (
        "MIRROR_PAD",
        X,
        [None],
        [[[0, 3], [4, 0]], [[3, 0], [1, 3]], [[0, 0], [4, 4]]],
        2,
        {"mode": "SYMMETRIC"},
    ),
    (
        "SPACE_TO_BATCH_ND",
        IMAGE,
        [ints(2, 3), None],
        [[[0, 1], [1, 0]], [[1, 0], [0, 1]], [[3, 0], [4, 0]]],
        2,
        {},
    ),
    (
        "BATCH_TO_SPACE_ND",
        CELLS,
        [ints(2, 2), None],
        [[[0, 1], [2, 0]], [[1, 0], [1, 1]], [[0, 0], [0, 0]]],
        2,
        {},
    ),
]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("operator", "x", "others", "values", "shapes", "options"), BORDERS)
def test_one_program_for_all_borders_of_a_size(
    operator: str,
    x: Array | TensorType,
    others: Sequence[Any],
    values: Sequence[Any],
    shapes: int,
    options: Mapping[str, Any],
    dtype: Any,
    backend: str,
) -> None:
    graph, rank = Graph(), np.ndim(x) if isinstance(x, np.ndarray) else x.rank
    type = x if isinstance(x, TensorType) else type_of(x)
    given = stored(4, x) if isinstance(x, TensorType) else x
    amounts = type_of(np.array(values[0], dtype))
    more = [graph.input(amounts) if v is None else graph.constant(v) for v in others[:]]
    x_number = graph.input(type)
    result = type.with_shape((1,) * rank)
    made = graph.add(operator, [x_number, *more], [result], options, signatures=[(-1,) * rank])
    data = graph.build(made)
    with gpunn.load(data).compile(backend) as compiled:
        for value in values:
            inputs = [np.array(value, dtype), given]
            found = compiled(*inputs)
            if dtype is np.int32 or not operator.endswith("ND"):
                np.testing.assert_array_equal(found, litert_run(data, inputs)[0])
        assert compiled.stats.programs == shapes + 1, "one more gives the shape"
    with gpunn.load(data).compile("cpu") as compiled, pytest.raises(gpunn.GpunnError):
        compiled(np.array(values[0], dtype) - 9, given)
