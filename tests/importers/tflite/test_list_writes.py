"""Rows that loops put into a list, by cutting it in two and joining the parts, against LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
from gpunn.passes import optimise
from gpunn.types import DType, TensorType, float32
from tests.importers.tflite.test_subgraphs import build
from tests.keras_loops import CELLS, Layer, layer_file
from tests.ops.harness import random
from tests.tflite_builder import Graph, litert_run

ROWS = float32(4, 2)
NUMBER = TensorType(DType.INT32, ())
RECURRENCES = {"rnn": "recurrence", "lstm": "lstm_recurrence", "gru": "gru_reset_after"}


@pytest.mark.parametrize("updates", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_layers_of_keras(cell: str, updates: bool, backend: str) -> None:
    layer = Layer(cell, 5, updates=updates)
    file, x = layer_file(layer), random(1, 1, 5, layer.features)
    model = gpunn.load(file)
    found = {o.op for o in optimise(model).operations}
    assert RECURRENCES[cell] in found and "while_loop" not in found
    with model.compile(backend) as compiled:
        np.testing.assert_allclose(compiled(x), litert_run(file, [x])[0], rtol=1e-5, atol=1e-6)


def put(
    count: int = 1,
    added: int = 1,
    axis: int = 0,
    activation: str = "NONE",
    packed: bool = False,
    sum_activation: str = "NONE",
) -> bytes:
    """(rows, i, flag) -> rows with row i replaced by `count` rows, in a branch for i to be computed."""
    inner, main = Graph(), Graph()
    rows, i = inner.input(ROWS, signature=None), inner.input(NUMBER)
    one = inner.constant(np.array([added], np.int32))
    single = TensorType(DType.INT32, (1,))
    (following,) = inner.add("ADD", [i, one], [single], {"fused_activation_function": sum_activation})
    shape = inner.constant(np.array([1], np.int32))
    pair = TensorType(DType.INT32, (2,))

    def vector(number: int, rest: int) -> int:
        if packed:
            (scalar,) = inner.add("RESHAPE", [number, inner.constant(np.zeros(0, np.int32))], [NUMBER])
            other = inner.constant(np.array(rest, np.int32))
            return inner.add("PACK", [scalar, other], [pair], {"axis": 0, "values_count": 2})[0]
        (alone,) = inner.add("RESHAPE", [number, shape], [single])
        return inner.add("CONCATENATION", [alone, inner.constant(np.array([rest], np.int32))], [pair])[0]

    sizes, begins = vector(i, -1), vector(following, 0)
    zeros, whole = inner.constant(np.zeros(2, np.int32)), inner.constant(np.full(2, -1, np.int32))
    (before,) = inner.add("SLICE", [rows, zeros, sizes], [ROWS], signatures=[(-1, 2)])
    (behind,) = inner.add("SLICE", [rows, begins, whole], [ROWS], signatures=[(-1, 2)])
    row = inner.constant(np.full((count, 2), -7, np.float32))
    options = {"axis": axis, "fused_activation_function": activation}
    (y,) = inner.add("CONCATENATION", [before, row, behind], [ROWS], options, signatures=[(-1, 2)])
    outer, j = main.input(ROWS), main.input(NUMBER)
    flag = main.input(TensorType(DType.BOOL, ()))
    branches = {"then_subgraph_index": 1, "else_subgraph_index": 1}
    (found,) = main.add("IF", [flag, outer, j], [ROWS], branches, signatures=[(-1, 2)])
    return build((main, [found]), (inner, [y]))


def waiting(file: bytes) -> bool:
    """Tell whether shapes of a file follow from values."""
    return bool(gpunn.load(file).pending)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("i", range(4))
def test_a_row_is_put_where_it_belongs(i: int, packed: bool, backend: str) -> None:
    file, x = put(packed=packed), random(0, 4, 2)
    inputs = [x, np.array(i, np.int32), np.array(True)]
    assert not waiting(file)
    with gpunn.load(file).compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(*inputs), litert_run(file, inputs)[0])


@pytest.mark.parametrize("i", [-2, 4, 9])
def test_a_list_without_that_row_is_refused(i: int, backend: str) -> None:
    inputs = [random(0, 4, 2), np.array(i, np.int32), np.array(True)]
    with (
        gpunn.load(put()).compile(backend) as compiled,
        pytest.raises(
            gpunn.ModelError, match=rf"dynamic_update_slice: starts must be in 0 \.\.\. 3, got {i}"
        ),
    ):
        compiled(*inputs)


@pytest.mark.parametrize(
    "change",
    [
        {"added": 2},
        {"count": 2},
        {"sum_activation": "RELU"},
    ],
)
def test_what_only_looks_like_it_is_computed_as_it_stands(change: dict[str, object], backend: str) -> None:
    file, x = put(**change), random(0, 4, 2)  # type: ignore[arg-type]
    assert waiting(file)
    with gpunn.load(file).compile(backend) as compiled:
        for i in (0, 1, 2):
            inputs = [x, np.array(i, np.int32), np.array(True)]
            np.testing.assert_array_equal(compiled(*inputs), litert_run(file, inputs)[0])


@pytest.mark.parametrize("change", [{"activation": "RELU"}, {"axis": 1}])
def test_what_joins_in_another_way_waits_for_values(change: dict[str, object]) -> None:
    assert waiting(put(**change))  # type: ignore[arg-type]
