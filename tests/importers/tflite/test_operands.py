"""Parameters that change no shape are operands: one program for all values, and LiteRT's results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.types import Array, DType, TensorType
from tests.importers.tflite.case import ints
from tests.ops.harness import random, type_of
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
