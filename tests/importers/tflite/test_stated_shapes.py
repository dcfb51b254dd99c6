"""Results have the shapes that follow from the inputs, as in LiteRT; a warning names others in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.model import load
from gpunn.types import Array, DType, TensorType, float32
from tests.tflite_builder import Graph, litert_run, single_op

BOXES = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [2, 2, 3, 3], [5, 5, 6, 6]], np.float32)
INT32 = DType.INT32


@pytest.mark.parametrize(
    ("operator", "inputs", "stated", "options"),
    [
        ("RELU", [float32(1, 4)], [float32(1, 5)], {}),
        ("RELU", [float32(2, 3)], [float32(6)], {}),
        ("ADD", [float32(2, 1), float32(3)], [float32(2, 1)], {}),
        ("CONCATENATION", [float32(2, 3), float32(2, 2)], [float32(2, 3)], {"axis": 1}),
        ("TRANSPOSE", [float32(2, 3), np.array([1, 0], np.int32)], [float32(2, 3)], {}),
        ("SUM", [float32(2, 3), np.array([1], np.int32)], [float32(2, 1)], {"keep_dims": False}),
        ("BATCH_MATMUL", [float32(2, 3), float32(3, 4)], [float32(1, 2, 4)], {}),
        (
            "NON_MAX_SUPPRESSION_V4",
            [BOXES, float32(4), np.array(3, np.int32), np.float32(0.5), np.float32(-9)],
            [TensorType(INT32, (1, 3)), TensorType(INT32, ())],  # as TensorFlow's converter writes it
            {},
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_result_has_the_shape_from_the_inputs(
    operator: str,
    inputs: Sequence[Array | TensorType],
    stated: Sequence[TensorType],
    options: Mapping[str, Any],
    backend: str,
) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    file = single_op(
        operator, [np.asarray(i) if not isinstance(i, TensorType) else i for i in inputs], stated, options
    )
    rng = np.random.default_rng(4)
    values = [rng.integers(-4, 5, i.shape).astype(np.float32) for i in inputs if isinstance(i, TensorType)]
    model = load(file)
    with model.compile(backend=backend) as compiled:
        found = compiled(*values)
    answers = litert_run(file, values)
    for y, answer, output in zip(
        found if isinstance(found, tuple) else (found,), answers, model.outputs, strict=True
    ):
        np.testing.assert_array_equal(y, answer)
        assert y.shape == answer.shape == output.type.shape
    (warning,) = model.warnings
    expected = (
        f"has shape {list(stated[0].shape)} in the file, expected {list(answers[0].shape)} from the inputs"
    )
    assert warning.startswith(f"operation 0, {operator}: output ") and expected in warning


def test_later_operators_read_the_shape_from_the_inputs(backend: str) -> None:
    graph = Graph()
    x = graph.input(float32(2, 3))
    (turned,) = graph.add("TRANSPOSE", [x, graph.constant(np.array([1, 0], np.int32))], [float32(2, 3)])
    (shape,) = graph.add("SHAPE", [turned], [TensorType(INT32, (2,))], {"out_type": "INT32"})
    model = load(graph.build([turned, shape]))
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    with model.compile(backend=backend) as compiled:
        found, extents = compiled(value)
    np.testing.assert_array_equal(found, value.T)
    assert extents.tolist() == [3, 2]
    assert len(model.warnings) == 1
